package breaker

import "time"

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
