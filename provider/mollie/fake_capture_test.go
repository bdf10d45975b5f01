package mollie

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// actionBooks is the fake's part about captures, releases and chargebacks; the fake's mutex
// guards it.
type actionBooks struct {
	next        []providertest.Behaviour
	received    []providertest.ReceivedOperation
	byKey       map[string]map[string]any
	captures    map[string][]any // payment → its captures
	chargebacks map[string][]any // payment → its chargebacks
}

var (
	_ providertest.ActionFake      = (*fake)(nil)
	_ providertest.ActionEventFake = (*fake)(nil)
	_ providertest.DisputeFake     = (*fake)(nil)
)

func (f *fake) NextAction(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actions.next = append(f.actions.next, bs...)
}

func (f *fake) ReceivedActions() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.actions.received)
}

func (f *fake) Lapse(id string) {
	f.change(id, func(o *provider.Object) { o.Status, o.Outcome = "expired", provider.Failed })
}

func (f *fake) ActionEvent(id string, kind provider.OperationKind, charge provider.Object, money provider.Money, at time.Time) (http.Header, []byte) {
	if kind == provider.OpCapture {
		c := renderedCapture("cpt_1", "op1", charge.ID, "succeeded", money)
		return signedEvent(id, "capture.succeeded", "cpt_1", c, at)
	}
	charge.Status = "canceled"
	return signedEvent(id, "payment.canceled", charge.ID, rendered(charge), at)
}

// DisputeEvent renders a chargeback; it has no deadline.
func (f *fake) DisputeEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kind := "chargeback.received"
	if about.Status == provider.DisputeWon {
		kind = "chargeback.reversed"
	}
	return signedEvent(id, kind, about.ID, renderedChargeback(about, at), at)
}

func renderedChargeback(o provider.Object, at time.Time) map[string]any {
	c := map[string]any{
		"resource": "chargeback", "id": o.ID, "amount": wireAmount(o.Money), "paymentId": o.Child.ChargeID, "reversedAt": nil,
		"createdAt": o.CreatedAt.UTC().Format(time.RFC3339), "reason": map[string]string{"code": "4837", "description": o.Reason},
	}
	if o.Status == provider.DisputeWon {
		c["reversedAt"] = at.UTC().Format(time.RFC3339)
	}
	return c
}

// ActionRefusal renders the event that tells of a capture that failed; of a release there
// is none.
func (f *fake) ActionRefusal(id string, _ provider.OperationKind, operation string, charge provider.Object, money provider.Money, at time.Time) (http.Header, []byte) {
	return signedEvent(id, "capture.failed", "cpt_9", renderedCapture("cpt_9", operation, charge.ID, "failed", money), at)
}

func renderedCapture(id, operation, payment, status string, m provider.Money) map[string]any {
	return map[string]any{
		"resource": "capture", "id": id, "mode": "test", "description": "Capture", "amount": wireAmount(m), "status": status,
		"paymentId": payment, "createdAt": "2026-02-02T02:40:00+00:00", "metadata": map[string]string{"operation_id": operation, "payment_id": "p1"},
	}
}

// change makes a booked payment another one, and returns it.
func (f *fake) change(id string, with func(*provider.Object)) (out provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.booked {
		if o := &f.booked[i]; o.ID == id {
			if o.Totals != nil {
				totals := *o.Totals
				o.Totals = &totals
			}
			with(o)
			out = *o
		}
	}
	return out
}

// takeAction notes a call and says what to do with it, and what its key stands for already.
func (f *fake) takeAction(r *http.Request, body []byte) (b providertest.Behaviour, known map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	f.actions.received = append(f.actions.received, providertest.ReceivedOperation{ChargeID: r.PathValue("id"), Key: key, Body: body})
	b = providertest.Succeed
	if len(f.actions.next) > 0 {
		b, f.actions.next = f.actions.next[0], f.actions.next[1:]
	}
	return b, f.actions.byKey[key]
}

// remember keeps a capture under its key and with its payment.
func (f *fake) remember(key, payment string, c map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.actions.byKey == nil {
		f.actions.byKey, f.actions.captures = map[string]map[string]any{}, map[string][]any{}
	}
	f.actions.byKey[key] = c
	f.actions.captures[payment] = append(f.actions.captures[payment], c)
}

// embedded adds what was asked for beside the payment.
func (f *fake) embedded(r *http.Request, p map[string]any) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, of := range map[string]map[string][]any{"captures": f.actions.captures, "chargebacks": f.actions.chargebacks} {
		if r.URL.Query().Get("embed") == name {
			list := of[r.PathValue("id")]
			p["_embedded"] = map[string]any{name: append([]any{}, list...)}
		}
	}
	return p
}

func (f *fake) capture(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	b, known := f.takeAction(r, body)
	id, m := r.PathValue("id"), asked(body).Money
	c := renderedCapture("cpt_"+strconv.Itoa(len(f.ReceivedActions())), metadataOf(body)["operation_id"], id, "succeeded", m)
	switch {
	case b == providertest.Decline:
		c["status"] = "failed"
		reply(w, http.StatusCreated, c)
		return
	case b == providertest.NotAllowed:
		htmlPage(w, http.StatusMethodNotAllowed)
		return
	case refuse(w, b, provider.Object{}):
		return
	case known != nil:
		reply(w, http.StatusCreated, known)
		return
	case b == providertest.Accept:
		c["status"] = "pending"
	default:
		f.change(id, func(o *provider.Object) {
			o.Status, o.Outcome, o.Totals.Captured = "paid", provider.Succeeded, m.Amount
		})
	}
	f.remember(r.Header.Get("Idempotency-Key"), id, c)
	switch b {
	case providertest.Succeed, providertest.Accept:
	case providertest.ChargeOther:
		c = renderedCapture("cpt_x", "another", id, "succeeded", m)
	case providertest.ChargeOtherSum:
		m.Amount++
		c = renderedCapture("cpt_x", "op1", id, "succeeded", m)
	case providertest.ChargeOddStatus:
		c = renderedCapture("cpt_x", "op1", id, "levitating", m)
	default:
		f.misact(w, r, b, provider.Object{ID: id})
		return
	}
	reply(w, http.StatusCreated, c)
}

// misact answers what was carried out in the ways that captures and releases have in common.
func (f *fake) misact(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	if b == providertest.ChargeJunk {
		_, _ = io.WriteString(w, "OK")
		return
	}
	respond(w, r, b, o)
}

// release accepts, and says no more; where it has to say something odd it is the payment.
func (f *fake) release(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	b, _ := f.takeAction(r, body)
	id := r.PathValue("id")
	switch {
	case b == providertest.Decline: // somebody captured it before
		o := f.change(id, func(o *provider.Object) {
			o.Status, o.Outcome, o.Totals.Captured = "paid", provider.Succeeded, o.Money.Amount
		})
		reply(w, http.StatusOK, rendered(o))
		return
	case b == providertest.NotAllowed:
		htmlPage(w, http.StatusMethodNotAllowed)
		return
	case refuse(w, b, provider.Object{}):
		return
	}
	o := f.change(id, func(o *provider.Object) {
		if b != providertest.Accept {
			o.Status, o.Outcome = "canceled", provider.Failed
		}
	})
	switch b {
	case providertest.Succeed, providertest.Accept:
		reply(w, http.StatusAccepted, map[string]any{})
	case providertest.ChargeOther:
		o.ID = "tr_another"
		reply(w, http.StatusAccepted, rendered(o))
	default:
		f.misact(w, r, b, o)
	}
}
