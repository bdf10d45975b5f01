package circuits

// A report in sentences of the context's language: the console shows them, the command
// line prints the English ones.

import (
	"context"
	"strconv"
	"strings"
	"time"

	"fusebox/breaker"
	"fusebox/views/messages"
)

// Rules says what opens a circuit: "8 failures in 1 min or 50 % failures of at least
// 20 calls in 1 min".
func Rules(ctx context.Context, s breaker.Settings) string {
	var rules []string
	for _, r := range []struct {
		on   bool
		text func(context.Context, breaker.Settings) string
	}{{s.Failures > 0, countRule}, {s.Rate > 0, rateRule}, {s.SlowRate > 0, slowRule}} {
		if r.on {
			rules = append(rules, r.text(ctx, s))
		}
	}
	return strings.Join(rules, " "+messages.T(ctx, "tuning.rule.or")+" ")
}

// Difference says in what settings differ from those in force: "8 failures in 1 min and
// an open time of 2 min".
func Difference(ctx context.Context, inForce, s breaker.Settings) string {
	inForce, s = inForce.WithDefaults(), s.WithDefaults()
	var parts []string
	differs := func(same, on bool, text func(context.Context, breaker.Settings) string, off string) {
		switch {
		case same:
		case on:
			parts = append(parts, text(ctx, s))
		default:
			parts = append(parts, messages.T(ctx, off))
		}
	}
	differs(s.Failures == inForce.Failures && s.Window == inForce.Window, s.Failures > 0, countRule, "tuning.rule.no_count")
	differs(s.Rate == inForce.Rate && (s.Rate == 0 || s.MinCalls == inForce.MinCalls), s.Rate > 0, rateRule, "tuning.rule.no_rate")
	differs(s.SlowCall == inForce.SlowCall && s.SlowRate == inForce.SlowRate && (s.SlowRate == 0 || s.MinCalls == inForce.MinCalls), s.SlowRate > 0, slowRule, "tuning.rule.no_slow")
	if s.OpenFor != inForce.OpenFor {
		parts = append(parts, messages.T(ctx, "tuning.rule.open_for", "Span", Span(ctx, s.OpenFor)))
	}
	if len(parts) == 0 {
		return messages.T(ctx, "tuning.rule.same")
	}
	return strings.Join(parts, " "+messages.T(ctx, "tuning.rule.and")+" ")
}

func countRule(ctx context.Context, s breaker.Settings) string {
	if s.Window > 0 {
		return messages.N(ctx, "tuning.rule.window", int64(s.Failures), "Span", Span(ctx, s.Window))
	}
	return messages.N(ctx, "tuning.rule.row", int64(s.Failures))
}

func rateRule(ctx context.Context, s breaker.Settings) string {
	return messages.N(ctx, "tuning.rule.rate", int64(s.MinCalls), "Share", messages.Percent(ctx, s.Rate), "Span", Span(ctx, s.RateWindow))
}

func slowRule(ctx context.Context, s breaker.Settings) string {
	return messages.N(ctx, "tuning.rule.slow", int64(s.MinCalls), "Share", messages.Percent(ctx, s.SlowRate), "Limit", Span(ctx, s.SlowCall))
}

// Span prints a setting without rounding it: 90 s, 2 min, 1.5 s.
func Span(ctx context.Context, d time.Duration) string {
	n, unit := int64(d/time.Second), "time.unit.second"
	switch {
	case d%time.Second != 0:
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "\u00a0" + messages.T(ctx, unit)
	case d > 0 && d%time.Hour == 0:
		n, unit = int64(d/time.Hour), "time.unit.hour"
	case d > 0 && d%time.Minute == 0:
		n, unit = int64(d/time.Minute), "time.unit.minute"
	}
	return messages.Num(ctx, n) + "\u00a0" + messages.T(ctx, unit)
}

// Headline says in a few sentences what the settings would have done.
func Headline(ctx context.Context, r Report) []string {
	if r.Calls == 0 {
		return []string{messages.T(ctx, "tuning.say.no_calls")}
	}
	rules, real := Difference(ctx, r.InForce, r.Settings), messages.N(ctx, "tuning.times", int64(r.OpenedByItself()))
	var out []string
	switch n := len(r.Replayed); {
	case n == 0 && r.OpenedByItself() == 0:
		return []string{messages.T(ctx, "tuning.say.neither", "Rules", rules)}
	case n == 0:
		return []string{messages.T(ctx, "tuning.say.fewer", "Rules", rules, "Real", real)}
	case n == 1 && r.Replayed[0].Compared == Earlier:
		o := r.Replayed[0]
		out = append(out, messages.T(ctx, "tuning.say.earlier", "Rules", rules, "Time", messages.Clock(ctx, o.At), "Span", messages.Span(ctx, o.Earlier)))
	case n == 1:
		o := r.Replayed[0]
		out = append(out, messages.T(ctx, "tuning.say.opened", "Rules", rules, "Time", messages.Clock(ctx, o.At), "How", ComparedWords(ctx, o)))
	default:
		out = append(out, messages.T(ctx, "tuning.say.times", "Rules", rules, "Times", messages.N(ctx, "tuning.times", int64(n)), "Real", real))
		if o, ok := r.firstEarlier(); ok {
			out = append(out, messages.T(ctx, "tuning.say.first", "Time", messages.Clock(ctx, o.At), "How", ComparedWords(ctx, o)))
		}
	}
	out = append(out, messages.N(ctx, "tuning.say.spared", int64(r.Spared)))
	if r.Lost > 0 {
		out = append(out, messages.N(ctx, "tuning.say.lost", int64(r.Lost)))
	}
	return out
}

func (r Report) firstEarlier() (Opening, bool) {
	for _, o := range r.Replayed {
		if o.Compared == Earlier {
			return o, true
		}
	}
	return Opening{}, false
}

// ComparedWords says how a replayed opening relates to what happened: "6 min earlier".
func ComparedWords(ctx context.Context, o Opening) string {
	switch o.Compared {
	case Earlier:
		return messages.T(ctx, "tuning.compared.earlier", "Span", messages.Span(ctx, o.Earlier))
	case Same:
		return messages.T(ctx, "tuning.compared.same")
	case Extra:
		return messages.T(ctx, "tuning.compared.extra")
	}
	return messages.T(ctx, "tuning.compared.blind")
}

// RealWords says what is to say of a real opening; mostly nothing.
func RealWords(ctx context.Context, o RealOpening) string {
	switch {
	case o.ByHand:
		return messages.T(ctx, "tuning.compared.by_hand")
	case o.Missed:
		return messages.T(ctx, "tuning.compared.missed")
	}
	return ""
}

// Cannot lists what the replay does not know, the gravest first.
func Cannot(ctx context.Context, r Report) []string {
	out := []string{messages.T(ctx, "tuning.cannot.blocked")}
	if n := r.Blind(); n > 0 {
		out = append(out, messages.N(ctx, "tuning.cannot.blind", int64(n)))
	}
	missed := 0
	for _, o := range r.Real {
		if o.Missed {
			missed++
		}
	}
	if missed > 0 {
		out = append(out, messages.N(ctx, "tuning.cannot.missed", int64(missed)))
	}
	if len(r.Real) > 0 {
		out = append(out, messages.T(ctx, "tuning.cannot.closing"))
	}
	if r.Truncated {
		out = append(out, messages.N(ctx, "tuning.cannot.truncated", int64(r.Calls), "Time", messages.Clock(ctx, r.From)))
	}
	if len(r.Real) > 0 && r.Real[0].At.Before(r.From) {
		out = append(out, messages.T(ctx, "tuning.cannot.start", "Time", messages.Clock(ctx, r.From)))
	}
	return append(out, messages.T(ctx, "tuning.cannot.again"), messages.T(ctx, "tuning.cannot.limits"))
}

// BadWords says why a field of a proposal was refused.
func BadWords(ctx context.Context, b Bad) string {
	if b.Why != BadRange {
		return messages.T(ctx, "tuning.bad."+b.Why)
	}
	low, high := bounds(ctx, b.Field)
	return messages.T(ctx, "tuning.bad.range", "Low", low, "High", high)
}

func bounds(ctx context.Context, field string) (low, high string) {
	switch field {
	case "failures":
		return "0", messages.Num(ctx, MaxFailures)
	case "min_calls":
		return "1", messages.Num(ctx, MaxMinCalls)
	case "rate":
		return messages.Percent(ctx, 0), messages.Percent(ctx, 1)
	case "slow":
		return Span(ctx, 0), Span(ctx, MaxSlow)
	case "open_for":
		return Span(ctx, MinOpenFor), Span(ctx, MaxOpenFor)
	}
	return Span(ctx, 0), Span(ctx, MaxWindow)
}
