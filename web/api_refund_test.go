package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

// refunder is a provider that gives money back, but no odd cents of HUF.
type refunder struct{ askable }

func (a *refunder) Capabilities() provider.Capabilities {
	c := a.askable.Capabilities()
	c.Operations, c.Disputes = []provider.OperationKind{provider.OpRefund}, true
	return c
}

func (a *refunder) FreezeOperation(r provider.OperationRequest) ([]byte, error) {
	if r.Money.Currency == "HUF" && r.Money.Amount%100 != 0 {
		return nil, &provider.FieldError{Field: "amount", Reason: "this provider takes HUF without decimals"}
	}
	return json.Marshal(r)
}

func (a *refunder) Operate(context.Context, provider.OperationCall) provider.Charged {
	panic("the web never refunds")
}

func (a *refunder) LookupOperation(context.Context, provider.OperationQuery) provider.LookedUp {
	panic("the web never looks up")
}

// refundingAtlas makes "atlas" give money back; "borealis" never does.
func refundingAtlas(c *Config) {
	c.Registry = provider.NewRegistry(&refunder{askable{fakeAdapter{name: "atlas"}}}, &fakeAdapter{name: "borealis"})
}

// paidPayment is 49.00 EUR that atlas took as charge pay_ID.
func (w *webtest) paidPayment(change ...func(*store.Payment)) store.Payment {
	w.t.Helper()
	at := storetest.Epoch
	return w.db.SeedPayment(w.t, func(p *store.Payment) {
		p.Status, p.StatusEvidence, p.SettledAt, p.ProviderPaymentID = store.Succeeded, "answer", &at, "pay_"+p.ID.String()
		for _, fn := range change {
			fn(p)
		}
	})
}

// backOffice is an API client that may give money back.
func (w *webtest) backOffice() *program {
	w.t.Helper()
	k, secret, err := w.store.CreateAPIKey(w.t.Context(), "back office", store.System("test"), store.ScopeRefunds)
	require.NoError(w.t, err)
	return &program{w, k, secret}
}

func (p *program) refund(pay store.Payment, key, body string) reply {
	p.w.t.Helper()
	return p.call(http.MethodPost, "/payments/"+pay.ID.String()+"/refunds", body, "Idempotency-Key: "+key)
}

func (w *webtest) refunds() int { return w.number(`SELECT count(*) FROM operations`) }

func TestAPIRefund(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, pay := w.backOffice(), w.paidPayment()
	res := p.refund(pay, "k1", `{"amount":1900,"reason":"sent back","expected_refundable":4900}`)
	require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
	got := decode[map[string]any](t, res)
	keys := make([]string, 0, len(got))
	for k := range got {
		keys = append(keys, k)
	}
	require.ElementsMatch(t, []string{"id", "payment_id", "provider", "charge_id", "amount", "currency", "status", "status_reason", "needs_review", "reason",
		"origin", "provider_refund_id", "next_check_at", "created_at", "updated_at", "settled_at", "payment_url"}, keys)
	require.Equal(t, "pending", got["status"])
	require.InDelta(t, 1900, got["amount"], 0)
	require.Equal(t, "api", got["origin"])
	require.Equal(t, "http://fusebox.test/api/v1/refunds/"+got["id"].(string), res.Header.Get("Location"))
	require.Equal(t, 1, w.jobs.count("operation"))
	require.JSONEq(t, res.body, p.call(http.MethodGet, "/refunds/"+got["id"].(string), "").body)

	again := p.refund(pay, "k1", `{"reason":"sent back","amount":1900}`)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.JSONEq(t, res.body, again.body)
	problemField(t, p.refund(pay, "k1", `{"amount":1901,"reason":"sent back"}`), http.StatusUnprocessableEntity, "Idempotency-Key")
	require.Equal(t, 1, w.refunds())

	list := decode[struct {
		figuresJSON
		Data []refundJSON
	}](t, p.call(http.MethodGet, "/payments/"+pay.ID.String()+"/refunds", ""))
	require.Equal(t, figuresJSON{"EUR", 4900, 0, 1900, 0, 3000}, list.figuresJSON)
	require.Len(t, list.Data, 1)
	shop := w.program()
	for _, path := range []string{"/payments/" + pay.ID.String(), "/payments"} {
		require.Contains(t, shop.call(http.MethodGet, path, "").body, `"captured":4900,"refunded":0,"refundable":3000`, path)
	}
}

// Without an amount it is everything, and a repeat of that request is that refund,
// although nothing is left by then.
func TestAPIRefundOfEverything(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, pay := w.backOffice(), w.paidPayment()
	require.Equal(t, http.StatusAccepted, p.refund(pay, "part", `{"amount":900,"reason":"one item"}`).StatusCode)
	replies := make([]reply, 12)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = p.refund(pay, "rest", `{"reason":"the rest"}`) })
	}
	wg.Wait()
	replayed := 0
	for _, res := range replies {
		require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
		require.Contains(t, res.body, `"amount":4000`)
		if res.Header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	require.Equal(t, 11, replayed)
	require.Equal(t, 2, w.refunds())

	res := p.refund(pay, "more", `{"reason":"the rest"}`)
	require.Equal(t, http.StatusConflict, res.StatusCode, res.body)
	require.Equal(t, figuresJSON{"EUR", 4900, 0, 4900, 0, 0}, decode[refundProblem](t, res).Refunds)
}

func TestAPIRefundRefusals(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, pay := w.backOffice(), w.paidPayment()
	for body, field := range map[string]string{
		`{"amount":0,"reason":"r"}`: "amount", `{"amount":10.5,"reason":"r"}`: "amount", `{"amount":"100","reason":"r"}`: "amount",
		`{"amount":100}`: "reason", `{"amount":100,"reason":"r","expected_refundable":-1}`: "expected_refundable",
		`{"amount":100,"reason":"r","expected_refundable":"1"}`: "expected_refundable", `{"amount":100,"reason":"r","currency":"EUR"}`: "currency",
		`{"amount":100,"reason":"` + strings.Repeat("x", maxReason+1) + `"}`: "reason",
	} {
		problemField(t, p.refund(pay, uuid.NewString(), body), http.StatusUnprocessableEntity, field)
	}
	problemField(t, p.call(http.MethodPost, "/payments/"+pay.ID.String()+"/refunds", `{"reason":"r"}`), http.StatusBadRequest, "Idempotency-Key")

	res := p.refund(pay, "much", `{"amount":4901,"reason":"r"}`)
	problemField(t, res, http.StatusConflict, "amount")
	require.Equal(t, int64(4900), decode[refundProblem](t, res).Refunds.Refundable)
	res = p.refund(pay, "changed", `{"amount":100,"reason":"r","expected_refundable":5000}`)
	problemField(t, res, http.StatusConflict, "expected_refundable")
	require.Contains(t, res.body, "Refundable is 4900 now, not 5000.")

	unpaid := w.db.SeedPayment(t, nil)
	res = p.refund(unpaid, "unpaid", `{"reason":"r"}`)
	require.Equal(t, http.StatusConflict, res.StatusCode, res.body)
	require.Contains(t, res.body, "The payment is unknown")
	mute := w.paidPayment(func(p *store.Payment) { p.Provider = "borealis" })
	require.Contains(t, problemField(t, p.refund(mute, "mute", `{"reason":"r"}`), http.StatusUnprocessableEntity, "payment").Errors[0].Reason, "cannot refund")
	odd := w.paidPayment(func(p *store.Payment) { p.Currency, p.Amount = "HUF", 100000 })
	problemField(t, p.refund(odd, "odd", `{"amount":150,"reason":"r"}`), http.StatusUnprocessableEntity, "amount")
	require.Equal(t, http.StatusNotFound, p.refund(store.Payment{ID: uuid.New()}, "none", `{"reason":"r"}`).StatusCode)
	require.Zero(t, w.refunds())
}

func TestAPIRefundsNeedTheirScope(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	pay, shop, office := w.paidPayment(), w.program(), w.backOffice()
	res := shop.refund(pay, "k", `{"reason":"r"}`)
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Contains(t, res.body, "--scope refunds")
	require.Zero(t, w.refunds())
	made := office.refund(pay, "k", `{"reason":"r"}`)
	require.Equal(t, http.StatusAccepted, made.StatusCode)
	id := decode[refundJSON](t, made).ID.String()
	for _, path := range []string{"/refunds/" + id, "/payments/" + pay.ID.String() + "/refunds", "/payments/" + pay.ID.String() + "/disputes"} {
		for _, p := range []*program{shop, office} {
			require.Equal(t, http.StatusOK, p.call(http.MethodGet, path, "").StatusCode, path)
		}
		require.Equal(t, http.StatusForbidden, w.automaton().call(http.MethodGet, path, "").StatusCode, path)
	}
	require.Equal(t, http.StatusForbidden, office.pay("k", goodPayment).StatusCode, "giving back is no right to charge")
	for _, path := range []string{"/refunds/" + uuid.NewString(), "/refunds/x", "/payments/" + uuid.NewString() + "/refunds", "/payments/" + uuid.NewString() + "/disputes"} {
		require.Equal(t, http.StatusNotFound, office.call(http.MethodGet, path, "").StatusCode, path)
	}
}

// seedDispute writes a dispute of p as it stands.
func (w *webtest) seedDispute(p store.Payment, change func(*store.Dispute)) {
	w.t.Helper()
	due := w.clock.now().Add(20 * time.Hour)
	d := store.Dispute{ID: uuid.Must(uuid.NewV7()), DisputeID: "dp_" + p.ID.String()[24:], ChargeID: p.ProviderPaymentID, Amount: p.Amount,
		Currency: p.Currency, State: provider.DisputeOpened, StateAt: storetest.Epoch, Reason: "fraudulent", DueBy: &due}
	if change != nil {
		change(&d)
	}
	w.db.Exec(w.t, `INSERT INTO disputes (id, provider, dispute_id, payment_id, charge_id, amount, currency, state, state_at, reason, due_by, opened_at, created_at, updated_at)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$9,$9,$9)`, d.ID, p.Provider, d.DisputeID, p.ID, d.ChargeID, d.Amount, d.Currency, d.State, d.StateAt, d.Reason, d.DueBy)
}

func TestAPIShowsDisputes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	pay := w.paidPayment()
	w.seedDispute(pay, func(d *store.Dispute) { d.Amount, d.Currency = 0, "" })
	list := decode[struct{ Data []disputeJSON }](t, w.program().call(http.MethodGet, "/payments/"+pay.ID.String()+"/disputes", "")).Data
	require.Len(t, list, 1)
	require.Equal(t, "opened", list[0].State)
	require.Nil(t, list[0].Amount, "not said")
	require.Equal(t, "2026-03-03T11:02:11Z", *list[0].DueBy)
}
