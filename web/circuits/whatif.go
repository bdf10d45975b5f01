package circuits

import (
	"context"
	"slices"
	"time"

	"fusebox/breaker"
	"fusebox/store"
)

// Period is a stretch of time in which a circuit blocks calls.
type Period struct {
	At       time.Time
	Until    time.Time // zero: still open at the end of the range
	Reason   string    // one of the breaker's Reason… constants
	Failures int       // that opened it
	Workers  int       // that saw them
}

// end is Until, or the end of the range.
func (p Period) end(to time.Time) time.Time {
	if p.Until.IsZero() {
		return to
	}
	return p.Until
}

// Comparison says how a replayed opening relates to what really happened.
type Comparison string

// Comparisons. All but Blind rest on calls that were really made.
const (
	Earlier Comparison = "earlier" // the circuit really opened too, later
	Same    Comparison = "same"    // it really opened at that moment
	Extra   Comparison = "extra"   // it really stayed closed
	// Blind openings rest on a stretch in which the real circuit blocked calls: what
	// those calls would have found, nobody knows.
	Blind Comparison = "blind"
)

// Opening is one that other settings would have made.
type Opening struct {
	Period
	Compared Comparison
	Earlier  time.Duration // before the real opening; zero unless Compared is Earlier
}

// Sound reports whether recorded calls prove the opening.
func (o Opening) Sound() bool { return o.Compared != Blind }

// RealOpening is one that really happened.
type RealOpening struct {
	Period
	// Missed: by then the other settings had not been met, and they blocked nothing.
	Missed bool
	ByHand bool // a person forced it open; settings have no say in that
}

// Report is what other settings would have done with recorded calls, beside what
// really happened.
type Report struct {
	Key      breaker.Key
	InForce  breaker.Settings // what Settings differ from
	Settings breaker.Settings // what was replayed
	From, To time.Time
	// Truncated: the range asked for has more calls than are replayed; From is the
	// oldest call that was.
	Truncated bool

	Calls, Made  int // recorded; of these still made
	Spared, Lost int // failed and good calls that would not have been made

	Replayed []Opening
	Real     []RealOpening
	Buckets  []Bucket
}

// Blind counts the replayed openings that nothing proves.
func (r Report) Blind() int {
	n := 0
	for _, o := range r.Replayed {
		if !o.Sound() {
			n++
		}
	}
	return n
}

// OpenedByItself counts the real openings that settings decided.
func (r Report) OpenedByItself() int {
	n := 0
	for _, o := range r.Real {
		if !o.ByHand {
			n++
		}
	}
	return n
}

// WhatIf replays the calls of a circuit that ended in [from, to) against settings and
// compares with the circuit's real openings. inForce are the settings to tell the
// difference from; openings in the past may have been made under others.
func WhatIf(ctx context.Context, s *store.Store, key breaker.Key, inForce, settings breaker.Settings, from, to time.Time) (Report, error) {
	r := Report{Key: key, InForce: inForce.WithDefaults(), Settings: settings.WithDefaults(), From: from, To: to}
	calls, truncated, err := recorded(ctx, s, key, from, to)
	if err != nil {
		return Report{}, err
	}
	if truncated {
		r.Truncated, r.From = true, calls[0].At
	}
	swings, err := s.CircuitSwings(ctx, key.Name, key.Class, r.From, to)
	if err != nil {
		return Report{}, err
	}
	replayed := breaker.Replay(r.Settings, calls)
	r.Calls, r.Made, r.Spared, r.Lost = replayed.Calls, replayed.Made, replayed.Spared, replayed.Lost
	r.Buckets = bucketed(calls, r.From, to)
	r.Real = realOpenings(swings)
	r.compare(replayed.Openings, calls)
	return r, nil
}

// recorded reads the calls, oldest first.
func recorded(ctx context.Context, s *store.Store, key breaker.Key, from, to time.Time) ([]breaker.Call, bool, error) {
	var calls []breaker.Call
	truncated, err := s.EachCall(ctx, store.CallRange{Provider: key.Name, Class: key.Class, From: from, To: to},
		func(c store.RecordedCall) error {
			calls = append(calls, breaker.Call{At: c.At, Latency: c.Latency, Verdict: breaker.Verdict(c.Verdict), Class: c.ErrorClass, Worker: c.Worker})
			return nil
		})
	slices.Reverse(calls)
	return calls, truncated, err
}

// realOpenings pairs each stored opening with its closing.
func realOpenings(swings []store.BreakerEvent) []RealOpening {
	var out []RealOpening
	open := false
	for _, e := range swings {
		switch {
		case e.To == string(breaker.Closed):
			if open {
				out[len(out)-1].Until = e.At
			}
			open = false
		case !open: // a lost event can leave an opening without its closing: one period
			o := RealOpening{Period: Period{At: e.At, Reason: e.Reason}, ByHand: e.Reason == breaker.ReasonForcedOpen}
			if n, ok := e.Evidence["failures"].(float64); ok {
				o.Failures = int(n)
			}
			workers, _ := e.Evidence["workers"].([]any)
			o.Workers = len(workers)
			out, open = append(out, o), true
		}
	}
	return out
}
