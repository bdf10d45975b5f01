package adyen

import (
	"strings"

	"fusebox/provider"
)

// operationPrefix marks the reference of an operation of ours. Without it, the reference
// of a modification is whatever somebody else gave it, the payment's own perhaps.
const operationPrefix = "op-"

// Parse implements provider.Adapter. An item is of interest if it is of our merchant
// account and world, can be read in one way only, and says something about a payment.
func (a *Adapter) Parse(raw []byte) ([]provider.Event, error) {
	n, err := read(raw)
	if err != nil {
		return nil, err
	}
	events := make([]provider.Event, 0, len(n.items))
	for _, it := range n.items {
		e := provider.Event{Key: it.key(), Type: it.Code, OccurredAt: it.Date.Time}
		if a.ours(n, it) {
			e.Object, e.Interesting = it.object()
		}
		events = append(events, e)
	}
	return events, nil
}

// key identifies an event: Adyen gives it no id, and repeats these three.
func (it item) key() string { return it.Code + ":" + it.PSP + ":" + string(it.Success) }

func (it item) ok() bool { return it.Success == "true" }

// ours reports whether an item is about our account. The flag live is not signed; what
// keeps the worlds apart is that each webhook has a key of its own. It is checked all
// the same, where our own endpoint tells which world it is.
func (a *Adapter) ours(n notification, it item) bool {
	if it.ambiguous() || it.Account != a.account {
		return false
	}
	switch a.mode {
	case modeTest:
		return n.live != "true"
	case modeLive:
		return n.live == "true"
	}
	return true
}

// object is what an item says, if it says anything about a payment, refund or dispute.
func (it item) object() (provider.Object, bool) {
	switch it.Code {
	case "AUTHORISATION":
		return it.charge(), true
	case "PENDING", "OFFER_CLOSED":
		return it.charge(), it.ok()
	case "CAPTURE", "CAPTURE_FAILED", "CANCELLATION", "TECHNICAL_CANCEL", "CANCEL_OR_REFUND":
		return it.modification()
	case "REFUND", "POSTPONED_REFUND", "REFUND_FAILED", "REFUNDED_REVERSED":
		return it.refund()
	}
	if word, ok := disputeWords[it.Code]; ok && it.ok() && it.Original != "" {
		return it.dispute(word), true
	}
	return provider.Object{}, false
}

// base is what every object has in common. Of the unsigned fields only the time and,
// after a failure, the reason are kept: of a success the reason is card data.
func (it item) base(id string) provider.Object {
	o := provider.Object{ID: id, Status: it.Code, CreatedAt: it.Date.Time, Raw: it.kept()}
	o.Money, _ = it.Amount.money()
	if !it.ok() {
		o.Status += " failed"
		o.Message = message(it.Reason)
	}
	return o
}

// charge is an event about the payment itself.
func (it item) charge() provider.Object {
	o := it.base(it.PSP)
	var held bool
	o.Reference, held = paymentOf(it.Reference)
	switch {
	case it.Code == "AUTHORISATION" && it.ok():
		o.Outcome = provider.Succeeded
	case it.Code == "AUTHORISATION":
		o.Outcome, o.Reason = provider.Failed, "refused"
	case it.Code == "PENDING":
		o.Outcome = provider.Processing
	default: // the offer to pay is over
		o.Outcome, o.Reason = provider.Failed, "offer_closed"
	}
	if o = it.sound(o); held {
		o = authorised(o)
	}
	return o
}

// modification is an event about what was done to a payment. It is matched by the
// payment's own id: its reference may be the modification's.
func (it item) modification() (provider.Object, bool) {
	if it.Original == "" {
		return provider.Object{}, false
	}
	if o, ours := it.refused(); ours {
		return o, true
	}
	o := it.base(it.Original)
	switch it.Code {
	case "CAPTURE":
		switch o.Outcome = provider.Succeeded; {
		case it.ok():
		case it.manual(): // nothing was taken, and what is held stays held
			o.Outcome, o.Reason, o.Money = provider.Processing, provider.ReasonAuthorised, provider.Money{}
			return o, true
		default:
			o.Outcome, o.Reason = provider.Failed, "capture_refused"
		}
	case "CAPTURE_FAILED":
		o.Outcome, o.Reason = provider.Failed, "capture_failed"
	case "CANCEL_OR_REFUND":
		o.Outcome = "" // which of the two is not signed: for a person
	default: // a cancellation lets go of what is held; there is nothing else to cancel
		o.Outcome, o.Reason = provider.Failed, provider.ReasonVoided
	}
	if !it.ok() && it.Code != "CAPTURE" {
		return provider.Object{}, false // nothing was done
	}
	return it.sound(o), true
}

// refused is an event that a capture or void of ours was refused, or failed later: one about
// that operation, which leaves its payment as it was.
func (it item) refused() (provider.Object, bool) {
	id, ours := strings.CutPrefix(it.Reference, operationPrefix)
	if !ours || id == "" {
		return provider.Object{}, false
	}
	kind, reason := provider.ObjectCapture, ""
	switch {
	case it.Code == "CAPTURE" && !it.ok():
		reason = "capture_refused"
	case it.Code == "CAPTURE_FAILED" && it.ok(): // by the bank, perhaps days after the capture was said to be done
		reason = "capture_failed"
	case (it.Code == "CANCELLATION" || it.Code == "TECHNICAL_CANCEL") && !it.ok():
		kind, reason = provider.ObjectVoid, "cancellation_refused"
	default:
		return provider.Object{}, false
	}
	o := it.base(it.PSP)
	o.Kind, o.Reference, o.Child.ChargeID = kind, id, it.Original
	o.Outcome, o.Reason, o.Message = provider.Failed, reason, message(it.Reason)
	return o, true
}

// manual reports whether an event about a capture is about one that was asked for by hand:
// ours has the reference of an operation, one made elsewhere that of the payment.
func (it item) manual() bool {
	return strings.HasPrefix(it.Reference, operationPrefix) || strings.HasPrefix(it.Reference, heldPrefix)
}

// refund is an event about a refund. A refund that failed after it was reported done is
// failed.
func (it item) refund() (provider.Object, bool) {
	if it.Original == "" || it.Code != "REFUND" && !it.ok() {
		return provider.Object{}, false
	}
	o := it.base(it.PSP)
	o.Kind, o.Child.ChargeID = provider.ObjectRefund, it.Original
	if id, ours := strings.CutPrefix(it.Reference, operationPrefix); ours {
		o.Reference = id
	} else {
		o.Child.PaymentID, _ = paymentOf(it.Reference)
	}
	switch {
	case it.Code == "POSTPONED_REFUND": // made once the payment is captured
		o.Outcome = provider.Processing
	case it.Code == "REFUND" && it.ok():
		o.Outcome = provider.Succeeded
	default:
		o.Outcome, o.Reason, o.Message = provider.Failed, strings.ToLower(it.Code), message(it.Reason)
	}
	return it.sound(o), true
}

// disputeWords maps the codes about a dispute. All of one dispute's have its
// pspReference. What follows a defence that was not made is told by a further code.
var disputeWords = map[string]string{
	"REQUEST_FOR_INFORMATION":           provider.DisputeOpened,
	"NOTIFICATION_OF_CHARGEBACK":        provider.DisputeOpened,
	"CHARGEBACK":                        provider.DisputeOpened,
	"DISPUTE_OPENED_WITH_CHARGEBACK":    provider.DisputeOpened,
	"CHARGEBACK_REVERSED":               provider.DisputeWon,
	"PREARBITRATION_WON":                provider.DisputeWon,
	"ISSUER_RESPONSE_TIMEFRAME_EXPIRED": provider.DisputeWon,
	"SECOND_CHARGEBACK":                 provider.DisputeLost,
	"PREARBITRATION_LOST":               provider.DisputeLost,
}

func (it item) dispute(word string) provider.Object {
	o := it.base(it.PSP)
	o.Kind, o.Status = provider.ObjectDispute, word
	o.Reason = message(it.Reason)
	o.Child = provider.Child{ChargeID: it.Original, DueBy: it.Extra.DueBy.Time}
	o.Child.PaymentID, _ = paymentOf(it.Reference)
	return o
}

// sound takes the outcome away from an object over an amount that cannot be read, unless
// it failed: for a person.
func (it item) sound(o provider.Object) provider.Object {
	if o.Outcome == provider.Failed {
		return o
	}
	if _, ok := it.Amount.money(); !ok {
		o.Outcome = ""
	}
	return o
}

// kept is the item as it is stored with its object: the reason of a success holds the
// card's last digits and expiry.
func (it item) kept() []byte {
	if it.ok() && it.Code == "AUTHORISATION" {
		return provider.RedactRaw(withoutCard(it.raw, "reason"))
	}
	return provider.RedactRaw(withoutCard(it.raw))
}
