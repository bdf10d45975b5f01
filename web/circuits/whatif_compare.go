package circuits

import (
	"slices"
	"time"

	"fusebox/breaker"
)

// sameMoment is how far a real and a replayed opening may be apart and still be the
// same one: calls are stored a little after the circuit heard of them, by another clock.
const sameMoment = 2 * time.Second

// compare sorts the replayed openings by what is known of them. calls are oldest first.
func (r *Report) compare(openings []breaker.Opening, calls []breaker.Call) {
	var closed time.Time // when the replayed circuit closed last
	for _, o := range openings {
		p := Period{At: o.At, Until: o.Until, Reason: o.Reason, Failures: o.Evidence.Failures, Workers: len(o.Evidence.Workers)}
		r.Replayed = append(r.Replayed, r.judge(p, r.evidenceFrom(o, calls, closed)))
		closed = o.Until
	}
	for i := range r.Real {
		r.Real[i].Missed = !r.Real[i].ByHand && !r.Real[i].At.Before(r.From) && !r.covered(r.Real[i].At)
	}
}

// judge compares one replayed opening, whose evidence begins at since.
func (r *Report) judge(p Period, since time.Time) Opening {
	o := Opening{Period: p, Compared: Extra}
	for _, real := range r.Real {
		blockedFrom, blockedTo := real.At.Add(sameMoment), real.end(r.To)
		if since.Before(blockedTo) && p.At.After(blockedFrom) {
			o.Compared = Blind
			return o
		}
	}
	for _, real := range r.Real {
		switch lead := real.At.Sub(p.At); {
		case real.ByHand:
		case lead.Abs() <= sameMoment:
			o.Compared = Same
			return o
		case lead > 0 && p.end(r.To).After(real.At):
			o.Compared, o.Earlier = Earlier, lead
			return o
		}
	}
	return o
}

// covered reports whether a replayed circuit was open at that moment, or opened then.
func (r *Report) covered(at time.Time) bool {
	return slices.ContainsFunc(r.Replayed, func(o Opening) bool {
		return !o.At.After(at.Add(sameMoment)) && o.end(r.To).After(at)
	})
}

// evidenceFrom is since when calls mattered for an opening: the first failure of the
// run that opened it, or the begin of the rate window; never before the replayed
// circuit closed last, for a new era counts anew.
func (r *Report) evidenceFrom(o breaker.Opening, calls []breaker.Call, closed time.Time) time.Time {
	from := o.At.Add(-r.Settings.RateWindow)
	if o.Reason == breaker.ReasonConsecutive || o.Reason == breaker.ReasonWindow {
		from = runStart(calls, o.At, max(o.Evidence.Failures, 1))
	}
	if from.Before(closed) {
		return closed
	}
	return from
}

// runStart is when the n-th last failure up to at ended.
func runStart(calls []breaker.Call, at time.Time, n int) time.Time {
	i, _ := slices.BinarySearchFunc(calls, at, func(c breaker.Call, t time.Time) int {
		if c.At.After(t) {
			return 1
		}
		return -1
	})
	start := at
	for i--; i >= 0 && n > 0; i-- {
		if calls[i].Verdict == breaker.Fail {
			start = calls[i].At
			n--
		}
	}
	return start
}
