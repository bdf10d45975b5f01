package breaker

import (
	"sort"
	"time"
)

// Snapshot is a circuit as it is now. Taking one changes nothing.
type Snapshot struct {
	Key         Key
	State       State
	Epoch       string // changes with every transition; compare as strings
	Since       time.Time
	OpenUntil   time.Time // zero unless open
	Consecutive int       // failures in a row
	LastError   string    // class of the latest failure
	OpenReason  string    // why it opened last, one of the Reason… constants
	ProbesHeld  int       // live probe leases
	Degraded    bool      // Redis is gone; this is the local view

	Mode      Mode      // an operator's override in force, or ""
	ModeUntil time.Time // when it ends; zero: until reset
	Reopens   int       // failed half-opens since it was closed last
	Probes    []Lease   // who probes, until when
	InFlight  int       // calls in flight over all processes; counted with MaxInFlight set
	Recent    []Failure // latest failures, newest first, at most 20
	Window    Counts    // the rate window, this era only
	Total     Counts    // since the keys exist
	Workers   []Seen    // processes that reported within the hour
	Settings  Settings  // in force in this process
}

// Lease is a slot that frees itself.
type Lease struct {
	Token string // begins with the worker's name
	Until time.Time
}

// Failure is one call that failed.
type Failure struct {
	At     time.Time
	Worker string
	Class  string // error class
	Sample string // the caller's id of the call
}

// Counts of finished calls.
type Counts struct {
	OK, Fail, Neutral, Slow int
	Fenced                  int // reported after their era; part of Total only
}

// Calls returns how many calls said something about health.
func (c Counts) Calls() int { return c.OK + c.Fail }

// Seen is a worker and when it reported last.
type Seen struct {
	Worker string
	At     time.Time
}

// moment converts server microseconds; 0 is the zero time.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// snapshot is the circuit as it is.
func (c *circuit) snapshot(k Key, now int64) Snapshot {
	s := c.view.snapshot(k, c.set, now)
	for token, until := range c.probes {
		if until > now {
			s.Probes = append(s.Probes, Lease{Token: token, Until: moment(until)})
		}
	}
	s.ProbesHeld = len(s.Probes)
	for _, until := range c.leases {
		if until > now {
			s.InFlight++
		}
	}
	for _, f := range c.failures[:min(20, len(c.failures))] {
		s.Recent = append(s.Recent, parseFailure(f))
	}
	if len(s.Recent) > 0 {
		s.LastError = s.Recent[0].Class
	}
	s.Window, s.Total = c.sums(now), c.total
	for w, sec := range c.workers {
		if now/1e6-sec <= forgotten {
			s.Workers = append(s.Workers, Seen{Worker: w, At: moment(sec * 1e6)})
		}
	}
	s.order()
	return s
}

// snapshot shows what a view knows.
func (v view) snapshot(k Key, set Settings, now int64) Snapshot {
	s := Snapshot{Key: k, State: v.state, Epoch: v.epoch, Since: moment(v.since), Consecutive: v.fails,
		OpenReason: v.why, Reopens: v.reopens, Settings: set}
	if v.state == Open {
		s.OpenUntil = moment(v.til)
	}
	if v.mode != "" && (v.modeTil == 0 || now < v.modeTil) {
		s.Mode, s.ModeUntil = v.mode, moment(v.modeTil)
	}
	return s
}

// order makes a snapshot's lists stable.
func (s *Snapshot) order() {
	sort.Slice(s.Workers, func(i, j int) bool { return s.Workers[i].Worker < s.Workers[j].Worker })
	sort.Slice(s.Probes, func(i, j int) bool { return s.Probes[i].Token < s.Probes[j].Token })
}
