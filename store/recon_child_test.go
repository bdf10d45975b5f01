package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// A list may hold refunds and disputes beside charges: they are applied to their own
// rows, and that the list has a refund never hides that it lacks the charge.
func TestSyncAppliesRefundsAndDisputes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	op := w.refund(p, 300)
	w.send(op.ID, timedOut())
	w.clock.add(time.Minute)
	run, err := w.OpenRun(ctx, "atlas", "test", time.Hour)
	require.NoError(t, err)
	stranger := outsideRefund(p, "re_s", 100, provider.Succeeded)
	stranger.Child.ChargeID = "nobody's"
	page := provider.Page{Objects: []provider.Object{
		refundObject(op, "re_1", provider.Succeeded), outsideRefund(p, "re_x", 200, provider.Succeeded), stranger,
		disputeObject(p, "dp_1", provider.DisputeOpened, 500, time.Time{}),
	}}
	run, err = w.RecordPage(ctx, run.ID, page, true)
	require.NoError(t, err)
	require.Equal(t, "complete", run.State)
	require.Equal(t, store.Succeeded, w.op(op.ID).Status)
	require.Equal(t, int64(500), w.figures(p.ID).Refunded)
	require.Len(t, w.disputes(p), 1)
	require.Equal(t, 3, run.Matched)
	require.Equal(t, 1, run.TheirsOnly)
	require.Equal(t, 1, run.OursOnly, "the charge itself was not listed")
	require.Zero(t, w.count(`SELECT count(*) FROM provider_objects WHERE object_id LIKE 're_%' OR object_id LIKE 'dp_%'`))
}

// Refunds where nobody can be asked wait for an event or a person, not for a lookup.
func TestSweepMarksRefundsNobodyCanBeAskedAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	w.hook(event("e", outsideRefund(p, "re_x", 200, provider.Processing), w.Now()))
	op := w.ops(p.ID)["re_x"]
	require.Equal(t, store.Processing, op.Status)
	require.Equal(t, 1, w.jobs.Asked(t, "operation_lookup", op.ID))
	w.jobs.Clear(t)
	cannot := store.SweepParams{AskOperationAt: func(string, provider.OperationKind) bool { return false }}
	w.clock.add(2 * time.Hour)
	w.sweep(cannot)
	op = w.op(op.ID)
	require.Equal(t, []string{store.ReviewNoStatusAPI}, op.NeedsReview)
	require.Nil(t, op.NextCheckAt)
	require.Zero(t, w.jobs.Asked(t, "operation_lookup", op.ID))
	w.clock.add(time.Hour)
	require.Zero(t, w.sweep(cannot).Requeued, "told once")
	w.hook(event("e2", outsideRefund(p, "re_x", 200, provider.Succeeded), w.Now()))
	op = w.op(op.ID)
	require.Equal(t, store.Succeeded, op.Status)
	require.Empty(t, op.NeedsReview)
}

// A duplicate that took more than was asked can be given back whole.
func TestR05_ADuplicateOverMoreMoneyIsGivenBackWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	b := object(p, "pay_b", provider.Succeeded)
	b.Money.Amount = 1500
	w.hook(event("b", b, w.Now()))
	n := newRefund(p, 1500)
	n.ChargeID = b.ID
	r, err := w.CreateRefund(ctx, n, apiClient)
	require.NoError(t, err)
	o := refundObject(r.Operation, "re_b", provider.Succeeded)
	op := w.send(r.Operation.ID, answered(provider.Succeeded, &o))
	require.Zero(t, op.Beyond)
	require.NotContains(t, w.get(p.ID).NeedsReview, store.ReviewRefundsDiffer)
	require.NotContains(t, w.get(p.ID).NeedsReview, store.ReviewDuplicate)
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.Refunds)
	require.Equal(t, int64(1000), w.figures(p.ID).Refundable)
}
