package breaker

import (
	"fmt"
	"math"
	"strconv"
)

// circuit is the state machine of one circuit in memory: the Go twin of the scripts
// in lua/. It does no I/O and has no clock; times are microseconds. A test drives
// both twins with the same calls and compares every answer, so a change here is a
// change there.
type circuit struct {
	set     Settings
	encoded string
	emit    func(occurrence)

	view
	wins     int
	rampFrom int64
	tokens   float64
	refilled int64
	blamed   map[string]bool // workers named in this era

	probes, leases map[string]int64 // token → deadline
	failures       []string         // entries, newest first
	buckets        map[int64]*Counts
	total          Counts
	workers, slow  map[string]int64 // worker → second of its latest report, slow call
}

// view is the part of a circuit that a worker remembers of the shared one.
type view struct {
	epoch          string
	state          State
	since, til     int64
	fails, reopens int
	mode           Mode
	modeTil        int64
	why            string
}

// unseen is a circuit nobody ever changed.
func unseen() view { return view{epoch: "0", state: Closed} }

// pack is the form adopt in common.lua reads.
func (v view) pack() string {
	return fmt.Sprintf("%s|%s|%d|%d|%d|%d|%s|%d|%s|", v.epoch, v.state, v.since, v.til,
		v.fails, v.reopens, v.mode, v.modeTil, v.why)
}

// older compares epochs as strings of digits.
func older(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func newCircuit(s Settings, v view, emit func(occurrence)) *circuit {
	return &circuit{set: s, encoded: s.encode(), emit: emit, view: v,
		probes: map[string]int64{}, leases: map[string]int64{}, buckets: map[int64]*Counts{},
		blamed: map[string]bool{}, workers: map[string]int64{}, slow: map[string]int64{}}
}

// move makes a transition: a new epoch fences every call admitted before it.
func (c *circuit) move(now int64, to State, o occurrence) {
	o.kind, o.from, o.to, o.at, o.settings = KindTransition, c.state, to, now, c.encoded
	n, _ := strconv.ParseInt(c.epoch, 10, 64)
	c.epoch = strconv.FormatInt(max(n+1, now), 10)
	c.state, c.since, c.wins = to, now, 0
	clear(c.blamed)
	clear(c.probes)
	same := o.reason == ReasonMetricsOnly || o.reason == ReasonOverrideExpired
	switch {
	case same:
	case to == Open:
		c.why = o.reason
	case to == Closed:
		c.fails, c.til, c.reopens = 0, 0, 0
		c.rampFrom, c.tokens, c.refilled = 0, 0, now
		if c.set.RampFor > 0 {
			c.rampFrom, c.tokens = now, 1
		}
		delete(c.buckets, now/1e6)
	}
	o.epoch = c.epoch
	c.emit(o)
}

// reopenAfter is the open time with backoff and jitter.
func (c *circuit) reopenAfter(rnd float64) int64 {
	d := float64(c.set.OpenFor.Microseconds()) * math.Pow(c.set.Backoff, float64(c.reopens))
	d = min(d, float64(c.set.OpenMax.Microseconds()))
	return int64(math.Floor(d * (1 + c.set.Jitter*(2*rnd-1))))
}

// latestOpen is the end of the longest opening that could begin now.
func (c *circuit) latestOpen(now int64) int64 {
	return now + int64(math.Floor(float64(c.set.OpenMax.Microseconds())*(1+c.set.Jitter)))
}

// expire ends an override whose time is over.
func (c *circuit) expire(now int64) {
	if c.mode == "" || c.modeTil == 0 || now < c.modeTil {
		return
	}
	was := c.mode
	c.mode, c.modeTil = "", 0
	if was == ForcedOpen {
		return // an open circuit whose time is over: the next call is a probe
	}
	if was == ForcedClosed {
		c.fails = 0
	}
	c.move(now, c.state, occurrence{reason: ReasonOverrideExpired, note: string(was)})
}

// Answers of permit beside the Denied… reasons.
const (
	admitted      = "admit"
	admittedProbe = "probe"
)

// permit decides about one call: admitted, admittedProbe, or a refusal and how long
// to wait.
func (c *circuit) permit(now int64, token string) (code string, retry int64) {
	c.expire(now)
	code, retry = c.decide(now, token)
	granted := code == admitted || code == admittedProbe
	if !granted && code != DeniedSaturated && (c.mode == ForcedClosed || c.mode == MetricsOnly) {
		code, retry, granted = admitted, 0, true
		if _, busy := c.full(now); busy {
			code, retry, granted = DeniedSaturated, 1e6, false
		}
	}
	if granted && c.set.MaxInFlight > 0 {
		c.leases[token] = now + c.set.LeaseTTL.Microseconds()
	}
	return code, retry
}

func (c *circuit) decide(now int64, token string) (string, int64) {
	if c.state == Open && now < c.til {
		if c.mode == ForcedOpen {
			return DeniedForcedOpen, c.til - now
		}
		c.til = min(c.til, c.latestOpen(now)) // the clock may have gone back
		return DeniedOpen, c.til - now
	}
	if until, busy := c.full(now); busy {
		return DeniedSaturated, min(max(until-now, 1), 1e6)
	}
	if c.state == Closed {
		if wait := c.ramp(now); wait > 0 {
			return DeniedRamp, wait
		}
		return admitted, 0
	}
	if c.state == Open {
		c.move(now, HalfOpen, occurrence{reason: ReasonOpenTimeOver})
	}
	if until, busy := c.probe(now, token); busy {
		return DeniedProbing, min(max(until-now, 1), 2e6)
	}
	return admittedProbe, 0
}

// prune drops leases that ended, or that a faster clock gave, and returns the earliest
// end of the rest.
func prune(leases map[string]int64, now, ttl int64) int64 {
	earliest := int64(math.MaxInt64)
	for token, until := range leases {
		if until <= now || until > now+ttl {
			delete(leases, token)
		} else {
			earliest = min(earliest, until)
		}
	}
	return earliest
}

// full reports whether the bulkhead is full, and until when at the latest.
func (c *circuit) full(now int64) (until int64, busy bool) {
	if c.set.MaxInFlight == 0 || len(c.leases) < c.set.MaxInFlight {
		return 0, false
	}
	until = prune(c.leases, now, c.set.LeaseTTL.Microseconds())
	return until, len(c.leases) >= c.set.MaxInFlight
}

// ramp takes a token of the growing rate after a closing; 0: admitted, else the wait.
func (c *circuit) ramp(now int64) int64 {
	if c.rampFrom == 0 {
		return 0
	}
	age, dur := now-c.rampFrom, c.set.RampFor.Microseconds()
	if age >= dur {
		c.rampFrom = 0
		return 0
	}
	rate := c.set.RampStart + (c.set.RampFull-c.set.RampStart)*float64(age)/float64(dur)
	tokens := min(c.tokens+float64(now-c.refilled)*rate/1e6, max(1, rate))
	wait := int64(0)
	if tokens >= 1 {
		tokens--
	} else {
		wait = int64(math.Ceil((1 - tokens) * 1e6 / rate))
	}
	// Rounded as the script stores it, so that the twins stay equal.
	c.tokens, _ = strconv.ParseFloat(strconv.FormatFloat(tokens, 'f', 6, 64), 64)
	c.refilled = now
	return wait
}

// probe reserves a half-open slot, or says when the earliest holder's lease ends.
func (c *circuit) probe(now int64, token string) (until int64, busy bool) {
	until = prune(c.probes, now, c.set.ProbeTTL.Microseconds())
	if len(c.probes) == 0 && now-c.since >= c.set.HalfOpenFor.Microseconds() {
		c.move(now, HalfOpen, occurrence{reason: ReasonHalfOpenOver})
	}
	if len(c.probes) >= c.set.Probes {
		return until, true
	}
	c.probes[token] = now + c.set.ProbeTTL.Microseconds()
	return 0, false
}
