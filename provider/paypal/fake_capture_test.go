package paypal

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var (
	_ providertest.ActionFake  = (*fake)(nil)
	_ providertest.DisputeFake = (*fake)(nil)
	_ providertest.RefusalFake = (*fake)(nil)
)

// actionBooks is the fake's part about captures and voids; the fake's mutex guards it.
type actionBooks struct {
	next     []providertest.Behaviour
	received []providertest.ReceivedOperation
	done     map[string]bool // request ids
}

func (f *fake) NextAction(bs ...providertest.Behaviour) {
	f.set(func() { f.actions.next = append(f.actions.next, bs...) })
}

func (f *fake) ReceivedActions() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.actions.received)
}

// Lapse lets go of what an order holds. PayPal's word is that of a void.
func (f *fake) Lapse(id string) {
	f.change(id, func(o *provider.Object) {
		o.Outcome, o.Reason, o.Totals.AuthorisedUntil = provider.Failed, statusVoided, time.Now().Add(-time.Minute)
	})
}

// change makes a booked order another one, and returns it.
func (f *fake) change(id string, with func(*provider.Object)) (out provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.booked {
		if f.booked[i].ID == id {
			totals := *f.booked[i].Totals
			f.booked[i].Totals = &totals
			with(&f.booked[i])
			out = f.booked[i]
		}
	}
	return out
}

// wireMinor reads an amount as the fake's merchant wrote it.
func wireMinor(m map[string]string) int64 {
	wire, minor := decimals(m["currency_code"])
	whole, frac, _ := strings.Cut(m["value"], ".")
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", minor-wire), 10, 64)
	if err != nil || len(frac) != wire {
		panic("amount " + m["value"] + m["currency_code"])
	}
	return n
}

// authorized is the authorisation of an order that holds its money, or did.
func authorized(o provider.Object) map[string]any {
	status := "CREATED"
	switch {
	case o.Reason != "":
		status = o.Reason
	case o.Totals.Captured > 0 && !declined(o):
		status = "CAPTURED"
	}
	m := o.Money
	m.Amount = o.Totals.Authorised
	return map[string]any{
		"id": "AUTH-" + o.ID, "status": status, "amount": wireMoney(m), "custom_id": o.Reference, "invoice_id": o.Reference,
		"create_time": o.CreatedAt.UTC().Format(time.RFC3339), "update_time": time.Now().UTC().Format(time.RFC3339),
		"expiration_time":    o.Totals.AuthorisedUntil.UTC().Format(time.RFC3339),
		"supplementary_data": map[string]any{"related_ids": map[string]string{"order_id": o.ID}},
	}
}

// declined reports whether the capture of what an order holds was declined.
func declined(o provider.Object) bool { return o.Message == "declined" }

// taken is the capture of an order that held its money.
func taken(o provider.Object, outcome provider.Outcome) map[string]any {
	if declined(o) {
		outcome = provider.Failed
	}
	o.Outcome, o.Money.Amount = outcome, o.Totals.Captured
	c := captured(o)
	c["supplementary_data"] = map[string]any{"related_ids": map[string]string{"order_id": o.ID, "authorization_id": "AUTH-" + o.ID}}
	return c
}

// renderedHold is an order that holds its money, or did.
func renderedHold(o provider.Object) map[string]any {
	payments := map[string]any{"authorizations": []any{authorized(o)}}
	if o.Totals.Captured > 0 {
		payments["captures"] = []any{taken(o, o.Outcome)}
	}
	whole := o.Money
	whole.Amount = o.Totals.Authorised
	return map[string]any{
		"id": o.ID, "intent": "AUTHORIZE", "status": "COMPLETED", "create_time": o.CreatedAt.UTC().Format(time.RFC3339),
		"purchase_units": []any{map[string]any{
			"custom_id": o.Reference, "invoice_id": o.Reference, "amount": wireMoney(whole), "payments": payments,
		}},
	}
}

// takeAction notes a call and says what to do with it, and whether its key is known.
func (f *fake) takeAction(r *http.Request, body []byte) (b providertest.Behaviour, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("PayPal-Request-Id")
	f.actions.received = append(f.actions.received, providertest.ReceivedOperation{
		ChargeID: strings.TrimPrefix(r.PathValue("id"), "AUTH-"), Key: key, Body: body,
	})
	known = f.actions.done[key]
	if len(f.actions.next) == 0 {
		return providertest.Succeed, known
	}
	b = f.actions.next[0]
	f.actions.next = f.actions.next[1:]
	return b, known
}

// act captures or voids.
func (f *fake) act(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !f.known(w, r) || f.leaks(w) {
		return
	}
	b, known := f.takeAction(r, body)
	void := strings.HasSuffix(r.URL.Path, "/void")
	id := strings.TrimPrefix(r.PathValue("id"), "AUTH-")
	now := f.change(id, func(*provider.Object) {})
	switch {
	case b == providertest.NotAllowed:
		page(w, http.StatusMethodNotAllowed)
		return
	case b == providertest.KeyReused: // the first answer under the request id, whatever was asked now
		now.ID = "ANOTHER"
		reply(w, http.StatusOK, acted(void, now, provider.Succeeded))
		return
	case refuse(w, b, now):
		return
	}
	if !known {
		now = f.change(id, func(o *provider.Object) { carryOut(o, void, b, body) })
		f.set(func() {
			f.actions.done = maps.Clone(f.actions.done)
			if f.actions.done == nil {
				f.actions.done = map[string]bool{}
			}
			f.actions.done[r.Header.Get("PayPal-Request-Id")] = true
		})
	}
	answerAction(w, r, b, void, now)
}

func carryOut(o *provider.Object, void bool, b providertest.Behaviour, body []byte) {
	var q struct {
		Amount map[string]string `json:"amount"`
		Final  bool              `json:"final_capture"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		panic(err)
	}
	switch {
	case void && b == providertest.Accept:
	case void:
		o.Outcome, o.Reason = provider.Failed, statusVoided
	case !q.Final:
		panic("the rest would stay held")
	default:
		o.Outcome, o.Totals.Captured = provider.Succeeded, wireMinor(q.Amount)
		if b == providertest.Accept {
			o.Outcome = provider.Processing
		}
	}
}

// acted is what PayPal answers: the capture, or the authorisation.
func acted(void bool, o provider.Object, outcome provider.Outcome) map[string]any {
	if void {
		return authorized(o)
	}
	return taken(o, outcome)
}

func answerAction(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, void bool, o provider.Object) {
	totals := *o.Totals
	o.Totals = &totals
	answer := acted(void, o, o.Outcome)
	switch b {
	case providertest.ChargeOther:
		o.ID = "ANOTHER"
		answer = acted(void, o, o.Outcome)
	case providertest.ChargeOtherSum:
		totals.Captured += 100
		totals.Authorised += 100
		answer = acted(void, o, o.Outcome)
	case providertest.ChargeOddStatus:
		answer["status"] = "LEVITATING"
	case providertest.ChargeJunk:
		_, _ = io.WriteString(w, "OK")
		return
	case providertest.Succeed, providertest.Accept:
	default: // what is the same for charges
		respond(w, r, b, o, http.StatusCreated)
		return
	}
	reply(w, http.StatusCreated, answer)
}

func (f *fake) authorization(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	for _, o := range f.Booked() {
		if "AUTH-"+o.ID == r.PathValue("id") && o.Totals != nil {
			reply(w, http.StatusOK, authorized(o))
			return
		}
	}
	fail(w, http.StatusNotFound, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")
}

// webhooks is the list of the app's webhooks.
func (f *fake) webhooks(w http.ResponseWriter, r *http.Request) {
	if !f.misbehave(w, r) {
		reply(w, http.StatusOK, map[string]any{"webhooks": []any{map[string]any{"id": testHook, "url": "https://shop.example/webhooks/paypal"}}})
	}
}

// ActionRefusal declines a pending capture and tells so. Nothing in it is an operation of
// ours.
func (f *fake) ActionRefusal(id string, _ provider.OperationKind, _ string, charge provider.Object, _ provider.Money, at time.Time) (http.Header, []byte) {
	o := f.change(charge.ID, func(o *provider.Object) { o.Outcome, o.Message = provider.Processing, "declined" })
	return f.signedEvent(id, "PAYMENT.CAPTURE.DECLINED", taken(o, provider.Failed), at)
}

func (f *fake) DisputeEvent(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	d := map[string]any{
		"dispute_id": about.ID, "create_time": about.CreatedAt.UTC().Format(time.RFC3339), "reason": about.Reason,
		"disputed_transactions": []any{map[string]any{
			"seller_transaction_id": "CAP-" + about.Child.ChargeID, "invoice_number": about.Child.PaymentID, "custom": about.Child.PaymentID,
		}},
		"status": "WAITING_FOR_SELLER_RESPONSE", "dispute_amount": wireMoney(about.Money), "dispute_life_cycle_stage": "CHARGEBACK",
		"seller_response_due_date": about.Child.DueBy.UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	if about.Status == provider.DisputeOpened {
		return f.signedEvent(id, "CUSTOMER.DISPUTE.CREATED", d, at)
	}
	code := map[string]string{provider.DisputeWon: "RESOLVED_SELLER_FAVOUR", provider.DisputeLost: "RESOLVED_BUYER_FAVOUR"}[about.Status]
	d["status"], d["dispute_outcome"] = "RESOLVED", map[string]any{"outcome_code": code}
	return f.signedEvent(id, "CUSTOMER.DISPUTE.RESOLVED", d, at)
}
