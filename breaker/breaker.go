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

// Reasons of a Denied.
const (
	DeniedOpen       = "open"        // the open time is not over
	DeniedForcedOpen = "forced_open" // an operator keeps it open
	DeniedProbing    = "probing"     // half-open, and all probes are out
	DeniedSaturated  = "saturated"   // the bulkhead is full in all processes together
	DeniedRamp       = "ramp"        // closed lately; the admitted rate still grows
)

// Denied says why a call may not be made now.
type Denied struct {
	Key        Key
	Reason     string        // one of the Denied… constants
	RetryAfter time.Duration // until the circuit may admit again
	Until      time.Time     // the same as a moment of this process's clock
}

// Error implements error.
func (d *Denied) Error() string {
	return fmt.Sprintf("circuit %s is %s, retry in %s", d.Key, d.Reason, d.RetryAfter.Round(time.Millisecond))
}

// Permit is the right to make one call. Report must be called exactly once;
// further calls do nothing.
type Permit interface {
	// Report tells the outcome. errClass and sample are kept as evidence when the
	// verdict is Fail. It never fails the caller: trouble with Redis is handled inside.
	// What can change the circuit or frees a slot has been taken in when Report returns;
	// a plain success of a circuit without failures is on its way.
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

// Operator changes circuits by hand. Both implementations of Breaker are Operators.
// Every change is a compare-and-set on the epoch the person saw: ErrEpoch when the
// circuit changed meanwhile, ErrUnavailable when Redis is gone.
type Operator interface {
	// Override sets a mode. It ends by itself, or with Reset.
	Override(ctx context.Context, k Key, epoch string, o Override) (Snapshot, error)
	// ProbeOnce lets an open circuit try one call now. ErrNotOpen when it is not open
	// or forced open.
	ProbeOnce(ctx context.Context, k Key, epoch, actor, reason string) (Snapshot, error)
}

// Mode is an operator's override of a circuit.
type Mode string

// Modes. None of them lifts the limit of calls in flight.
const (
	ForcedOpen   Mode = "forced_open"   // denies every call until it expires, then probes
	ForcedClosed Mode = "forced_closed" // admits every call; failures do not open it
	MetricsOnly  Mode = "metrics_only"  // changes state as usual but admits every call
)

// Override is an operator's decision.
type Override struct {
	Mode   Mode
	For    time.Duration // how long; mandatory for ForcedOpen, zero: until reset
	Actor  string
	Reason string
}
