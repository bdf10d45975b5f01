package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestReadsOfRefunds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, q, pending := w.paid(), w.paid(), w.create()
	done, lost := w.refund(p, 300), w.refund(p, 200)
	waits := w.refund(q, 1000)
	o := refundObject(done, "re_"+done.ID.String(), provider.Succeeded)
	w.send(done.ID, answered(provider.Succeeded, &o))
	w.send(lost.ID, timedOut())

	totals, err := w.RefundTotals(ctx, []uuid.UUID{p.ID, q.ID, pending.ID, uuid.New()})
	require.NoError(t, err)
	require.Len(t, totals, 3)
	for id, f := range totals {
		require.Equal(t, w.figures(id), f, "the same figures, read one by one")
	}
	require.Equal(t, store.Refundable{ChargeID: p.ProviderPaymentID, Currency: "EUR", Captured: 1000, Refunded: 300, Unknown: 200, Refundable: 500}, totals[p.ID])

	queue, total, err := w.OperationQueue(ctx, "", 10)
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.Equal(t, lost.ID, queue[0].ID)
	require.Equal(t, p.OrderRef, queue[0].OrderRef)
	require.Equal(t, *queue[0].UnknownSince, queue[0].Since)
	_, total, err = w.OperationQueue(ctx, "nobody", 10)
	require.NoError(t, err)
	require.Zero(t, total)

	objects, err := w.OperationObjects(ctx, p.ID)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, o.ID, objects[done.ID][0].ObjectID)

	op, err := w.OperationByKey(ctx, waits.ClientID, waits.IdempotencyKey)
	require.NoError(t, err)
	require.Equal(t, waits.ID, op.ID)
	_, err = w.OperationByKey(ctx, "another client", waits.IdempotencyKey)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestReadsOfDisputesAndTheSearchForBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	op := w.refund(p, 300)
	o := refundObject(op, "re_"+op.ID.String(), provider.Succeeded)
	w.send(op.ID, answered(provider.Succeeded, &o))
	due := w.Now().Add(48 * time.Hour)
	require.Equal(t, "applied", w.hook(event("d1", disputeObject(p, "dp_1", provider.DisputeOpened, 700, due), w.Now())))

	list, more, err := w.DisputeQueue(ctx, p.Provider, 1)
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, "dp_1", list[0].Dispute.DisputeID)
	require.Equal(t, p.OrderRef, list[0].OrderRef)
	list, _, err = w.DisputeQueue(ctx, "nobody", 1)
	require.NoError(t, err)
	require.Empty(t, list)

	counts, err := w.ChildCounts(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, counts.OpenDisputes)
	require.WithinDuration(t, due, *counts.NextDue, time.Millisecond)
	require.Zero(t, counts.Waiting())

	for _, text := range []string{op.ID.String(), o.ID, op.OperationKey, "dp_1"} {
		found, err := w.Search(ctx, text, nil)
		require.NoError(t, err)
		require.Len(t, found.Payments, 1, text)
		require.Equal(t, p.ID, found.Payments[0].ID)
	}
}
