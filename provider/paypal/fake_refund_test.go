package paypal

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// refundBooks is the fake's part about refunds.
type refundBooks struct {
	next     []providertest.Behaviour
	received []providertest.ReceivedOperation
	booked   []provider.Object
	byKey    map[string]int // request id → index in booked
	leak     string
}

func (f *fake) NextOperation(bs ...providertest.Behaviour) {
	f.set(func() { f.refunds.next = append(f.refunds.next, bs...) })
}

func (f *fake) BookOperation(o provider.Object) {
	f.set(func() { f.refunds.booked = append(f.refunds.booked, o) })
}

func (f *fake) Leak(text string) { f.set(func() { f.refunds.leak = text }) }

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

// leaks answers carelessly, if told so.
func (f *fake) leaks(w http.ResponseWriter) bool {
	f.mu.Lock()
	text := f.refunds.leak
	f.mu.Unlock()
	if text == "" {
		return false
	}
	reply(w, http.StatusUnprocessableEntity, map[string]any{
		"name": "UNPROCESSABLE_ENTITY", "message": text, "details": []any{map[string]string{"issue": "ODD", "description": text}},
		"debug": map[string]any{"request": text, "card_number": "4242424242424242"},
	})
	return true
}

// renderedRefund is a refund of PayPal's. One made in its dashboard has the charge's ids.
func renderedRefund(o provider.Object) map[string]any {
	status := o.Status
	if status == "" {
		status = map[provider.Outcome]string{provider.Succeeded: "COMPLETED", provider.Processing: "PENDING", provider.Failed: "FAILED"}[o.Outcome]
	}
	custom := o.Reference
	if custom == "" {
		custom = o.Child.PaymentID
	}
	return map[string]any{
		"id": o.ID, "status": status, "amount": wireMoney(o.Money), "custom_id": custom, "invoice_id": o.Child.PaymentID,
		"create_time": o.CreatedAt.UTC().Format(time.RFC3339), "note_to_payer": "",
		"links": []any{map[string]string{"rel": "up", "href": "https://api.paypal.com/v2/payments/captures/CAP-" + o.Child.ChargeID}},
	}
}

func (f *fake) OperationEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kinds := map[provider.Outcome]string{
		provider.Succeeded: "PAYMENT.CAPTURE.REFUNDED", provider.Processing: "PAYMENT.REFUND.PENDING", provider.Failed: "PAYMENT.REFUND.FAILED",
	}
	return f.signedEvent(id, kinds[about.Outcome], renderedRefund(about), at)
}

// withRefunds is an order with what was given back of it.
func (f *fake) withRefunds(o provider.Object) map[string]any {
	out := rendered(o)
	u := out["purchase_units"].([]any)[0].(map[string]any)
	payments, ok := u["payments"].(map[string]any)
	if !ok {
		return out
	}
	list := []any{}
	for _, r := range f.BookedOperations() {
		if r.Child.ChargeID == o.ID {
			list = append(list, renderedRefund(r))
		}
	}
	payments["refunds"] = list
	return out
}

func (f *fake) takeRefund(r *http.Request, body []byte) providertest.Behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.received = append(f.refunds.received, providertest.ReceivedOperation{
		ChargeID: strings.TrimPrefix(r.PathValue("id"), "CAP-"), Key: r.Header.Get("PayPal-Request-Id"), Body: body,
	})
	if len(f.refunds.next) == 0 {
		return providertest.Succeed
	}
	b := f.refunds.next[0]
	f.refunds.next = f.refunds.next[1:]
	return b
}

// askedRefund reads the request for a refund.
func askedRefund(r *http.Request, body []byte) provider.Object {
	var q struct {
		Amount  map[string]string `json:"amount"`
		Custom  string            `json:"custom_id"`
		Invoice string            `json:"invoice_id"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		panic(err)
	}
	return provider.Object{
		Reference: q.Custom, Outcome: provider.Succeeded, Money: provider.Money{Amount: wireMinor(q.Amount), Currency: q.Amount["currency_code"]},
		CreatedAt: time.Now(), Kind: provider.ObjectRefund,
		Child: provider.Child{ChargeID: strings.TrimPrefix(r.PathValue("id"), "CAP-"), PaymentID: q.Invoice},
	}
}

func (f *fake) refund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !f.known(w, r) || f.leaks(w) {
		return
	}
	b, o := f.takeRefund(r, body), askedRefund(r, body)
	switch b {
	case providertest.NotAllowed:
		page(w, http.StatusMethodNotAllowed)
		return
	case providertest.KeyReused: // the first refund under the request id, whatever was asked now
		o.ID, o.Reference = "REF0", "another"
		reply(w, http.StatusOK, renderedRefund(o))
		return
	}
	if refuse(w, b, o) {
		return
	}
	o = f.bookRefund(r.Header.Get("PayPal-Request-Id"), o)
	switch b {
	case providertest.Accept:
		o.Outcome = provider.Processing
	case providertest.ChargeJunk:
		_, _ = io.WriteString(w, "OK")
		return
	case providertest.ChargeOther:
		o.Reference = "another"
	case providertest.ChargeOtherSum:
		o.Money.Amount += 100
	case providertest.ChargeOddStatus:
		o.Status = "LEVITATING"
	case providertest.Succeed:
	default:
		respond(w, r, b, o, http.StatusCreated)
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
	o.ID = "REF" + strconv.Itoa(len(f.refunds.booked)+1)
	f.refunds.byKey[key] = len(f.refunds.booked)
	f.refunds.booked = append(f.refunds.booked, o)
	return o
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
	fail(w, http.StatusNotFound, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")
}
