package providertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// lost makes a refund whose answer is lost, and returns the question to ask about it.
func (r refunds) lost(t *testing.T) provider.OperationQuery {
	t.Helper()
	r.fake.NextOperation(ChargeCut)
	require.Equal(t, provider.Unknown, r.Operate(t.Context(), r.call(t, "op1", "k1")).Outcome)
	return r.query("op1", "k1")
}

func testRefundLookupFound(t *testing.T, h Harness) {
	r := h.refunds(t)
	q := r.lost(t)
	if !r.Capabilities().CanAsk() {
		got := r.LookupOperation(t.Context(), q)
		require.Equal(t, provider.LookupNoAnswer, got.Verdict)
		require.Equal(t, provider.HealthNeutral, got.Health)
		require.Zero(t, got.Requests)
		require.Zero(t, r.fake.Questions())
		return
	}
	for _, id := range []string{"", r.fake.BookedOperations()[0].ID} {
		before := r.fake.Questions()
		q.ProviderOperationID = id
		got := r.LookupOperation(t.Context(), q)
		require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
		require.Equal(t, provider.HealthOK, got.Health)
		require.NotEmpty(t, got.Way)
		require.Len(t, got.Objects, 1, "one refund is one object, however many ways found it")
		o := got.Objects[0]
		require.Equal(t, r.fake.BookedOperations()[0].ID, o.ID)
		require.Equal(t, provider.ObjectRefund, o.Kind)
		require.Equal(t, provider.Succeeded, o.Outcome)
		require.Equal(t, r.money, o.Money)
		require.Equal(t, r.charge.ID, o.Child.ChargeID)
		require.NotEmpty(t, o.Raw)
		require.Equal(t, r.fake.Questions()-before, got.Requests)
		require.LessOrEqual(t, got.Requests, requests(r.Adapter))
	}
}

// testRefundLookupAbsent: another refund of the same charge, and the charge itself, are
// not the refund that was asked about.
func testRefundLookupAbsent(t *testing.T, h Harness) {
	r := h.refunds(t)
	if !r.Capabilities().CanAsk() {
		return
	}
	r.fake.BookOperation(r.refund("ref_other", "someone-else", provider.Succeeded))
	r.fake.BookOperation(r.refund("ref_dashboard", "", provider.Succeeded))
	got := r.LookupOperation(t.Context(), r.query("op1", "k1"))
	require.Empty(t, got.Objects)
	if r.Capabilities().NeverAbsent {
		require.NotEqual(t, provider.LookupFound, got.Verdict, "%+v", got)
	} else {
		require.Equal(t, provider.LookupAbsent, got.Verdict, "%+v", got)
		require.Equal(t, provider.HealthOK, got.Health)
	}

	q := r.query("op1", "k1")
	q.ProviderOperationID = "ref_gone"
	got = r.LookupOperation(t.Context(), q)
	require.Equal(t, provider.LookupNoAnswer, got.Verdict, "an id that was given once and is gone is no absence: %+v", got)
}

// testRefundLookupNoAnswer: what proves nothing must never read as absence.
func testRefundLookupNoAnswer(t *testing.T, h Harness) {
	for b, health := range map[AskBehaviour]provider.Verdict{
		AskForbidden: provider.HealthNeutral,
		AskDown:      provider.HealthFail,
		AskHTML:      provider.HealthFail,
		AskCut:       provider.HealthFail,
		AskAll:       provider.HealthNeutral,
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			r := h.refunds(t)
			if !r.Capabilities().CanAsk() {
				return
			}
			other := r.refund("ref_other", "someone-else", provider.Succeeded)
			other.Child = provider.Child{ChargeID: "pay_other", PaymentID: "p2"}
			other.OperationKey = "other-key"
			r.fake.BookOperation(other)
			r.fake.Ask(b)
			got := r.LookupOperation(t.Context(), r.query("op1", "k1"))
			require.Equal(t, provider.LookupNoAnswer, got.Verdict, "%+v", got)
			require.Equal(t, health, got.Health)
			require.NotEmpty(t, got.Reason)
			require.Empty(t, got.Objects)
			require.LessOrEqual(t, r.fake.Questions(), requests(r.Adapter))
			require.Equal(t, r.fake.Questions(), got.Requests)
			if b == AskForbidden {
				require.Equal(t, provider.AlertConfig, got.Alert)
			}
		})
	}
}

// testRefundDuplicates: two refunds under one reference are both reported.
func testRefundDuplicates(t *testing.T, h Harness) {
	r := h.refunds(t)
	q := r.lost(t)
	if !r.Capabilities().Has(provider.ByReference) {
		return
	}
	twin := r.refund("ref_twin", "op1", provider.Succeeded)
	twin.OperationKey = "another"
	r.fake.BookOperation(twin)
	for _, id := range []string{"", r.fake.BookedOperations()[0].ID} {
		q.ProviderOperationID = id
		got := r.LookupOperation(t.Context(), q)
		require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
		require.Len(t, got.Objects, 2)
		require.NotEqual(t, got.Objects[0].ID, got.Objects[1].ID)
	}
}

// testRefundList: a list may hold refunds beside charges, so that one whose event was lost
// is found; each says what it is, and none passes for a charge.
func testRefundList(t *testing.T, h Harness) {
	r := h.refunds(t)
	if !r.Capabilities().Listing {
		return
	}
	require.Equal(t, r.done.outcome, r.Operate(t.Context(), r.call(t, "op1", "k1")).Outcome)
	r.fake.BookOperation(r.refund("ref_dashboard", "", provider.Succeeded))
	booked := map[string]bool{}
	for _, o := range r.fake.BookedOperations() {
		booked[o.ID] = true
	}
	now := time.Now()
	q := provider.ListQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour), Limit: 1}
	var charges []string
	listed := 0
	for {
		page, err := r.List(t.Context(), q)
		require.NoError(t, err)
		for _, o := range page.Objects {
			if o.Kind == provider.ObjectCharge {
				charges = append(charges, o.ID)
				continue
			}
			require.Equal(t, provider.ObjectRefund, o.Kind)
			require.True(t, booked[o.ID], o.ID)
			require.Equal(t, r.charge.ID, o.Child.ChargeID)
			require.Equal(t, r.money, o.Money)
			listed++
		}
		if page.Next == "" {
			break
		}
		require.NotEqual(t, q.Cursor, page.Next)
		q.Cursor = page.Next
	}
	require.Equal(t, []string{r.charge.ID}, charges)
	if r.Capabilities().ListsRefunds {
		require.Equal(t, len(booked), listed, "every refund, ours or not")
	}
}
