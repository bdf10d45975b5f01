package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// fakeRefunds is the part of the fake that refunds; the fake's mutex guards it.
type fakeRefunds struct {
	next     []providertest.Behaviour
	received []providertest.ReceivedOperation
	booked   []provider.Object
	byKey    map[string]int // key → index in booked
	leak     string
}

var (
	_ providertest.OperationFake = (*fake)(nil)
	_ providertest.DisputeFake   = (*fake)(nil)
	_ providertest.LeakyFake     = (*fake)(nil)
)

func (f *fake) NextOperation(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.next = append(f.refunds.next, bs...)
}

func (f *fake) ReceivedOperations() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]providertest.ReceivedOperation(nil), f.refunds.received...)
}

func (f *fake) BookedOperations() []provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]provider.Object(nil), f.refunds.booked...)
}

func (f *fake) BookOperation(o provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.booked = append(f.refunds.booked, o)
}

func (f *fake) OperationEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	return f.event(id, "refund.updated", wireRefund(about), at)
}

func (f *fake) DisputeEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	return f.event(id, "dispute."+about.Status, map[string]any{
		"id": about.ID, "payment_id": about.Child.ChargeID, "payment_reference": about.Child.PaymentID, "status": about.Status,
		"amount": about.Money.Amount, "currency": about.Money.Currency, "reason": about.Reason,
		"due_by": about.Child.DueBy.Format(time.RFC3339), "created_at": about.CreatedAt.Format(time.RFC3339Nano),
	}, at)
}

// Leak implements providertest.LeakyFake.
func (f *fake) Leak(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.leak = text
}

// leaks answers carelessly, if told so.
func (f *fake) leaks(w http.ResponseWriter) bool {
	f.mu.Lock()
	text := f.refunds.leak
	f.mu.Unlock()
	if text == "" {
		return false
	}
	w.Header().Set("Location", "/?"+strings.NewReplacer(" ", "+").Replace(text))
	reply(w, http.StatusBadRequest, map[string]any{
		"error": map[string]any{"code": "invalid_request", "message": text},
		"debug": map[string]any{"request": text, "card_number": "4242424242424242"},
	})
	return true
}

// wireRefund renders a refund object.
func wireRefund(o provider.Object) map[string]any {
	status := o.Status
	for word, outcome := range refundOutcomes {
		if status == "" && outcome == o.Outcome && word != "canceled" {
			status = word
		}
	}
	return map[string]any{
		"id": o.ID, "payment_id": o.Child.ChargeID, "payment_reference": o.Child.PaymentID, "reference": o.Reference,
		"status": status, "amount": o.Money.Amount, "currency": o.Money.Currency,
		"idempotency_key": o.OperationKey, "created_at": o.CreatedAt.Format(time.RFC3339Nano),
	}
}

// takeRefund notes a call and says what to do with it.
func (f *fake) takeRefund(r *http.Request, body []byte) providertest.Behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.received = append(f.refunds.received, providertest.ReceivedOperation{
		ChargeID: r.PathValue("id"), Key: r.Header.Get("Idempotency-Key"), Body: body,
	})
	if len(f.refunds.next) == 0 {
		return providertest.Succeed
	}
	b := f.refunds.next[0]
	f.refunds.next = f.refunds.next[1:]
	return b
}

// bookRefund makes the refund once per key, and says whether it was there.
func (f *fake) bookRefund(charge, key string, body []byte) (provider.Object, bool) {
	var c refundBody
	if err := json.Unmarshal(body, &c); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.refunds.byKey[key]; ok && !f.noKeys {
		return f.refunds.booked[i], true
	}
	o := provider.Object{
		ID: "ref_" + strconv.Itoa(len(f.refunds.booked)+1), Reference: c.Reference, Outcome: provider.Succeeded,
		Money: provider.Money{Amount: c.Amount, Currency: c.Currency}, CreatedAt: time.Now(),
		Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: charge},
	}
	if !f.noKeys {
		o.OperationKey = key
		if f.refunds.byKey == nil {
			f.refunds.byKey = map[string]int{}
		}
		f.refunds.byKey[key] = len(f.refunds.booked)
	}
	f.refunds.booked = append(f.refunds.booked, o)
	return o, false
}

func (f *fake) refund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	b := f.takeRefund(r, body)
	switch {
	case b == providertest.Decline:
		fail(w, http.StatusPaymentRequired, "refund_declined")
		return
	case b == providertest.NotAllowed:
		page(w, http.StatusMethodNotAllowed)
		return
	case refuse(w, b):
		return
	}
	o, replayed := f.bookRefund(r.PathValue("id"), r.Header.Get("Idempotency-Key"), body)
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	f.respondRefund(w, r, b, o)
}

func (f *fake) respondRefund(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	switch b {
	case providertest.Accept:
		o.Outcome = provider.Processing
		reply(w, http.StatusAccepted, wireRefund(o))
	case providertest.ChargeOther:
		o.Reference, o.OperationKey = "someone-else", "another"
		reply(w, http.StatusOK, wireRefund(o))
	case providertest.ChargeOtherSum:
		o.Money.Amount++
		reply(w, http.StatusOK, wireRefund(o))
	case providertest.ChargeOddStatus:
		o.Status = "settling"
		reply(w, http.StatusOK, wireRefund(o))
	case providertest.ChargeJunk:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","status":}`)
	case providertest.Succeed:
		reply(w, http.StatusOK, wireRefund(o))
	default: // what is the same for charges and refunds
		respond(w, r, b, o)
	}
}

func (f *fake) getRefund(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, !f.noAsk) || f.leaks(w) {
		return
	}
	for _, o := range f.BookedOperations() {
		if o.ID == r.PathValue("id") {
			reply(w, http.StatusOK, wireRefund(o))
			return
		}
	}
	fail(w, http.StatusNotFound, "not_found")
}

func (f *fake) listRefunds(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, !f.noAsk) || f.leaks(w) {
		return
	}
	f.mu.Lock()
	all := f.ask == providertest.AskAll
	f.mu.Unlock()
	var hits []map[string]any
	for _, o := range f.BookedOperations() {
		if all || matches(r.URL.Query().Get, o) {
			hits = append(hits, wireRefund(o))
		}
	}
	replyPage(w, r, hits)
}

// totals are what the fake says of a charge.
func (f *fake) totals(o provider.Object) map[string]any {
	var refunded int64
	for _, r := range f.BookedOperations() {
		if r.Child.ChargeID == o.ID && r.Outcome == provider.Succeeded {
			refunded += r.Money.Amount
		}
	}
	return map[string]any{"captured": o.Money.Amount, "refunded": refunded}
}
