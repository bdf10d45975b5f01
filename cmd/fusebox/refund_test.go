package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/jobs"
	"fusebox/provider/simulator"
	"fusebox/store"
)

// refund asks for one as the API does.
func (w *world) refund(p store.Payment, amount int64) store.Operation {
	w.t.Helper()
	r, err := w.store.CreateRefund(w.t.Context(), store.NewRefund{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "test",
		IdempotencyKey: uuid.NewString(), Amount: amount}, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	return r.Operation
}

// refundSettled waits until the refund is final.
func (w *world) refundSettled(id uuid.UUID, within time.Duration) store.Operation {
	w.t.Helper()
	var op store.Operation
	eventuallyIn(w.t, within, func() string { return "refund is final, it is " + string(op.Status) + " (" + op.StatusReason + ")" }, func() bool {
		var err error
		op, err = w.store.Operation(context.Background(), id)
		require.NoError(w.t, err)
		return op.Status.Final()
	})
	return op
}

// refundsMade counts the provider's refunds of a payment.
func (w *world) refundsMade(name string) (n int) {
	w.t.Helper()
	l, err := readLedgerURL(context.Background(), w.provider(name).settings.LedgerURL)
	require.NoError(w.t, err)
	return len(l.refunds.byID)
}

// TestC16_KillMinus9DuringARefund kills a worker at the worst instructions of a refund,
// and lets another one finish: made at most once, and it is ours.
func TestC16_KillMinus9DuringARefund(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]store.Status{
		jobs.PointAfterMark:   store.Failed, // it never left: two absences past the horizon say so
		jobs.PointAfterAnswer: store.Succeeded,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, place{}, "steady")
			first := w.work()
			p := w.settled(w.pay("steady", "to refund").ID, 30*time.Second)
			require.Equal(t, store.Succeeded, p.Status)
			require.NoError(t, first.cmd.Process.Kill())
			<-first.done
			op := w.refund(p, 1900)
			w.work("FUSEBOX_FAILPOINT="+point, "FUSEBOX_WORKER=doomed").killed(30 * time.Second)
			w.work("FUSEBOX_WORKER=survivor")
			op = w.refundSettled(op.ID, 3*time.Minute)
			require.Equal(t, want, op.Status, op.StatusReason)
			made := 0
			if want == store.Succeeded {
				made = 1
			}
			require.Equal(t, made, w.refundsMade("steady"))
			require.Equal(t, store.Succeeded, w.payment(p.ID).Status)
			w.clean()
		})
	}
}

// TestW05_RefundsHereAndAtTheProvider is the whole of W-05 with real events: ours, one
// made in the provider's own dashboard, and two equal ones.
func TestW05_RefundsHereAndAtTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	p := w.settled(w.pay("steady", "to refund").ID, 30*time.Second)
	w.refund(p, 300)
	_, err := w.provider("steady").sim.AddRefund(p.ProviderPaymentID, simulator.ManualRefund{Amount: 200})
	require.NoError(t, err)
	w.refund(p, 100)
	w.refund(p, 100)
	var f store.Refundable
	eventuallyIn(t, time.Minute, func() string { return "700 refunded" }, func() bool {
		f, err = w.store.Refundable(context.Background(), p.ID)
		require.NoError(t, err)
		return f.Refunded == 700
	})
	require.Equal(t, int64(4200), f.Refundable)
	ops, err := w.store.OperationsOfPayment(t.Context(), p.ID)
	require.NoError(t, err)
	require.Len(t, ops, 4)
	require.Equal(t, 4, w.refundsMade("steady"))
	after := w.payment(p.ID)
	require.Equal(t, store.Succeeded, after.Status)
	require.Empty(t, after.NeedsReview)
	w.clean()
}
