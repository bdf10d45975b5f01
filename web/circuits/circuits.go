// Package circuits does what a person asks of a circuit: reset, the overrides, one
// probe. Console, API and command line go through it, so each action is done once per
// action id, only to the circuit the person saw, and with its audit row. It knows
// neither HTTP nor screens.
package circuits

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// Action is what a person does to a circuit.
type Action string

// Actions. An override that ends before its time is a Reset.
const (
	ProbeOnce    Action = "probe_once"
	Reset        Action = "reset"
	ForcedOpen          = Action(breaker.ForcedOpen)
	ForcedClosed        = Action(breaker.ForcedClosed)
	MetricsOnly         = Action(breaker.MetricsOnly)
)

// Actions lists them, the mildest first.
var Actions = []Action{ProbeOnce, Reset, ForcedOpen, ForcedClosed, MetricsOnly}

// verbs name the actions in paths and on the command line.
var verbs = map[Action]string{
	ProbeOnce: "probe", Reset: "reset", ForcedOpen: "open", ForcedClosed: "close", MetricsOnly: "metrics",
}

// Verb is the action's name in paths and on the command line: probe, reset, open,
// close, metrics.
func (a Action) Verb() string { return verbs[a] }

// ByVerb finds the action with that Verb.
func ByVerb(verb string) (Action, bool) {
	for a, v := range verbs {
		if v == verb {
			return a, true
		}
	}
	return "", false
}

// Override reports whether the action sets a mode that may end by itself.
func (a Action) Override() bool { return a == ForcedOpen || a == ForcedClosed || a == MetricsOnly }

// Offered reports whether the action makes sense for a circuit as it is. Do does not
// ask: the epoch decides.
func (a Action) Offered(s breaker.Snapshot) bool {
	switch a {
	case ProbeOnce:
		return s.State == breaker.Open && s.Mode == ""
	case Reset:
		return s.State != breaker.Closed || s.Mode != ""
	case ForcedOpen:
		return true // once more: another expiry
	}
	return s.Mode != breaker.Mode(a)
}

// Bounds of a request.
const (
	MaxReason = 500 // characters
	MinFor    = time.Minute
	MaxFor    = 7 * 24 * time.Hour
)

// Request is one action on one circuit.
type Request struct {
	Key      breaker.Key
	Action   Action
	Epoch    string    // of the circuit the person saw
	ActionID uuid.UUID // one-time: the second request with it changes nothing
	By       store.Actor
	Reason   string
	For      time.Duration // of an override; zero: until reset, and refused for ForcedOpen
}

// Target is the circuit's name in the audit log.
func Target(k breaker.Key) string { return "circuit:" + k.String() }

// AuditAction is the action's name in the audit log.
func (a Action) AuditAction() string { return "circuit." + string(a) }

// Problems says what is wrong with a request, one for each field: action, action_id,
// epoch, reason, for.
func (r Request) Problems() []*provider.FieldError {
	var out []*provider.FieldError
	refuse := func(field, reason string) { out = append(out, &provider.FieldError{Field: field, Reason: reason}) }
	if r.Action.Verb() == "" {
		refuse("action", "is not one of probe, reset, open, close, metrics")
	}
	if r.ActionID == uuid.Nil {
		refuse("action_id", "is required")
	}
	if strings.TrimSpace(r.Epoch) == "" {
		refuse("epoch", "is required: the epoch of the circuit you saw")
	}
	switch n := utf8.RuneCountInString(strings.TrimSpace(r.Reason)); {
	case n == 0 || !utf8.ValidString(r.Reason):
		refuse("reason", "is required")
	case n > MaxReason:
		refuse("reason", fmt.Sprintf("may have at most %d characters", MaxReason))
	}
	if problem := r.forProblem(); problem != "" {
		refuse("for", problem)
	}
	return out
}

func (r Request) forProblem() string {
	switch {
	case !r.Action.Override():
		if r.For != 0 {
			return "is for open, close and metrics only"
		}
	case r.For == 0:
		if r.Action == ForcedOpen {
			return "is required: a circuit is never forced open without an end"
		}
	case r.For < MinFor || r.For > MaxFor:
		return "must be 1m to 168h (7 days)"
	}
	return ""
}
