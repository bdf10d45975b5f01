package mollie

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// refundBooks is the fake's part about refunds.
type refundBooks struct {
	next     []providertest.Behaviour
	received []providertest.ReceivedOperation
	booked   []provider.Object
	byKey    map[string]int // key → index in booked
	leak     string
}

func (f *fake) NextOperation(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.next = append(f.refunds.next, bs...)
}

func (f *fake) ReceivedOperations() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refunds.received)
}

func (f *fake) BookedOperations() []provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refunds.booked)
}

func (f *fake) BookOperation(o provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.booked = append(f.refunds.booked, o)
}

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
	reply(w, http.StatusUnprocessableEntity, map[string]any{
		"status": 422, "title": "Unprocessable Entity", "detail": text, "field": "amount",
		"debug": map[string]any{"request": text, "cardNumber": "4242424242424242"},
	})
	return true
}

// renderedRefund is a refund of Mollie's.
func renderedRefund(o provider.Object) map[string]any {
	status := o.Status
	if status == "" {
		status = map[provider.Outcome]string{provider.Succeeded: "refunded", provider.Processing: "queued", provider.Failed: "failed"}[o.Outcome]
	}
	r := map[string]any{
		"resource": "refund", "id": o.ID, "mode": "test", "description": "Refund", "amount": wireAmount(o.Money), "status": status,
		"paymentId": o.Child.ChargeID, "createdAt": o.CreatedAt.UTC().Format("2006-01-02T15:04:05+00:00"), "metadata": nil,
	}
	if o.Reference != "" {
		r["metadata"] = map[string]string{"operation_id": o.Reference, "payment_id": o.Child.PaymentID}
	}
	return r
}

func (f *fake) OperationEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	r := renderedRefund(about)
	return signedEvent(id, "refund."+r["status"].(string), about.ID, r, at)
}

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

func (f *fake) refund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	b := f.takeRefund(r, body)
	o := asked(body)
	var m struct {
		Metadata map[string]string `json:"metadata"`
	}
	_ = json.Unmarshal(body, &m)
	o.Reference, o.Kind = m.Metadata["operation_id"], provider.ObjectRefund
	o.Child = provider.Child{ChargeID: r.PathValue("id"), PaymentID: m.Metadata["payment_id"]}
	switch b {
	case providertest.Decline:
		o.ID, o.Outcome = "re_no", provider.Failed
		reply(w, http.StatusCreated, renderedRefund(o))
		return
	case providertest.NotAllowed:
		htmlPage(w, http.StatusMethodNotAllowed)
		return
	}
	if refuse(w, b, o) {
		return
	}
	o = f.bookRefund(r.Header.Get("Idempotency-Key"), o)
	switch b {
	case providertest.Accept:
		o.Outcome = provider.Processing
	case providertest.ChargeJunk:
		_, _ = io.WriteString(w, "OK")
		return
	case providertest.ChargeOther:
		o.Reference = "another"
	case providertest.ChargeOtherSum:
		o.Money.Amount++
	case providertest.ChargeOddStatus:
		o.Status = "levitating"
	case providertest.Succeed:
	default:
		respond(w, r, b, o)
		return
	}
	reply(w, http.StatusCreated, renderedRefund(o))
}

func (f *fake) bookRefund(key string, o provider.Object) provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.refunds.byKey[key]; ok {
		return f.refunds.booked[i]
	}
	if f.refunds.byKey == nil {
		f.refunds.byKey = map[string]int{}
	}
	o.ID = "re_" + strconv.Itoa(len(f.refunds.booked)+1)
	f.refunds.byKey[key] = len(f.refunds.booked)
	f.refunds.booked = append(f.refunds.booked, o)
	return o
}

func (f *fake) listRefunds(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	f.mu.Lock()
	all := f.ask == providertest.AskAll
	f.mu.Unlock()
	hits := []any{}
	for _, o := range f.BookedOperations() {
		if all || o.Child.ChargeID == r.PathValue("id") {
			hits = append(hits, renderedRefund(o))
		}
	}
	reply(w, http.StatusOK, map[string]any{"count": len(hits), "_embedded": map[string]any{"refunds": hits}, "_links": map[string]any{"next": nil}})
}

func (f *fake) getRefund(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	for _, o := range f.BookedOperations() {
		if o.ID == r.PathValue("refund") && o.Child.ChargeID == r.PathValue("id") {
			reply(w, http.StatusOK, renderedRefund(o))
			return
		}
	}
	fail(w, http.StatusNotFound, "No refund exists with token "+r.PathValue("refund")+".", "")
}

// withTotals is a payment with what was given back of it.
func (f *fake) withTotals(o provider.Object) map[string]any {
	p := rendered(o)
	back := provider.Money{Currency: o.Money.Currency}
	for _, r := range f.BookedOperations() {
		if r.Child.ChargeID == o.ID && r.Outcome == provider.Succeeded {
			back.Amount += r.Money.Amount
		}
	}
	p["amountRefunded"] = wireAmount(back)
	return p
}
