package breaker

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Call is one recorded call, for Replay.
type Call struct {
	At      time.Time // when it ended
	Latency time.Duration
	Verdict Verdict
	Class   string // error class of a failure
	Worker  string
}

// Opening is a time a replayed circuit would have been open.
type Opening struct {
	At       time.Time
	Until    time.Time // when it would have closed; zero: still open at the end
	Reason   string    // one of the Reason… constants
	Evidence Evidence
}

// Replayed is what other settings would have done with recorded calls.
type Replayed struct {
	Openings []Opening
	Calls    int // recorded calls
	Made     int // of these, still made
	Spared   int // failed calls that would not have been made
	Lost     int // good calls that would not have been made
}

// Replay runs recorded calls against settings. Calls are taken in any order.
//
// It cannot know what was never tried: a call the real circuit denied has no outcome.
// So only openings that are earlier than the real ones, and settings that open less
// often, are told soundly; after a replayed circuit would have closed earlier than the
// real one, no recorded call shows what would have happened. Two rules hold in a replay
// as in one process: the bulkhead and the ramp are left out.
func Replay(s Settings, calls []Call) Replayed {
	s = s.WithDefaults()
	s.MaxInFlight, s.RampFor = 0, 0
	out := Replayed{Calls: len(calls)}
	c := newCircuit(s, unseen(), out.follow)
	for _, step := range timeline(calls) {
		now := step.at.UnixMicro()
		if step.begins {
			code, _ := c.permit(now, step.token)
			step.call.denied = code != admitted && code != admittedProbe
			step.call.epoch, step.call.probe = c.epoch, code == admittedProbe
			continue
		}
		if step.call.denied {
			out.spare(step.call.Verdict)
			continue
		}
		out.Made++
		c.report(now, finished{token: step.token, epoch: step.call.epoch, verdict: step.call.Verdict,
			slow: s.isSlow(step.call.Latency), entry: entry(step.call.Class, ""), probe: step.call.probe,
			worker: clean(step.call.Worker), rnd: 0.5})
	}
	return out
}

func (r *Replayed) spare(v Verdict) {
	switch v {
	case Fail:
		r.Spared++
	case OK:
		r.Lost++
	}
}

// follow notes when the circuit opens and closes.
func (r *Replayed) follow(o occurrence) {
	e := o.event(Key{})
	switch {
	case e.Kind != KindTransition:
	case e.From == Closed && e.To == Open:
		r.Openings = append(r.Openings, Opening{At: e.At, Reason: e.Reason, Evidence: e.Evidence})
	case e.To == Closed && len(r.Openings) > 0:
		r.Openings[len(r.Openings)-1].Until = e.At
	}
}

// replaying is a call and what the replayed circuit decided about it.
type replaying struct {
	Call
	epoch         string
	probe, denied bool
}

// step is the begin or the end of a call.
type step struct {
	at     time.Time
	begins bool
	token  string
	call   *replaying
}

// timeline orders begins and ends by time; at the same moment ends come first.
func timeline(calls []Call) []step {
	calls = slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b Call) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Latency, b.Latency), cmp.Compare(a.Verdict, b.Verdict))
	})
	names := newTokens("replay")
	steps := make([]step, 0, 2*len(calls))
	for _, c := range calls {
		r, token := &replaying{Call: c}, names.next()
		// A call that took no time still begins before it ends.
		steps = append(steps, step{c.At.Add(-max(c.Latency, time.Microsecond)), true, token, r}, step{c.At, false, token, r})
	}
	sort.SliceStable(steps, func(i, j int) bool {
		if !steps[i].at.Equal(steps[j].at) {
			return steps[i].at.Before(steps[j].at)
		}
		return !steps[i].begins && steps[j].begins
	})
	return steps
}
