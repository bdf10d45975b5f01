package views

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fusebox/views/messages"
)

// The chart has no drawing space of its own: across, everything is a share of its
// width; down, everything is in pixels. So it fits a phone and a wide screen alike,
// and its letters are never scaled.
const (
	chartTop   = 18 // of the columns
	chartTall  = 132
	chartFloor = chartTop + chartTall

	latencyTop   = chartFloor + 44
	latencyTall  = 34
	latencyFloor = latencyTop + latencyTall

	realTop     = latencyFloor + 30
	replayedTop = realTop + 36
	stripTall   = 12
	chartHeight = replayedTop + stripTall + 2
)

// maxTicks on the axis; every second one is left out on a phone.
const maxTicks = 8

// tickSteps are distances people read easily on an axis.
var tickSteps = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour}

// share is where a moment is across a range, as SVG reads it: "37.5%".
func share(from, to, at time.Time) string {
	return percent(float64(at.Sub(from)) / float64(max(to.Sub(from), 1)))
}

func percent(v float64) string {
	s := strconv.FormatFloat(min(max(v, 0), 1)*100, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}

// width is how wide a stretch is, never less than a hair.
func width(from, to, at, until time.Time) string {
	v := float64(until.Sub(at)) / float64(max(to.Sub(from), 1))
	return percent(max(v, 0.002))
}

func px(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// chartBar is one part of a column.
type chartBar struct {
	Class          string // ok, fail, neutral
	X, Y, W, H     string
	bucket, amount int
}

// bars are the columns' parts from the floor up: ok, neutral, fail. Fail is on top,
// where the eye is.
func (c ChartView) bars() []chartBar {
	top, step := c.most(), c.step()
	var out []chartBar
	for i, b := range c.Buckets {
		y := float64(chartFloor)
		gap := time.Duration(float64(step) * 0.12)
		for _, part := range []struct {
			class string
			n     int
		}{{"ok", b.OK}, {"neutral", b.Neutral}, {"fail", b.Fail}} {
			if part.n == 0 {
				continue
			}
			h := max(float64(part.n)/float64(top)*chartTall, 1)
			y -= h
			at, until := later(b.At, c.From), sooner(b.At.Add(step-gap), c.To)
			out = append(out, chartBar{Class: part.class, X: share(c.From, c.To, at), Y: px(y),
				W: width(c.From, c.To, at, until), H: px(h), bucket: i, amount: part.n})
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// step is the length of a column.
func (c ChartView) step() time.Duration {
	if len(c.Buckets) > 1 {
		return c.Buckets[1].At.Sub(c.Buckets[0].At)
	}
	return max(c.To.Sub(c.From), 1)
}

// most is the tallest column, as the scale's top.
func (c ChartView) most() int {
	top := 1
	for _, b := range c.Buckets {
		top = max(top, b.calls())
	}
	return top
}

// slowest is the top of the latency scale; zero without calls.
func (c ChartView) slowest() time.Duration {
	var top time.Duration
	for _, b := range c.Buckets {
		top = max(top, b.P95)
	}
	return top
}

// chartLine is one straight piece.
type chartLine struct{ X1, Y1, X2, Y2 string }

// latency is the p95 as steps: a flat piece for each column with calls, joined to its
// neighbour; it is interrupted where nothing was called.
func (c ChartView) latency() []chartLine {
	top, step := c.slowest(), c.step()
	if top == 0 {
		return nil
	}
	y := func(d time.Duration) string { return px(latencyFloor - float64(d)/float64(top)*latencyTall) }
	var out []chartLine
	for i, b := range c.Buckets {
		if b.calls() == 0 {
			continue
		}
		left, right := share(c.From, c.To, later(b.At, c.From)), share(c.From, c.To, sooner(b.At.Add(step), c.To))
		if i > 0 && c.Buckets[i-1].calls() > 0 {
			out = append(out, chartLine{left, y(c.Buckets[i-1].P95), left, y(b.P95)})
		}
		out = append(out, chartLine{left, y(b.P95), right, y(b.P95)})
	}
	return out
}

// chartTick is one label of the axis.
type chartTick struct {
	X, Label string
	Minor    bool // left out on a phone
}

// ticks are round moments of the reader's zone.
func (c ChartView) ticks(ctx context.Context) []chartTick {
	zone := messages.From(ctx).Zone
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if c.To.Sub(c.From) <= maxTicks*s {
			step = s
			break
		}
	}
	_, offset := c.From.In(zone).Zone()
	away := time.Duration(offset) * time.Second
	var out []chartTick
	for at := c.From.Add(away).Truncate(step).Add(-away); at.Before(c.To); at = at.Add(step) {
		where := float64(at.Sub(c.From)) / float64(c.To.Sub(c.From))
		if where < 0.03 || where > 0.97 {
			continue // it would be cut at the edge
		}
		out = append(out, chartTick{X: percent(where), Label: tickLabel(at.In(zone), step), Minor: len(out)%2 == 1})
	}
	return out
}

// tickLabel is a clock time, or the day at midnight.
func tickLabel(at time.Time, step time.Duration) string {
	if step >= 24*time.Hour || (at.Hour() == 0 && at.Minute() == 0) {
		return at.Format("01-02")
	}
	return at.Format("15:04")
}

// chartStretch is one piece of a strip.
type chartStretch struct{ Class, X, W, Label string }

func (c ChartView) strip(periods []ChartPeriod) []chartStretch {
	out := make([]chartStretch, 0, len(periods))
	for _, p := range periods {
		class := "chart-open"
		if p.Guess {
			class += " chart-guess"
		}
		at, until := later(p.At, c.From), sooner(p.Until, c.To)
		out = append(out, chartStretch{Class: class, X: share(c.From, c.To, at), W: width(c.From, c.To, at, until), Label: p.Label})
	}
	return out
}

// desc is the chart in words, for those who do not see it.
func (c ChartView) desc(ctx context.Context) string {
	var ok, fail, neutral int
	for _, b := range c.Buckets {
		ok, fail, neutral = ok+b.OK, fail+b.Fail, neutral+b.Neutral
	}
	return T(ctx, "tuning.chart.desc", "From", Absolute(ctx, c.From), "To", Absolute(ctx, c.To), "OK", Num(ctx, int64(ok)),
		"Fail", Num(ctx, int64(fail)), "Neutral", Num(ctx, int64(neutral)), "Real", Num(ctx, int64(len(c.Real))), "Replayed", Num(ctx, int64(len(c.Replayed))))
}

// title of a column's part: what a pointer over it shows.
func (c ChartView) title(ctx context.Context, b chartBar) string {
	at := c.Buckets[b.bucket].At
	return fmt.Sprintf("%s: %s %s", messages.Clock(ctx, at), Num(ctx, int64(b.amount)), Opt(ctx, "verdict_of_call.", b.Class))
}
