package simulator

import (
	"net/http"
	"time"
)

// A face is one provider API that the simulator speaks. Behind every face there are the
// same ledger, faults, events and control API; a face is only how things are said. A
// charge keeps the face it was made through, and its events and answers wear it.
type face interface {
	// idPrefix begins the ids of charges.
	idPrefix() string
	// refundPrefix begins the ids of refunds, disputePrefix those of disputes.
	refundPrefix() string
	disputePrefix() string
	// noRefund answers a refund that is not carried out.
	noRefund(w http.ResponseWriter, why *notRefundable)
	// refundedType names the event that tells a charge's new totals.
	refundedType() string
	// disputeEvent renders an event about a dispute of a charge.
	disputeEvent(ev event, at time.Time, d Dispute, c Charge) (eventType, body string)
	// truth is the honest answer about a charge or refund.
	truth(c Charge, base string) (status int, body []byte)
	// internalError is the body of a 500 that is kept under a key.
	internalError() []byte
	// refusal answers for a fault that books nothing and keeps nothing under the key; nil
	// for every other fault.
	refusal(fault Fault) refusal
	// lie is what a fault makes the truth say instead, member by member.
	lie(fault Fault, c Charge) map[string]any
	// keyTaken answers a request whose key was used with other parameters, or whose key's
	// first call is still running.
	keyTaken(w http.ResponseWriter, reused bool)
	// eventType names the event that tells a charge's status.
	eventType(c Charge) string
	// decisive reports whether an event of a type tells a final status.
	decisive(eventType string) bool
	// eventBody renders an event about a charge.
	eventBody(ev event, at time.Time, c Charge, base string) string
	// unrelated renders an event that is about no charge.
	unrelated(ev event, at time.Time, account string) (eventType, body string)
	// signatureHeader carries an event's signature.
	signatureHeader() string
	// keepsEvents reports whether events can be asked for later, delivered or not.
	keepsEvents() bool
}

// refusal answers a request that was not carried out.
type refusal func(*Server, http.ResponseWriter, *http.Request, Timing, chargeRequest)

// faceOf returns the face of that name; the gateway's is the nameless one.
func faceOf(name string) face {
	if name == FaceStripe {
		return stripeFace{}
	}
	return gatewayFace{}
}

// gatewayFace is Fusebox's own contract.
type gatewayFace struct{}

func (gatewayFace) idPrefix() string { return "pay" }

func (gatewayFace) truth(c Charge, base string) (int, []byte) { return truth(c, base) }

func (gatewayFace) internalError() []byte { return internalError }

func (gatewayFace) refusal(fault Fault) refusal { return refusals[fault] }

func (gatewayFace) lie(fault Fault, c Charge) map[string]any {
	switch fault {
	case AmountMisreported:
		if c.Manual && c.Status == StatusSucceeded {
			return map[string]any{"totals": totals{Held: c.Amount, Captured: altered(c.Captured), Refunded: c.Refunded}}
		}
		return map[string]any{"amount": altered(c.Amount)}
	case WrongShape:
		return map[string]any{"amount": map[string]any{"value": c.Amount}}
	case UnmappedStatus:
		return map[string]any{"status": "settled_in_part"}
	}
	return nil
}

func (gatewayFace) keyTaken(w http.ResponseWriter, reused bool) {
	if reused {
		writeError(w, http.StatusBadRequest, errorBody{Code: "idempotency_key_reused", Message: "The key was used with other parameters."})
		return
	}
	writeError(w, http.StatusConflict, errorBody{Code: "idempotency_key_in_use", Message: "The first call with this key is still running."})
}

func (gatewayFace) eventType(c Charge) string {
	if c.refund() {
		return eventRefund
	}
	return eventType(c.Status)
}

func (gatewayFace) decisive(kind string) bool {
	return kind == eventSucceeded || kind == eventFailed || kind == eventRefund
}

func (gatewayFace) eventBody(ev event, at time.Time, c Charge, base string) string {
	return eventBody(ev, at, c.shown(base))
}

func (gatewayFace) unrelated(ev event, at time.Time, account string) (kind, body string) {
	ev.Type = eventUnrelated
	return eventUnrelated, eventBody(ev, at, map[string]any{"account": account, "available": 0})
}

func (gatewayFace) signatureHeader() string { return "Fusebox-Signature" }

func (gatewayFace) keepsEvents() bool { return false }
