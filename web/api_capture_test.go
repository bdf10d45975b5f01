package web

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

// holder is a provider that holds money too.
type holder struct{ refunder }

func (a *holder) Capabilities() provider.Capabilities {
	c := a.refunder.Capabilities()
	c.Operations = []provider.OperationKind{provider.OpRefund, provider.OpCapture, provider.OpVoid}
	return c
}

// holdingAtlas makes "atlas" hold money; "borealis" never does.
func holdingAtlas(c *Config) {
	c.Registry = provider.NewRegistry(&holder{refunder{askable{fakeAdapter{name: "atlas"}}}}, &fakeAdapter{name: "borealis"})
}

// heldPayment is 49.00 EUR that atlas holds as charge pay_ID.
func (w *webtest) heldPayment() store.Payment {
	w.t.Helper()
	p := w.db.SeedPayment(w.t, func(p *store.Payment) {
		p.Status, p.StatusReason, p.StatusEvidence, p.ProviderPaymentID = store.Processing, provider.ReasonAuthorised, "answer", "pay_"+p.ID.String()
	})
	w.db.Exec(w.t, `UPDATE payments SET capture = 'manual', authorised_amount = amount, authorised_until = $2, next_check_at = $2, next_check_why = 'authorised' WHERE id = $1`,
		p.ID, storetest.Epoch.Add(7*24*time.Hour))
	return w.payment(p.ID)
}

func (p *program) act(pay store.Payment, what, key, body string) reply {
	p.w.t.Helper()
	return p.call(http.MethodPost, "/payments/"+pay.ID.String()+"/"+what, body, "Idempotency-Key: "+key)
}

func TestAPICapture(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p, pay := w.program(), w.heldPayment()
	require.Contains(t, p.call(http.MethodGet, "/payments/"+pay.ID.String(), "").body, `"capture":"manual","authorised":4900,"authorised_until":"`)
	replies := make([]reply, 8)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = p.act(pay, "capture", "k1", `{"amount":1900,"expected_capturable":4900}`) })
	}
	wg.Wait()
	for _, res := range replies {
		require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
		require.JSONEq(t, replies[0].body, res.body)
	}
	got := decode[actionJSON](t, replies[0])
	require.Equal(t, provider.OpCapture, got.Kind)
	require.Equal(t, int64(1900), got.Amount)
	require.Equal(t, store.Pending, got.Status)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations`), "U-01: one capture, however often it is sent")
	require.Equal(t, 1, w.jobs.count("operation"))
	require.JSONEq(t, replies[0].body, p.call(http.MethodGet, "/captures/"+got.ID.String(), "").body)
	require.Equal(t, http.StatusNotFound, p.call(http.MethodGet, "/refunds/"+got.ID.String(), "").StatusCode)
	require.Contains(t, p.call(http.MethodGet, "/payments/"+pay.ID.String()+"/captures", "").body, `"authorised":4900`)

	problemField(t, p.act(pay, "capture", "k1", `{"amount":1800}`), http.StatusUnprocessableEntity, "Idempotency-Key")
	for what, body := range map[string]string{"capture": `{"amount":100}`, "void": `{}`} {
		res := p.act(pay, what, "other-"+what, body)
		require.Equal(t, http.StatusConflict, res.StatusCode, res.body)
		require.Contains(t, res.body, "A capture of 1900 is pending.")
		require.Contains(t, res.body, `"capturable":0`)
	}
	require.Equal(t, http.StatusConflict, p.act(pay, "capture", "k3", `{"amount":100,"expected_capturable":4900}`).StatusCode)
}

func TestAPIVoidAndRefusals(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p := w.program()
	pay := w.heldPayment()
	problemField(t, p.act(pay, "capture", "k1", `{"amount":4901}`), http.StatusConflict, "amount")
	problemField(t, p.act(pay, "capture", "k1", `{"amount":0}`), http.StatusUnprocessableEntity, "amount")
	problemField(t, p.act(pay, "void", "k1", `{"amount":100}`), http.StatusUnprocessableEntity, "amount")
	res := p.act(pay, "void", "k1", `{"reason":"out of stock"}`)
	require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
	got := decode[actionJSON](t, res)
	require.Equal(t, provider.OpVoid, got.Kind)
	require.Equal(t, int64(4900), got.Amount)
	require.Equal(t, http.StatusConflict, p.act(w.paidPayment(), "capture", "k2", `{}`).StatusCode)
	require.Equal(t, http.StatusForbidden, w.backOffice().act(w.heldPayment(), "capture", "k3", `{}`).StatusCode)
}

func TestAPICreateWithManualCapture(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p := w.program()
	body := func(provider, capture string) string {
		return `{"order_ref":"o-` + provider + capture + `","provider":"` + provider + `","amount":4900,"currency":"EUR","capture":"` + capture + `"}`
	}
	res := p.call(http.MethodPost, "/payments", body("atlas", "manual"), "Idempotency-Key: m1")
	require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
	require.Contains(t, res.body, `"capture":"manual"`)
	problemField(t, p.call(http.MethodPost, "/payments", body("borealis", "manual"), "Idempotency-Key: m2"), http.StatusUnprocessableEntity, "capture")
	problemField(t, p.call(http.MethodPost, "/payments", body("atlas", "later"), "Idempotency-Key: m3"), http.StatusUnprocessableEntity, "capture")
}
