package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// twice is a paid payment that its provider charged a second time, and that second charge.
func (w *world) twice(change ...func(*store.NewPayment)) (store.Payment, provider.Object) {
	w.t.Helper()
	p := w.paid(change...)
	b := object(p, "pay_b"+p.ID.String(), provider.Succeeded)
	w.hook(event("b"+p.ID.String(), b, w.Now()))
	p = w.get(p.ID)
	require.Contains(w.t, p.NeedsReview, store.ReviewDuplicate)
	return p, b
}

// ofDuplicate asks for a charge of a payment back by its id.
func ofDuplicate(p store.Payment, charge string, amount int64) store.NewRefund {
	n := newRefund(p, amount)
	n.ChargeID = charge
	return n
}

// Which charge goes back is decided by evidence, not by what is asked for.
func TestOnlyTheDuplicateGoesBackByItsIDAndWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, b := w.twice()
	single := w.paid()
	held := int64(900)
	for name, c := range map[string]struct {
		n    store.NewRefund
		want string
	}{
		"the payment's own":           {ofDuplicate(p, p.ProviderPaymentID, 1000), store.RefusedOwnCharge},
		"own, of a payment paid once": {ofDuplicate(single, single.ProviderPaymentID, 1000), store.RefusedOwnCharge},
		"another payment's":           {ofDuplicate(p, single.ProviderPaymentID, 1000), store.RefusedNoDuplicate},
		"nobody's":                    {ofDuplicate(p, "pay_x", 1000), store.RefusedNoDuplicate},
		"a part":                      {ofDuplicate(p, b.ID, 999), store.RefusedPart},
		"more than it took":           {ofDuplicate(p, b.ID, 1001), store.RefusedTooMuch},
		"nothing":                     {ofDuplicate(p, b.ID, 0), store.RefusedAmount},
	} {
		_, err := w.CreateRefund(t.Context(), c.n, apiClient)
		var refused *store.NotRefundableError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, c.want, refused.Why, name)
	}
	n := ofDuplicate(p, b.ID, 1000)
	n.ExpectedRefundable = &held
	_, err := w.CreateRefund(t.Context(), n, apiClient)
	var changed *store.RefundableChangedError
	require.ErrorAs(t, err, &changed)
	require.Equal(t, int64(1000), changed.Figures.Refundable)
	require.Empty(t, w.ops(p.ID))
}

// U-01 for a duplicate: many at once, under keys of their own, are one refund.
func TestU01_ADuplicateGoesBackOnceHoweverOftenItIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, b := w.twice()
	n := ofDuplicate(p, b.ID, 1000)
	first, err := w.CreateRefund(t.Context(), n, apiClient)
	require.NoError(t, err)
	again, err := w.CreateRefund(t.Context(), n, apiClient)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Operation.ID, again.Operation.ID)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		n := n
		n.IdempotencyKey = uuid.NewString()
		wg.Go(func() { _, errs[i] = w.CreateRefund(t.Context(), n, apiClient) })
	}
	wg.Wait()
	for _, err := range errs {
		var refused *store.NotRefundableError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, store.RefusedTooMuch, refused.Why)
	}
	require.Len(t, w.ops(p.ID), 1)

	d, err := w.Dossier(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, p.ProviderPaymentID, d.Charges[0].ID)
	require.Len(t, d.Duplicates(), 1)
	require.Equal(t, store.Refundable{ChargeID: b.ID, Currency: "EUR", Captured: 1000, Pending: 1000}, d.Duplicates()[0].Figures)
	require.Equal(t, int64(1000), d.Refundable.Refundable, "the payment's own is not touched")
	list, err := w.Duplicates(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, d.Duplicates(), list)

	o := refundObject(first.Operation, "re_b", provider.Failed)
	w.send(first.Operation.ID, answered(provider.Failed, &o))
	require.Contains(t, w.get(p.ID).NeedsReview, store.ReviewDuplicate, "nothing came back")
	second, err := w.CreateRefund(t.Context(), ofDuplicate(p, b.ID, 1000), apiClient)
	require.NoError(t, err, "a failed refund leaves the charge refundable")
	o = refundObject(second.Operation, "re_b2", provider.Succeeded)
	w.send(second.Operation.ID, answered(provider.Succeeded, &o))
	require.Empty(t, w.get(p.ID).NeedsReview)
}

// A second charge that was undone took nothing, and with the payment's own undone the
// other one is all there is.
func TestAChargeThatWasUndoneIsNoDuplicate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, b := w.twice()
	own := object(p, p.ProviderPaymentID, provider.Failed)
	w.hook(event("own", own, w.Now().Add(time.Second)))
	p = w.get(p.ID)
	for _, id := range []string{p.ProviderPaymentID, b.ID, own.ID} {
		_, err := w.CreateRefund(t.Context(), ofDuplicate(p, id, 1000), apiClient)
		var refused *store.NotRefundableError
		require.ErrorAs(t, err, &refused, id)
	}
	list, err := w.Duplicates(t.Context(), p.ID)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = w.Duplicates(t.Context(), uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}
