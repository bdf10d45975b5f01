package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestVerifyComparesOneRefund(t *testing.T) {
	t.Parallel()
	op := store.Operation{ID: uuid.New(), Provider: "atlas", Kind: provider.OpRefund, ProviderPaymentID: "pay_1", ProviderObjectID: "re_1",
		Amount: 100, Currency: "EUR", Status: store.Succeeded}
	given := func(change func(*provider.Object), whole bool) refundLedger {
		l := refundLedger{whole: whole}
		o := provider.Object{Kind: provider.ObjectRefund, ID: "re_1", Reference: op.ID.String(), Outcome: provider.Succeeded, Money: op.Money(),
			Child: provider.Child{ChargeID: "pay_1"}}
		if change != nil {
			change(&o)
			l.add(o)
		}
		return l
	}
	same := func(*provider.Object) {}
	require.Empty(t, refundFinding(op, given(same, true)))
	require.Empty(t, refundFinding(op, given(func(o *provider.Object) { o.Reference = "" }, true)), "by the provider's id")
	require.Empty(t, refundFinding(op, given(nil, false)), "a list of charges proves no absence")
	require.Contains(t, refundFinding(op, given(nil, true)), "no such refund")
	require.Contains(t, refundFinding(op, given(func(o *provider.Object) { o.Outcome = provider.Failed }, true)), "no such refund")
	require.Contains(t, refundFinding(op, given(func(o *provider.Object) { o.Money.Amount = 90 }, true)), "has 90 EUR")
	require.Contains(t, refundFinding(op, given(func(o *provider.Object) { o.Child.ChargeID = "pay_2" }, true)), "pay_2")
	twice := given(same, true)
	twice.add(provider.Object{Kind: provider.ObjectRefund, ID: "re_2", Reference: op.ID.String(), Outcome: provider.Succeeded, Money: op.Money()})
	require.Contains(t, refundFinding(op, twice), "2 times")
	op.Status = store.Unknown
	require.Contains(t, refundFinding(op, given(same, true)), "here it is unknown")
	require.Empty(t, refundFinding(op, given(nil, true)))
}

// The simulator's ledger is a list of charges on which their refunds hang.
func TestVerifyReadsRefundsOfTheLedger(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"id": "pay_1", "reference": "p1", "status": "succeeded", "currency": "EUR", "amount": 500, "refunded": 300,
			"refunds": [{"id": "re_1", "reference": "op1", "status": "succeeded", "currency": "EUR", "amount": 300, "of": "pay_1"},
				{"id": "re_2", "reference": "op2", "status": "failed", "currency": "EUR", "amount": 200, "of": "pay_1"}]}]`))
	}))
	defer srv.Close()
	l, err := readLedgerURL(t.Context(), srv.URL)
	require.NoError(t, err)
	require.Len(t, l.charges, 1)
	require.Len(t, l.charges["p1"], 1)
	require.True(t, l.refunds.whole)
	require.Len(t, l.refunds.byID, 1)
	require.Equal(t, provider.Money{Amount: 300, Currency: "EUR"}, l.refunds.byReference["op1"][0].Money)
	require.Equal(t, "pay_1", l.refunds.byID["re_1"].Child.ChargeID)
}
