package provider

import (
	"fmt"
	"net/http"
)

// CanReplay reports whether the same key and bytes may go out again to learn what
// became of a charge. Without keys a replay would be a second charge.
func (c Capabilities) CanReplay() bool { return c.IdempotencyKeys && c.Has(ReplayKey) }

// ReasonReplayRejected is a rejection of a replay, which a check in front of the provider's
// memory of keys may have made: it does not prove that the first send was not executed.
const ReasonReplayRejected = "replay_rejected"

// Replayed is the reading of an answer to a key that was sent before and has no outcome
// yet, where it differs from that of a first send:
//
//	5xx in the provider's own voice      may be the stored answer: no new evidence of ill health
//	404 405 410 415, rejected            says that this address takes nothing, and nothing
//	                                     about what the first send did: still unknown
//	400 422, rejected                    says that it is refused now, which is no evidence
//	                                     either: still unknown, and for a person to see
//
// A proxy's 5xx is stored by nobody and counts as ever. A rejection that the provider
// marks as the answer it stored under the key is what became of the first send, and so
// is a decline.
func Replayed(c Charged) Charged {
	switch own := c.Reason == fmt.Sprintf("provider_%d", c.Exchange.Status); {
	case c.Outcome == Unknown && own && c.Health == HealthFail:
		c.Health = HealthNeutral
	case c.Outcome == Failed && c.Object == nil && c.Reason == ReasonRejected && noSuchEndpoint(c.Exchange.Status):
		c.Outcome, c.Next = Unknown, NextReconcile
	case c.Outcome == Failed && c.Object == nil && c.Reason == ReasonRejected && !c.Exchange.Replayed:
		c.Outcome, c.Reason, c.Review, c.Next = Unknown, ReasonReplayRejected, ReviewKeyReused, NextReconcile
	}
	return c
}

func noSuchEndpoint(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}
