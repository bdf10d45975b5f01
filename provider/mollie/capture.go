package mollie

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"fusebox/provider"
)

// statusHeld is the status of a payment whose money is held and not taken.
const statusHeld = "authorized"

// embedCaptures asks for a payment's captures with it.
const embedCaptures = "captures"

// captureOutcomes is Mollie's list of words for a capture.
var captureOutcomes = map[string]provider.Outcome{
	"pending":   provider.Processing,
	"succeeded": provider.Succeeded,
	"failed":    provider.Failed,
}

// held adds what a payment says about money that is, or was, only held. A payment of which
// a part was captured may stay authorized until the rest is let go: what was taken counts.
func (p payment) held(o *provider.Object) {
	if p.Status == statusHeld && o.Outcome != "" {
		o.Reason = provider.ReasonAuthorised
	}
	if p.CaptureMode != byHand {
		return
	}
	captured := p.Captured.minor(p.Amount.Currency)
	switch {
	case o.Outcome == "":
	case captured > 0 && (p.Status == statusHeld || o.Outcome == provider.Succeeded):
		o.Outcome, o.Reason, o.Money.Amount = provider.Succeeded, "", captured
	case o.Outcome == provider.Succeeded && p.Captured != nil:
		o.Outcome = "" // paid, and nobody can read how much
	case o.Reason != p.Status: // the method says more
	case p.Status == "canceled":
		o.Reason = provider.ReasonVoided
	case p.Status == "expired":
		o.Reason = provider.ReasonExpired
	}
}

// readCaptured is the adapter's reading of the answer to a capture: the capture. It
// concludes nothing.
func (a *Adapter) readCaptured(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	ans := status(ex)
	if ex.Status >= 400 {
		readError(&ans, ex.Body)
		return ans
	}
	if !json.Valid(ex.Body) {
		ans.Malformed = true
		return ans
	}
	made, err := decodePart(ex.Body, "capture")
	switch {
	case err != nil:
		ans.DecodeErr = err
		return ans
	case made.ID == "":
		return ans
	}
	o := made.captured(ex.Body, c.ProviderPaymentID)
	ans.Object = &o
	ans.Foreign = !made.of(c.OperationID, c.ProviderPaymentID) || !a.ownMode(made.Mode)
	return ans
}

// captured converts a capture to the engine's vocabulary. The charge shows in one that
// succeeded; one that failed took nothing, and what is held stays held. That one has its own
// id: a charge can have several.
func (r part) captured(raw []byte, chargeID string) provider.Object {
	m := r.metadata()
	o := provider.Object{
		ID: chargeID, Kind: provider.ObjectCapture, Reference: m.OperationID, Status: r.Status, Outcome: captureOutcomes[r.Status],
		CreatedAt: r.CreatedAt.Time, Raw: provider.RedactRaw(raw), Child: provider.Child{ChargeID: chargeID, PaymentID: m.PaymentID},
	}
	money, err := r.Amount.money()
	if o.Money = money; err != nil {
		o.Money, o.Outcome = provider.Money{Currency: r.Amount.Currency}, ""
	}
	switch o.Outcome {
	case provider.Failed:
		o.ID, o.Reason = r.ID, "capture_failed"
	case provider.Succeeded:
		charge := r.charge(raw, chargeID)
		o.Child.Charge = &charge
	}
	return o
}

// charge is what a capture that succeeded says of its charge.
func (r part) charge(raw []byte, chargeID string) provider.Object {
	o := provider.Object{ID: chargeID, Reference: r.metadata().PaymentID, Status: "captured", Outcome: provider.Succeeded, Raw: provider.RedactRaw(raw)}
	money, err := r.Amount.money()
	if o.Money = money; err != nil {
		o.Money, o.Outcome = provider.Money{Currency: r.Amount.Currency}, ""
	}
	return o
}

// readReleased is the adapter's reading of the answer to a release, which Mollie does not
// promise to carry out: mostly that it was accepted, or else the payment. It concludes
// nothing.
func (a *Adapter) readReleased(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	ans := status(ex)
	if ex.Status >= 400 {
		readError(&ans, ex.Body)
		return ans
	}
	said := string(bytes.TrimSpace(ex.Body))
	if (ex.Status == http.StatusAccepted || ex.Status == http.StatusNoContent) && (said == "" || said == "{}") {
		ans.Object = &provider.Object{
			ID: c.ProviderPaymentID, Kind: provider.ObjectVoid, Status: "accepted", Outcome: provider.Processing, Money: c.Want,
			Raw: []byte("{}"), Child: provider.Child{ChargeID: c.ProviderPaymentID},
		}
		return ans
	}
	if !json.Valid(ex.Body) {
		ans.Malformed = true
		return ans
	}
	p, err := decode(ex.Body)
	switch {
	case err != nil:
		ans.DecodeErr = err
		return ans
	case p.ID == "" && p.Status == "":
		return ans
	}
	o := action(c.Kind, p.object(ex.Body), c.Want)
	ans.Object = &o
	ans.Foreign = p.ID != c.ProviderPaymentID || !a.ownMode(p.Mode)
	return ans
}

// action reads what a charge says of a capture or void of it.
func action(kind provider.OperationKind, charge provider.Object, want provider.Money) provider.Object {
	released := charge.Reason == provider.ReasonVoided || charge.Reason == provider.ReasonExpired
	return provider.ActionOf(kind, charge, provider.ActionOutcome(kind, charge, released), want)
}

// action asks the payment what became of a capture or void of it. That the money is still
// held, and that no capture of ours is under way, is Mollie's word that there was none.
func (l *lookup) action(q provider.OperationQuery) provider.LookedUp {
	l.q.PaymentID, l.embed = q.PaymentID, embedCaptures
	l.byID(q.ProviderPaymentID)
	found := l.conclude()
	if found.Verdict != provider.LookupFound {
		return found
	}
	charge := found.Objects[0]
	if charge.Outcome != provider.Processing || charge.Status != statusHeld {
		found.Objects = []provider.Object{action(q.Kind, charge, q.Want)}
		return found
	}
	found.Objects = nil
	if q.Kind == provider.OpCapture {
		switch o, said := l.fetched.captureOf(q); {
		case !said:
			found.Verdict, found.Reason, found.Alert = provider.LookupNoAnswer, provider.ReasonContract, provider.AlertContract
			found.Health = provider.HealthNeutral
			return found
		case o != nil:
			found.Objects = []provider.Object{*o}
			return found
		}
	}
	found.Verdict, found.Reason = provider.LookupAbsent, provider.ReasonNotFound
	return found
}

// captureOf finds our capture among those of a payment; one that failed only where there is
// no other one of ours. said: there was a list, and all of it could be read.
func (p payment) captureOf(q provider.OperationQuery) (o *provider.Object, said bool) {
	if p.Embedded.Captures == nil {
		return nil, false
	}
	for _, raw := range *p.Embedded.Captures {
		r, err := decodePart(raw, "capture")
		if err != nil || r.ID == "" {
			return nil, false
		}
		if id := r.metadata().OperationID; id == "" || !strings.EqualFold(id, q.OperationID) {
			continue
		}
		if made := r.captured(raw, p.ID); o == nil || o.Outcome == provider.Failed {
			o = &made
		}
	}
	return o, true
}

// captureEvent reads an event about a capture: one that succeeded says what its charge
// took. One that failed took nothing, and the charge is as it was: if it was one of ours, it
// is an event about that operation.
func (a *Adapter) captureEvent(out provider.Event, e event, word string) ([]provider.Event, error) {
	r, err := decodePart(e.Embedded.Entity, "capture")
	if err != nil {
		return nil, err
	}
	if r.ID == "" || r.PaymentID == "" || e.EntityID != "" && e.EntityID != r.ID {
		return nil, errPayment
	}
	switch ours := r.metadata().OperationID != ""; {
	case !a.ownMode(r.Mode):
		return []provider.Event{out}, nil
	case word == "succeeded":
		out.Object = r.charge(e.Embedded.Entity, r.PaymentID)
	case word == "failed" && ours:
		out.Object = r.captured(e.Embedded.Entity, r.PaymentID)
		out.Object.ID, out.Object.Child.Charge = r.ID, nil
	default:
		return []provider.Event{out}, nil
	}
	if out.Interesting = true; r.Status != word {
		out.Object.Outcome = ""
	}
	return []provider.Event{out}, nil
}
