// Package breaker is a circuit breaker shared by processes through Redis, with a
// local fallback for the time Redis is gone. It serves any third-party call and
// imports nothing of the rest of Fusebox.
package breaker

import (
	"context"
	"fmt"
	"time"
)

// Key names one circuit: a third party and a class of operation on it. Circuits
// of one name share a Redis hash slot.
type Key struct {
	Name  string // provider, e.g. "atlas"
	Class string // "charge", "status", ...
}

// String returns "name/class".
func (k Key) String() string { return k.Name + "/" + k.Class }

// State of a circuit.
type State string

// States.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// Verdict is what a finished call says about the third party's health.
type Verdict string

// Verdicts. Neutral never counts and never closes a half-open circuit; it gives a
// probe's slot back.
const (
	OK      Verdict = "ok"
	Fail    Verdict = "fail"
	Neutral Verdict = "neutral"
)

// Settings of one circuit.
type Settings struct {
	Failures  int           // consecutive failures that open it (default 5)
	Window    time.Duration // failures older than this are forgotten; 0: never (undecayed)
	OpenFor   time.Duration // how long it stays open (default 30 s)
	Probes    int           // concurrent probes in half-open (default 1)
	Successes int           // probe successes that close it (default 1)
	ProbeTTL  time.Duration // lease of a probe: attempt deadline + slack (default 10 s)
}

// Denied says why a call may not be made now.
type Denied struct {
	Key        Key
	Reason     string        // open, probing
	RetryAfter time.Duration // until the circuit may admit again
	Until      time.Time
}

// Error implements error.
func (d *Denied) Error() string {
	return fmt.Sprintf("circuit %s is %s, retry in %s", d.Key, d.Reason, d.RetryAfter.Round(time.Millisecond))
}

// Snapshot is a circuit as it is now. Taking one changes nothing.
type Snapshot struct {
	Key         Key
	State       State
	Epoch       string // changes with every transition; compare as strings
	Since       time.Time
	OpenUntil   time.Time // zero unless open
	Consecutive int       // failures in a row
	LastError   string    // class of the latest failure
	OpenReason  string    // why it opened last
	ProbesHeld  int       // live probe leases
	Degraded    bool      // Redis is gone; this is the local view
}

// Evidence is what made a circuit change state.
type Evidence struct {
	Failures    int            `json:"failures"`
	ErrorClass  map[string]int `json:"error_classes,omitempty"`
	Workers     []string       `json:"workers,omitempty"`
	Samples     []string       `json:"samples,omitempty"` // sample call ids, e.g. payment ids
	Settings    string         `json:"settings,omitempty"`
	Description string         `json:"description,omitempty"`
}

// Event is one state transition, emitted once, by the script that made it.
type Event struct {
	Key      Key
	Epoch    string
	From, To State
	Reason   string
	Evidence Evidence
	At       time.Time
}

// Permit is the right to make one call. Report must be called exactly once;
// further calls do nothing.
type Permit interface {
	// Report tells the outcome. errClass and sample are kept as evidence when the
	// verdict is Fail. It never fails the caller: trouble with Redis is handled inside.
	Report(ctx context.Context, v Verdict, latency time.Duration, errClass, sample string)
	// Probe reports whether this call is a half-open probe.
	Probe() bool
}

// Breaker admits calls. Implementations: Redis (shared) and Local (one process).
type Breaker interface {
	// Permit returns a permit, or a *Denied error. It returns no other error: with
	// Redis gone it decides locally.
	Permit(ctx context.Context, k Key) (Permit, error)
	Snapshot(ctx context.Context, k Key) (Snapshot, error)
	// Reset closes the circuit if its epoch is still the one the operator saw;
	// otherwise ErrEpoch. actor and reason go into the event.
	Reset(ctx context.Context, k Key, epoch, actor, reason string) (Snapshot, error)
	// Degraded reports since when decisions are local because Redis is gone; zero if not.
	Degraded() time.Time
}
