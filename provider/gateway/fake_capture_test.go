package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// fakeActions is the part of the fake that captures and voids; the fake's mutex guards it.
type fakeActions struct {
	next     []providertest.Behaviour
	received []providertest.ReceivedOperation
	done     map[string]bool // keys
}

var _ providertest.ActionFake = (*fake)(nil)

func (f *fake) NextAction(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actions.next = append(f.actions.next, bs...)
}

func (f *fake) ReceivedActions() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]providertest.ReceivedOperation(nil), f.actions.received...)
}

func (f *fake) Lapse(id string) {
	f.change(id, func(o *provider.Object) {
		o.Status, o.Outcome, o.Reason = "canceled", provider.Failed, provider.ReasonExpired
	})
}

// change makes a booked charge another one, and returns it.
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

// takeAction notes a call and says what to do with it, and whether its key is known.
func (f *fake) takeAction(r *http.Request, body []byte) (b providertest.Behaviour, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	f.actions.received = append(f.actions.received, providertest.ReceivedOperation{ChargeID: r.PathValue("id"), Key: key, Body: body})
	if f.actions.done == nil {
		f.actions.done = map[string]bool{}
	}
	known, f.actions.done[key] = f.actions.done[key] && !f.noKeys, true
	if len(f.actions.next) == 0 {
		return providertest.Succeed, known
	}
	b = f.actions.next[0]
	f.actions.next = f.actions.next[1:]
	return b, known
}

func (f *fake) act(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	var asked captureBody
	if err := json.Unmarshal(body, &asked); err != nil {
		panic(err)
	}
	b, known := f.takeAction(r, body)
	switch {
	case b == providertest.Decline:
		fail(w, http.StatusPaymentRequired, "capture_declined")
		return
	case b == providertest.NotAllowed:
		page(w, http.StatusMethodNotAllowed)
		return
	case refuse(w, b):
		return
	case known:
		w.Header().Set("Idempotent-Replayed", "true")
	}
	f.respondAction(w, r, b, f.change(r.PathValue("id"), func(o *provider.Object) {
		switch {
		case known || b == providertest.Accept:
		case strings.HasSuffix(r.URL.Path, "/void"):
			o.Status, o.Outcome, o.Reason = "canceled", provider.Failed, provider.ReasonVoided
		default:
			o.Status, o.Outcome, o.Totals.Captured = "succeeded", provider.Succeeded, asked.Amount
		}
	}))
}

func (f *fake) respondAction(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	switch b {
	case providertest.Accept:
		reply(w, http.StatusAccepted, wire(o))
	case providertest.ChargeOther:
		o.ID = "pay_other"
		reply(w, http.StatusOK, wire(o))
	case providertest.ChargeOtherSum:
		totals := *o.Totals
		totals.Captured++
		o.Totals, o.Money.Amount = &totals, o.Money.Amount+1
		reply(w, http.StatusOK, wire(o))
	case providertest.ChargeJunk:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","status":}`)
	default: // what is the same for charges
		respond(w, r, b, o)
	}
}
