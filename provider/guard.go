package provider

import (
	"context"
	"fmt"
	"time"
)

// ClassToken is the operation class of the calls that fetch what an adapter's requests
// carry, at a provider with Capabilities.TokenCircuit: a circuit of its own beside those
// of charges and lookups, which these calls must not move.
const ClassToken = "token"

// ReasonNoToken is a call that did not go out because the token it carries is not to be had
// now, whether its circuit is open or its endpoint does not answer.
const ReasonNoToken = "auth_unavailable"

// Guard asks whether a call may be made now that is neither a charge nor a lookup and that
// both depend on. It is how an adapter stands before a circuit without knowing one. A
// refusal is a *HeldBackError; report must be called once and is never nil without an
// error. A nil Guard lets every call through.
type Guard func(ctx context.Context) (report Report, err error)

// Report tells what a guarded call said about the health of who answered it. reason is
// machine-readable: http_503, dial, answered.
type Report func(v Verdict, latency time.Duration, reason string)

// Ask asks the guard, if there is one.
func (g Guard) Ask(ctx context.Context) (Report, error) {
	if g == nil {
		return func(Verdict, time.Duration, string) {}, nil
	}
	return g(ctx)
}

// HeldBackError is a guard's refusal: the call was not made.
type HeldBackError struct {
	RetryAfter time.Duration // until it may be made again
	Err        error         // the circuit's own words
}

// Error implements error.
func (e *HeldBackError) Error() string {
	return fmt.Sprintf("held back for %s: %s", e.RetryAfter.Round(time.Millisecond), e.Err)
}

// Unwrap returns the circuit's own error.
func (e *HeldBackError) Unwrap() error { return e.Err }
