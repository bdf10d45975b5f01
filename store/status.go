package store

import (
	"fmt"
	"slices"
)

// Evidence is what a status change rests on. It is stored as payments.status_evidence.
type Evidence string

// Kinds of evidence.
const (
	ByAnswer   Evidence = "answer"   // a parsed provider answer to an attempt
	ByLookup   Evidence = "lookup"   // we asked the provider
	ByEvent    Evidence = "event"    // a verified webhook
	BySync     Evidence = "sync"     // the provider's own list
	ByOperator Evidence = "operator" // a person, with a reason
	ByRefusal  Evidence = "refusal"  // our adapter refused the request before anything was sent
	ByDeadline Evidence = "deadline" // an attempt passed its deadline without an outcome
)

// fromProvider reports whether the provider itself said it.
func (e Evidence) fromProvider() bool {
	return e == ByAnswer || e == ByLookup || e == ByEvent || e == BySync
}

// allowed is the whole state machine (money-rules §2): from, to, and on what.
// Whatever is not in it is refused and written to the timeline.
//
//	from             to                                                    on
//	pending          processing, requires_action, succeeded, failed,       answer, lookup, event, sync
//	                 unknown
//	pending          failed                                                refusal before sending
//	pending          unknown                                               deadline of an attempt
//	processing       requires_action, succeeded, failed, unknown           answer, lookup, event, sync
//	processing       succeeded, failed                                     operator: who settles an unknown capture
//	                                                                       or void of what is held
//	requires_action  processing, succeeded, failed, unknown                answer, lookup, event, sync
//	unknown          processing, requires_action, succeeded, failed        answer, lookup, event, sync
//	unknown          succeeded, failed                                     operator
//	failed           succeeded                                             answer, lookup, event, sync: with proof of money
//	succeeded        –                                                     never leaves
//
// An answer counts from unknown because the same key and bytes, sent again, return
// what became of the first; see BeginParams.Recharge.
func allowed(from, to Status, on Evidence, proof bool) bool {
	switch from {
	case Pending:
		switch on {
		case ByRefusal:
			return to == Failed
		case ByDeadline:
			return to == Unknown
		}
		return on.fromProvider() && oneOf(to, Processing, RequiresAction, Succeeded, Failed, Unknown)
	case Processing:
		if on == ByOperator {
			return proof && oneOf(to, Succeeded, Failed)
		}
		return on.fromProvider() && oneOf(to, RequiresAction, Succeeded, Failed, Unknown)
	case RequiresAction:
		return on.fromProvider() && oneOf(to, Processing, Succeeded, Failed, Unknown)
	case Unknown:
		if on == ByOperator {
			return oneOf(to, Succeeded, Failed)
		}
		return on.fromProvider() && oneOf(to, Processing, RequiresAction, Succeeded, Failed)
	case Failed:
		return on.fromProvider() && to == Succeeded && proof
	case Succeeded:
		return false
	}
	return false
}

func oneOf(s Status, set ...Status) bool { return slices.Contains(set, s) }

// mayBecome returns nil if the allow-list has the transition, or an error wrapping
// ErrNotAllowed that says which one it was.
func mayBecome(from, to Status, on Evidence, proof bool) error {
	if allowed(from, to, on, proof) {
		return nil
	}
	return fmt.Errorf("%w: %s to %s on %s", ErrNotAllowed, from, to, on)
}

// sources lists the statuses from which to is allowed on this evidence: the guard of
// the UPDATE.
func sources(to Status, on Evidence, proof bool) []string {
	var out []string
	for _, from := range Statuses {
		if allowed(from, to, on, proof) {
			out = append(out, string(from))
		}
	}
	return out
}
