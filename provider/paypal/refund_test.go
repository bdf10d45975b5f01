package paypal

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var back10 = provider.Money{Amount: 1000, Currency: "EUR"}

func refundRequestOf(m provider.Money) provider.OperationRequest {
	return provider.OperationRequest{OperationID: "op1", Kind: provider.OpRefund, PaymentID: "p1", ProviderPaymentID: "ORD1", Charged: asked49, Money: m}
}

func refundCall() provider.OperationCall {
	return provider.OperationCall{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "ORD1", Key: "k1",
		Body: []byte(`{"amount":{"currency_code":"EUR","value":"10.00"},"custom_id":"op1","invoice_id":"p1"}`), Want: back10}
}

func TestFrozenRefund(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.FreezeOperation(refundRequestOf(back10))
	require.NoError(t, err)
	require.JSONEq(t, string(refundCall().Body), string(body))
	_, err = a.FreezeOperation(refundRequestOf(provider.Money{Amount: 4901, Currency: "EUR"}))
	require.ErrorContains(t, err, "amount")
	r := refundRequestOf(provider.Money{Amount: 150, Currency: "HUF"})
	r.Charged = provider.Money{}
	_, err = a.FreezeOperation(r)
	require.ErrorContains(t, err, "amount", "taken without decimals")
}

// Before the refund itself is sent the order is read. What goes wrong there sent nothing
// and says nothing about what gives money back.
func TestARefundThatCannotBegin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(*fake)
		reason  string
	}{
		"no such order": {func(*fake) {}, provider.ReasonNotFound},
		"forbidden":     {func(f *fake) { f.ours("ORD1", time.Now()); f.Ask(providertest.AskForbidden) }, provider.ReasonForbidden},
		"down":          {func(f *fake) { f.ours("ORD1", time.Now()); f.Ask(providertest.AskDown) }, "http_503"},
		"another order": {func(f *fake) { f.ours("ORD1", time.Now()); f.Ask(providertest.AskAll) }, provider.ReasonNotFound},
		"a page":        {func(f *fake) { f.ours("ORD1", time.Now()); f.Ask(providertest.AskHTML) }, provider.ReasonContract},
		"nothing to take": {func(f *fake) {
			f.Book(provider.Object{ID: "ORD1", Reference: "p1", Outcome: provider.Processing, Money: asked49})
		}, provider.ReasonLocal},
		"no token": {func(f *fake) { f.tokenFails = func(w http.ResponseWriter, _ int) bool { page(w, 503); return true } }, reasonAuthDown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			tt.prepare(f)
			got := f.adapter(t).Operate(t.Context(), refundCall())
			require.Equal(t, provider.NotSent, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, provider.HealthNeutral, got.Health)
			require.Zero(t, got.Exchange.WireSends)
			require.Empty(t, f.ReceivedOperations())
		})
	}
	a := newFake(t).adapter(t)
	for _, spoil := range []func(*provider.OperationCall){
		func(c *provider.OperationCall) { c.Kind = "gift" }, func(c *provider.OperationCall) { c.ProviderPaymentID = "../x" },
		func(c *provider.OperationCall) { c.Key = "" },
	} {
		c := refundCall()
		spoil(&c)
		got := a.Operate(t.Context(), c)
		require.Equal(t, provider.ReasonLocal, got.Reason)
		require.Equal(t, provider.NotSent, got.Outcome)
	}
}

// A token that was taken back refused the refund, and the next try has a new one.
func TestARevokedTokenOfARefund(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.ours("ORD1", time.Now())
	a := f.adapter(t)
	_, err := a.tokens.get(t.Context())
	require.NoError(t, err)
	f.set(func() { f.revoked["A21AAtoken1"] = true })
	require.Equal(t, provider.NotSent, a.Operate(t.Context(), refundCall()).Outcome)
	require.Equal(t, provider.Succeeded, a.Operate(t.Context(), refundCall()).Outcome)
	require.Equal(t, "ORD1", f.ReceivedOperations()[0].ChargeID)
}

// A refund made in PayPal's dashboard carries its charge's ids: it is none of ours.
func TestRefundsOfOthers(t *testing.T) {
	t.Parallel()
	require.Equal(t, "op1", refund{CustomID: "op1", InvoiceID: "p1"}.reference())
	require.Empty(t, refund{CustomID: "p1", InvoiceID: "p1"}.reference())
	require.Empty(t, refund{}.reference())

	q := provider.OperationQuery{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "ORD1"}
	for name, tt := range map[string]struct {
		body string
		want provider.LookupAnswer
	}{
		"another order": {`{"id":"ORD2","purchase_units":[{}]}`, provider.LookupAnswer{Ignored: true}},
		"two units":     {`{"id":"ORD1","purchase_units":[{},{}]}`, provider.LookupAnswer{DecodeErr: errUnits}},
		"minimal":       {`{"id":"ORD1"}`, provider.LookupAnswer{DecodeErr: errUnits}},
		"none":          {`{"id":"ORD1","purchase_units":[{}]}`, provider.LookupAnswer{}},
		"not JSON":      {`<html>`, provider.LookupAnswer{Malformed: true}},
		"a stranger's":  {`{"id":"ORD1","purchase_units":[{"payments":{"refunds":[{"id":"R","custom_id":"p1","invoice_id":"p1"}]}}]}`, provider.LookupAnswer{}},
	} {
		require.Equal(t, tt.want, readRefunds([]byte(tt.body), q), name)
	}
	odd := readRefunds([]byte(`{"id":"ORD1","purchase_units":[{"payments":{"refunds":[{"id":"`+strings.Repeat("R", 200)+`"}]}}]}`), q)
	require.ErrorIs(t, odd.DecodeErr, errID)

	f := newFake(t)
	for _, bad := range []provider.OperationQuery{{Kind: "gift", ProviderPaymentID: "ORD1"}, {Kind: provider.OpRefund, OperationID: "op1"}} {
		got := f.adapter(t).LookupOperation(t.Context(), bad)
		require.Equal(t, provider.LookupNoAnswer, got.Verdict)
		require.Zero(t, got.Requests)
	}
	f.tokenFails = func(w http.ResponseWriter, _ int) bool { page(w, 503); return true }
	got := f.adapter(t).LookupOperation(t.Context(), q)
	require.Equal(t, reasonAuthDown, got.Reason)
}
