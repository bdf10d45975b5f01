package main

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider/simulator"
	"fusebox/store"
)

// TestR05_TheDuplicateGoesBackOnTheWire is the whole of R-05 with a provider that charges
// twice: both charges are known, only the second goes back, and the audit is content.
func TestR05_TheDuplicateGoesBackOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	p := w.settled(w.pay("steady", "fault:"+string(simulator.DoubleObject)).ID, 30*time.Second)
	require.Equal(t, store.Succeeded, p.Status)
	var extra []store.TakenCharge
	eventuallyIn(t, 30*time.Second, func() string { return "both charges are known" }, func() bool {
		var err error
		extra, err = w.store.Duplicates(t.Context(), p.ID)
		require.NoError(t, err)
		return len(extra) == 1
	})
	require.Contains(t, w.payment(p.ID).NeedsReview, store.ReviewDuplicate)
	require.Error(t, w.start(nil, "verify").exited(time.Minute), "a payment that was charged twice is a finding")

	ask := store.NewRefund{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "test", IdempotencyKey: uuid.NewString(),
		ChargeID: extra[0].ID, Amount: 4900}
	made, err := w.store.CreateRefund(t.Context(), ask, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(t, err)
	require.Equal(t, store.Succeeded, w.refundSettled(made.Operation.ID, time.Minute).Status)
	w.eventually(30*time.Second, "the review is settled by itself", func() bool { return len(w.payment(p.ID).NeedsReview) == 0 })

	l, err := readLedgerURL(t.Context(), w.provider("steady").settings.LedgerURL)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{extra[0].ID: 4900}, l.refunds.of, "the payment's own charge is untouched")
	require.Equal(t, 1, w.provider("steady").sim.Stats().ByKey[made.Operation.OperationKey])
	f, err := w.store.Refundable(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, int64(4900), f.Refundable)
	w.clean()
}
