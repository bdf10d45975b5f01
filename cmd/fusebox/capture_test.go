package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/jobs"
	"fusebox/provider"
	"fusebox/store"
)

// hold makes a payment of 49.00 EUR whose money is only held, and waits until it is.
func (w *world) hold(orderRef string) store.Payment {
	w.t.Helper()
	c, err := w.store.CreatePayment(w.t.Context(), store.NewPayment{ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: orderRef,
		Provider: "steady", Amount: 4900, Currency: "EUR", Capture: store.CaptureManual}, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	var p store.Payment
	eventuallyIn(w.t, 30*time.Second, func() string { return "the money is held, it is " + string(p.Status) + " (" + p.StatusReason + ")" }, func() bool {
		p = w.payment(c.Payment.ID)
		return p.Authorised()
	})
	return p
}

// act asks for a capture of amount, or for a void with 0.
func (w *world) act(p store.Payment, amount int64) store.Operation {
	w.t.Helper()
	n := store.NewAction{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "test", IdempotencyKey: uuid.NewString(), Amount: amount}
	create := w.store.CreateCapture
	if amount == 0 {
		create = w.store.CreateVoid
	}
	a, err := create(w.t.Context(), n, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	return a.Operation
}

// TestC16_KillMinus9DuringACapture kills a worker at the worst instructions of a capture,
// and lets another one finish: it is looked up, and never sent twice.
func TestC16_KillMinus9DuringACapture(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]store.Status{
		jobs.PointAfterMark:   store.Failed, // it never left: the charge is still held, twice, past the horizon
		jobs.PointAfterAnswer: store.Succeeded,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, place{}, "steady")
			first := w.work()
			p := w.hold("to capture")
			require.NoError(t, first.cmd.Process.Kill())
			<-first.done
			op := w.act(p, 1900)
			w.work("FUSEBOX_FAILPOINT="+point, "FUSEBOX_WORKER=doomed").killed(30 * time.Second)
			w.work("FUSEBOX_WORKER=survivor")
			op = w.refundSettled(op.ID, 3*time.Minute)
			require.Equal(t, want, op.Status, op.StatusReason)
			sends := 0
			if want == store.Succeeded {
				sends = 1
			}
			require.Equal(t, sends, w.provider("steady").sim.Stats().ByKey[op.OperationKey])
			p = w.payment(p.ID)
			if want == store.Succeeded {
				require.Equal(t, store.Succeeded, p.Status)
				require.Equal(t, int64(1900), p.CapturedAmount)
			} else {
				require.True(t, p.Authorised(), "it can be captured again")
			}
			w.clean()
		})
	}
}

// TestW04_CaptureVoidAndExpiryOnTheWire takes three held payments to their ends, with the
// provider's real events.
func TestW04_CaptureVoidAndExpiryOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	taken, freed, lapsed := w.hold("taken"), w.hold("freed"), w.hold("lapsed")
	capture, void := w.act(taken, 1900), w.act(freed, 0)
	require.Equal(t, store.Succeeded, w.refundSettled(capture.ID, time.Minute).Status)
	require.Equal(t, store.Succeeded, w.refundSettled(void.ID, time.Minute).Status)
	_, err := w.provider("steady").sim.Complete(lapsed.ProviderPaymentID, "canceled")
	require.NoError(t, err)

	p := w.settled(taken.ID, time.Minute)
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, int64(1900), p.CapturedAmount)
	p = w.settled(freed.ID, time.Minute)
	require.Equal(t, store.Failed, p.Status)
	require.Equal(t, provider.ReasonVoided, p.StatusReason)
	p = w.settled(lapsed.ID, time.Minute)
	require.Equal(t, store.Failed, p.Status)
	require.Equal(t, provider.ReasonExpired, p.StatusReason)

	back := w.refund(taken, 1900)
	require.Equal(t, store.Succeeded, w.refundSettled(back.ID, time.Minute).Status)
	f, err := w.store.Refundable(context.Background(), taken.ID)
	require.NoError(t, err)
	require.Zero(t, f.Refundable, "what was captured is all there is to give back")
	w.clean()
}
