package views

import (
	"context"
	"time"

	"fusebox/views/messages"
)

// StripView is a day of a circuit: when it was open and when it probed.
type StripView struct {
	ID       string
	From, To time.Time
	Pieces   []StripPiece // in order; closed in between
	Times    int          // stretches without a closing in between
	Unknown  time.Time    // what came before it was not read; zero: all was
}

// StripPiece is a stretch in which the circuit was not closed.
type StripPiece struct {
	State     string // open, half_open
	At, Until time.Time
}

// stripGrain is the finest stretch a strip shows; pieces closer than that become one,
// so a circuit that flaps all day draws no thousand rectangles.
const stripGrain = 1.0 / 480

// drawn are the pieces as they are drawn: a probe that led back to open is part of it.
func (v StripView) drawn() []StripPiece {
	grain := time.Duration(float64(v.To.Sub(v.From)) * stripGrain)
	var out []StripPiece
	for _, p := range v.Pieces {
		if n := len(out) - 1; n >= 0 && p.At.Sub(out[n].Until) < grain && (p.State == out[n].State || p.Until.Sub(p.At) < grain || out[n].Until.Sub(out[n].At) < grain) {
			out[n].Until = p.Until
			if p.State == "open" {
				out[n].State = "open"
			}
			continue
		}
		out = append(out, p)
	}
	return out
}

// blocked is how long calls were refused, all together.
func (v StripView) blocked() time.Duration {
	var sum time.Duration
	for _, p := range v.Pieces {
		sum += p.Until.Sub(p.At)
	}
	return sum
}

// words are the strip for those who do not see it, and its caption for those who do.
func (v StripView) words(ctx context.Context) string {
	if len(v.Pieces) == 0 {
		return T(ctx, "circuit.strip.never")
	}
	return N(ctx, "circuit.strip.open", int64(v.Times), "Span", hoursAndMinutes(ctx, v.blocked()))
}

// hoursAndMinutes prints a sum of time: 1 h 30 min, where whole hours would hide half of it.
func hoursAndMinutes(ctx context.Context, d time.Duration) string {
	if minutes := d % time.Hour; d >= time.Hour && minutes >= time.Minute {
		return messages.Span(ctx, d-minutes) + " " + messages.Span(ctx, minutes)
	}
	return messages.Span(ctx, d)
}

// label of a piece, for a pointer over it.
func (p StripPiece) label(ctx context.Context) string {
	return Opt(ctx, "circuit.", p.State) + ", " + messages.Clock(ctx, p.At) + "–" + messages.Clock(ctx, p.Until)
}

// A probing stretch is half as tall as an open one: told apart without colour.
func (p StripPiece) top() string {
	if p.State == "open" {
		return "0.5"
	}
	return "6"
}

func (p StripPiece) height() string {
	if p.State == "open" {
		return "11"
	}
	return "5.5"
}
