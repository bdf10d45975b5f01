package stripe

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// fakeActions is the part of the fake that captures and cancels; the fake's mutex guards it.
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
	f.change(id, func(o *provider.Object) { o.Status, o.Outcome, o.Reason = "canceled", provider.Failed, "automatic" })
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
	known, f.actions.done[key] = f.actions.done[key], true
	if len(f.actions.next) == 0 {
		return providertest.Succeed, known
	}
	b = f.actions.next[0]
	f.actions.next = f.actions.next[1:]
	return b, known
}

func (f *fake) act(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		panic(err)
	}
	b, known := f.takeAction(r, body)
	same := func(*provider.Object) {}
	switch {
	case b == providertest.Decline:
		fail(w, http.StatusPaymentRequired, "card_error", "card_declined", "payment_intent", rendered(f.change(r.PathValue("id"), same)))
		return
	case b == providertest.NotAllowed:
		page(w, http.StatusMethodNotAllowed)
		return
	case refuse(w, b):
		return
	case known:
		w.Header().Set("Idempotent-Replayed", "true")
	}
	respondAction(w, r, b, f.change(r.PathValue("id"), func(o *provider.Object) {
		switch {
		case known || b == providertest.Accept:
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			o.Status, o.Outcome, o.Reason = "canceled", provider.Failed, form.Get("cancellation_reason")
		default:
			n, err := strconv.ParseInt(form.Get("amount_to_capture"), 10, 64)
			if err != nil {
				panic(err)
			}
			o.Status, o.Outcome, o.Totals.Captured = "succeeded", provider.Succeeded, n
		}
	}))
}

func respondAction(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	totals := *o.Totals
	o.Totals = &totals
	switch b {
	case providertest.ChargeOther:
		o.ID = "pi_other"
		reply(w, http.StatusOK, rendered(o))
	case providertest.ChargeOtherSum:
		totals.Captured++
		o.Money.Amount++
		reply(w, http.StatusOK, rendered(o))
	case providertest.ChargeJunk:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","status":}`)
	case providertest.Accept:
		o.Status = "processing"
		reply(w, http.StatusOK, rendered(o))
	default: // what is the same for charges
		respond(w, r, b, o)
	}
}

// everyActionRequest makes each request that a capture or void can need.
func (a *Adapter) everyActionRequest(t *testing.T) {
	t.Helper()
	charge := provider.ChargeRequest{PaymentID: "p1", Money: provider.Money{Amount: 18600, Currency: "EUR"}, ManualCapture: true}
	body, err := a.Freeze(charge)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.Charge(t.Context(), "key-held", body, charge.Money).Exchange.Status)
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		r := provider.OperationRequest{OperationID: "op1", Kind: kind, PaymentID: "p1", ProviderPaymentID: "pi_123", Charged: charge.Money, Money: charge.Money}
		body, err := a.FreezeOperation(r)
		require.NoError(t, err)
		got := a.Operate(t.Context(), provider.OperationCall{Kind: kind, OperationID: "op1", ProviderPaymentID: "pi_123", Key: "key-" + string(kind), Body: body, Want: r.Money})
		require.Equal(t, http.StatusOK, got.Exchange.Status, "%s", got.Exchange.Body)
	}
}

// W-15, C-11: the amounts on the wire are Stripe's, and an intent that was captured
// already is looked up and not failed.
func TestCaptureOnTheWire(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	r := provider.OperationRequest{OperationID: "op1", Kind: provider.OpCapture, PaymentID: "p1", ProviderPaymentID: "pi_1",
		Charged: provider.Money{Amount: 500, Currency: "UGX"}, Money: provider.Money{Amount: 186, Currency: "UGX"}}
	body, err := a.FreezeOperation(r)
	require.NoError(t, err)
	require.Equal(t, "amount_to_capture=18600&metadata[operation_id]=op1", string(body))
	r.Kind = provider.OpVoid
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	require.Equal(t, "cancellation_reason=requested_by_customer", string(body))
}
