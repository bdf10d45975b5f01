package stripe

import (
	"io"
	"net/http"
	"net/url"
	"slices"
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

func (f *fake) refundRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/refunds", f.refund)
	mux.HandleFunc("GET /v1/refunds", f.listRefunds)
	mux.HandleFunc("GET /v1/refunds/{id}", f.getRefund)
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

func (f *fake) OperationEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kind := "refund.updated"
	if about.Outcome == provider.Failed {
		kind = "refund.failed"
	}
	return signedEvent(id, kind, renderedRefund(about), at)
}

func (f *fake) DisputeEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kind, word := "charge.dispute.closed", about.Status
	if word == provider.DisputeOpened {
		kind, word = "charge.dispute.created", "needs_response"
	}
	return signedEvent(id, kind, map[string]any{
		"id": about.ID, "object": "dispute", "amount": wireAmount(about.Money), "currency": strings.ToLower(about.Money.Currency),
		"charge": "ch_1", "payment_intent": about.Child.ChargeID, "created": about.CreatedAt.Unix(), "reason": about.Reason,
		"status": word, "evidence_details": map[string]any{"due_by": about.Child.DueBy.Unix()},
	}, at)
}

// Leak implements providertest.LeakyFake.
func (f *fake) Leak(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.leak = text
}

// leaks answers carelessly, if told so.
func (f *fake) leaks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		text := f.refunds.leak
		f.mu.Unlock()
		if text == "" {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fail(w, http.StatusBadRequest, "invalid_request_error", "parameter_invalid", "message", text, "request", text)
	})
}

// renderedRefund is a Refund of Stripe's.
func renderedRefund(o provider.Object) map[string]any {
	status := o.Status
	if status == "" {
		status = map[provider.Outcome]string{
			provider.Succeeded: "succeeded", provider.Processing: "pending", provider.Failed: "failed",
		}[o.Outcome]
	}
	r := map[string]any{
		"id": o.ID, "object": "refund", "status": status, "amount": wireAmount(o.Money), "currency": strings.ToLower(o.Money.Currency),
		"created": o.CreatedAt.Unix(), "payment_intent": o.Child.ChargeID, "charge": "ch_1", "reason": nil, "metadata": map[string]string{},
	}
	if o.Reference != "" {
		r["metadata"] = map[string]string{"operation_id": o.Reference, "payment_id": o.Child.PaymentID}
	}
	return r
}

// takeRefund notes a call and says what to do with it.
func (f *fake) takeRefund(r *http.Request, body []byte, form url.Values) providertest.Behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.received = append(f.refunds.received, providertest.ReceivedOperation{
		ChargeID: form.Get("payment_intent"), Key: r.Header.Get("Idempotency-Key"), Body: body,
	})
	if len(f.refunds.next) == 0 {
		return providertest.Succeed
	}
	b := f.refunds.next[0]
	f.refunds.next = f.refunds.next[1:]
	return b
}

// bookRefund makes the refund once per key, and says whether it was there.
func (f *fake) bookRefund(key string, form url.Values) (provider.Object, bool) {
	amount, err := strconv.ParseInt(form.Get("amount"), 10, 64)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.refunds.byKey[key]; ok {
		return f.refunds.booked[i], true
	}
	o := provider.Object{
		ID: "re_" + strconv.Itoa(len(f.refunds.booked)+1), Reference: form.Get("metadata[operation_id]"), Outcome: provider.Succeeded,
		Money: provider.Money{Amount: amount}, CreatedAt: time.Now(), Kind: provider.ObjectRefund,
		Child: provider.Child{ChargeID: form.Get("payment_intent"), PaymentID: form.Get("metadata[payment_id]")},
	}
	for _, c := range f.booked {
		if c.ID == o.Child.ChargeID {
			o.Money.Currency = c.Money.Currency
		}
	}
	if o.Money.Currency == "UGX" || o.Money.Currency == "ISK" {
		o.Money.Amount /= 100
	}
	if f.refunds.byKey == nil {
		f.refunds.byKey = map[string]int{}
	}
	f.refunds.byKey[key] = len(f.refunds.booked)
	f.refunds.booked = append(f.refunds.booked, o)
	return o, false
}

func (f *fake) refund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		panic(err)
	}
	b := f.takeRefund(r, body, form)
	switch {
	case b == providertest.NotAllowed:
		page(w, http.StatusMethodNotAllowed)
		return
	case b != providertest.Decline && refuse(w, b):
		return
	}
	o, replayed := f.bookRefund(r.Header.Get("Idempotency-Key"), form)
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	respondRefund(w, r, b, o)
}

func respondRefund(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	switch b {
	case providertest.Accept:
		o.Outcome = provider.Processing
	case providertest.Decline: // a refund that failed is a refund at Stripe
		o.Outcome = provider.Failed
	case providertest.ChargeOther:
		o.Reference = "someone-else"
	case providertest.ChargeOtherSum:
		o.Money.Amount += 10
	case providertest.ChargeOddStatus:
		o.Status = "settling"
	case providertest.ChargeJunk:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","object":"refund","status":}`)
		return
	case providertest.Succeed:
	default: // what is the same for charges and refunds
		respond(w, r, b, o)
		return
	}
	reply(w, http.StatusOK, renderedRefund(o))
}

func (f *fake) getRefund(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	for _, o := range f.BookedOperations() {
		if o.ID == r.PathValue("id") {
			reply(w, http.StatusOK, renderedRefund(o))
			return
		}
	}
	fail(w, http.StatusNotFound, "invalid_request_error", "resource_missing")
}

// listRefunds answers newest first, as Stripe does.
func (f *fake) listRefunds(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	all := f.behaves() == providertest.AskAll
	of := r.URL.Query().Get("payment_intent")
	var hits []map[string]any
	for _, o := range slices.Backward(f.BookedOperations()) {
		if all || of == "" || o.Child.ChargeID == of {
			hits = append(hits, renderedRefund(o))
		}
	}
	answerList(w, r.URL.Query(), hits)
}
