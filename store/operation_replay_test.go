package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// replayOp asks for a replay as the lookup job does. ask: something else can be asked.
func (w *world) replayOp(id uuid.UUID, askAfter bool) (again time.Time, ask bool) {
	w.t.Helper()
	require.NoError(w.t, w.tx(func(tx pgx.Tx) (err error) {
		again, ask, err = w.ReplayOperation(ctx, tx, id, store.ReplayPolicy{KeyLife: keyLife, Apart: apart, AskAfter: askAfter, NextAt: w.Now().Add(time.Minute)})
		return err
	}))
	return again, ask
}

func (w *world) replays(op store.Operation) int { return w.jobs.Asked(w.t, "operation_replay", op.ID) }

func replayedOp(id uuid.UUID) store.BeginOperationParams {
	p := beginOp(id)
	p.Body, p.Replay = nil, true
	return p
}

// rejectedReplay is a replay's answer that proves nothing.
func rejectedReplay() provider.Charged {
	return provider.Charged{Classification: provider.Classification{Outcome: provider.Unknown, Reason: provider.ReasonReplayRejected,
		Review: provider.ReviewKeyReused, Health: provider.HealthNeutral, Next: provider.NextReconcile},
		Exchange: provider.Exchange{WireSends: 1, Status: 422}}
}

// everyKind runs a test for an unknown refund, capture and void, each in books of its own.
func everyKind(t *testing.T, test func(t *testing.T, w *world, op store.Operation)) {
	t.Helper()
	for kind, request := range map[provider.OperationKind]func(w *world) store.Operation{
		provider.OpRefund:  func(w *world) store.Operation { return w.refund(w.paid(), 300) },
		provider.OpCapture: func(w *world) store.Operation { return w.capture(w.authorised(), 600) },
		provider.OpVoid:    func(w *world) store.Operation { return w.void(w.authorised()) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			op := w.send(request(w).ID, timedOut())
			require.Equal(t, store.Unknown, op.Status)
			require.Empty(t, op.NeedsReview)
			test(t, w, op)
		})
	}
}

func TestReplayOfAnOperationRepeatsKeyAndBytes(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, w *world, op store.Operation) {
		sent, err := w.AttemptsOfOperation(ctx, op)
		require.NoError(t, err)
		first := sent[0]
		again, _ := w.replayOp(op.ID, false)
		require.Equal(t, first.MarkedAt.Add(apart), again, "the call may still run over there")
		require.Zero(t, w.replays(op))
		_, _, err = w.BeginOperation(ctx, beginOp(op.ID))
		require.ErrorIs(t, err, store.ErrSettled, "without a replay nothing goes out")
		w.clock.add(apart)
		again, ask := w.replayOp(op.ID, false)
		require.Zero(t, again)
		require.False(t, ask)
		require.Equal(t, 1, w.replays(op))
		require.Equal(t, "recharge", w.op(op.ID).NextCheckWhy)

		other := replayedOp(op.ID)
		other.Body = []byte(`{"other":1}`)
		_, _, err = w.BeginOperation(ctx, other)
		require.ErrorIs(t, err, store.ErrBytesChanged)
		a, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
		require.NoError(t, err)
		require.Equal(t, op.OperationKey, a.OperationKey)
		require.Equal(t, first.OperationKey, a.OperationKey)
		require.Equal(t, first.Request, a.Request)
		require.Equal(t, first.ReplayUntil, a.ReplayUntil, "a replay does not lengthen the key's life")
		require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = $2`, op.PaymentID, string(op.Kind)+"_resend_started"))
		again, _ = w.replayOp(op.ID, false)
		require.Equal(t, a.Deadline, again, "one at a time")
		_, _, err = w.BeginOperation(ctx, replayedOp(op.ID))
		require.ErrorIs(t, err, store.ErrInFlight)
		require.Equal(t, 1, w.replays(op))
	})
}

// Its worker died between the mark and the answer: once the attempt is nobody's, the
// next replay may go, and the late outcome still counts.
func TestAReplayOfARefundWhoseWorkerDied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	op := w.send(w.refund(p, 300).ID, timedOut())
	w.clock.add(apart)
	w.replayOp(op.ID, false)
	dead, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
	require.NoError(t, err)
	w.clock.add(deadline + time.Second)
	_, _, err = w.BeginOperation(ctx, replayedOp(op.ID))
	require.ErrorIs(t, err, store.ErrMaybeSent, "what it found out goes through the lookup job")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM attempts WHERE error_class = 'no_outcome'`))
	require.Equal(t, 2, w.jobs.Asked(t, "operation_lookup", op.ID))
	again, _ := w.replayOp(op.ID, false)
	require.Zero(t, again)
	require.Equal(t, 2, w.replays(op))

	o := refundObject(op, "re_1", provider.Succeeded)
	op = w.finishOp(dead, answered(provider.Succeeded, &o))
	require.Equal(t, store.Succeeded, op.Status)
	_, _, err = w.BeginOperation(ctx, replayedOp(op.ID))
	require.ErrorIs(t, err, store.ErrSettled, "the queued replay finds it settled")
	require.Equal(t, int64(300), w.figures(p.ID).Refunded)
}

// The provider executed the first send late: the replay's answer is about the same object,
// and there is one refund.
func TestAReplayedRefundIsOneRefund(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.paid(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	op := w.send(w.refund(p, 300).ID, timedOut())
	w.clock.add(apart)
	w.replayOp(op.ID, false)
	a, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
	require.NoError(t, err)
	o := refundObject(op, "re_1", provider.Succeeded)
	require.Equal(t, "applied", w.hook(provider.Event{Key: "evt_1", Interesting: true, Object: o, OccurredAt: w.Now()}))
	op = w.finishOp(a, answered(provider.Succeeded, &o))
	require.Equal(t, store.Succeeded, op.Status)
	require.Empty(t, op.NeedsReview)
	require.Equal(t, int64(300), w.figures(p.ID).Refunded)
	require.Equal(t, int64(700), w.balance(wal.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM operation_objects`))
}

// What the replay of a capture or void came to shows in the charge, as ever.
func TestReplaysOfCaptureAndVoidSettleThePayment(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, w *world, op store.Operation) {
		if op.Kind == provider.OpRefund {
			return
		}
		w.clock.add(apart)
		w.replayOp(op.ID, false)
		a, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
		require.NoError(t, err)
		p := w.get(op.PaymentID)
		charge, want := taken(p, p.ProviderPaymentID, 600), store.Succeeded
		if op.Kind == provider.OpVoid {
			charge, want = released(p, p.ProviderPaymentID, provider.ReasonVoided), store.Failed
		}
		o := done(op, charge, provider.Succeeded)
		require.Equal(t, store.Succeeded, w.finishOp(a, answered(provider.Succeeded, &o)).Status)
		require.Equal(t, want, w.get(p.ID).Status)
	})
}

// What provably was not executed changes nothing, and the lookup job paces the next one.
func TestAReplayOfARefundThatDidNotLeaveStaysUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.send(w.refund(w.paid(), 300).ID, timedOut())
	w.clock.add(apart)
	w.replayOp(op.ID, false)
	a, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
	require.NoError(t, err)
	op = w.finishOp(a, provider.Charged{Classification: provider.Classification{Outcome: provider.NotSent, Reason: provider.ReasonDial, Next: provider.NextRetry}})
	require.Equal(t, store.Unknown, op.Status)
	require.Equal(t, 2, w.jobs.Asked(t, "operation_lookup", op.ID))
	require.Zero(t, w.count(`SELECT count(*) FROM payment_events WHERE evidence ->> 'to' = 'pending'`))
}

// Past the key's life a replay would be a second refund: the event or a person decides,
// or what else can be asked.
func TestC13_ReplaysOfAnOperationEndWithTheKey(t *testing.T) {
	t.Parallel()
	everywhere, nowhere := func(string) bool { return true }, func(string) bool { return false }
	everyKind(t, func(t *testing.T, w *world, op store.Operation) {
		w.clock.add(keyLife - 5*time.Minute - time.Second)
		w.replayOp(op.ID, false)
		require.Equal(t, 1, w.replays(op))
		w.clock.add(time.Second)
		_, _, err := w.BeginOperation(ctx, replayedOp(op.ID)) // the job ran too late
		require.ErrorIs(t, err, store.ErrKeyExpired)
		again, ask := w.replayOp(op.ID, false)
		require.Zero(t, again)
		require.False(t, ask)
		require.Equal(t, 1, w.replays(op))
		got := w.op(op.ID)
		require.Equal(t, store.Unknown, got.Status)
		require.Equal(t, []string{store.ReviewKeyExpired}, got.NeedsReview)
		require.Nil(t, got.NextCheckAt)
		_, ask = w.replayOp(op.ID, true)
		require.True(t, ask, "where something else can be asked, it is")

		w.jobs.Clear(t)
		w.clock.add(2 * time.Hour)
		w.sweep(store.SweepParams{AskAt: nowhere, ReplayAt: everywhere})
		require.Zero(t, w.jobs.Asked(t, "operation_lookup", op.ID))
	})
}

// A sweep gives an unknown operation its replay back, and leaves what the provider
// acknowledged, and what was made elsewhere, to events.
func TestSweepBringsReplaysOfOperationsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	lost := w.send(w.refund(p, 300).ID, timedOut())
	waits := w.refund(p, 100)
	o := refundObject(waits, "re_w", provider.Processing)
	w.send(waits.ID, answered(provider.Processing, &o))
	w.jobs.Clear(t)
	w.clock.add(2 * time.Hour)
	params := store.SweepParams{AskAt: func(string) bool { return false }, ReplayAt: func(string) bool { return true }}
	w.sweep(params)
	require.Equal(t, 1, w.jobs.Asked(t, "operation_lookup", lost.ID))
	require.Empty(t, w.op(lost.ID).NeedsReview)
	require.Zero(t, w.jobs.Asked(t, "operation_lookup", waits.ID))
	require.Equal(t, []string{store.ReviewNoStatusAPI}, w.op(waits.ID).NeedsReview)

	w.clock.add(time.Hour)
	params.AskOperationAt = func(string, provider.OperationKind) bool { return false }
	w.sweep(params)
	require.Equal(t, []string{store.ReviewNoStatusAPI}, w.op(lost.ID).NeedsReview, "an adapter that does no refunds sends none again")
	require.Nil(t, w.op(lost.ID).NextCheckAt)
}

// A rejected replay does not tell what the first send did: unknown, for a person, and no
// further replay unless the person orders one.
func TestARejectedReplayOfAnOperationProvesNothing(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, w *world, op store.Operation) {
		w.clock.add(apart)
		w.replayOp(op.ID, false)
		a, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
		require.NoError(t, err)
		op = w.finishOp(a, rejectedReplay())
		require.Equal(t, store.Unknown, op.Status)
		require.Equal(t, []string{store.ReviewContradiction}, op.NeedsReview)
		w.clock.add(apart)
		again, ask := w.replayOp(op.ID, false)
		require.Zero(t, again)
		require.False(t, ask)
		op = w.op(op.ID)
		require.Equal(t, []string{store.ReviewContradiction, store.ReviewNoStatusAPI}, op.NeedsReview)
		require.Nil(t, op.NextCheckAt)
		require.Equal(t, 1, w.replays(op), "no further one")
		_, ask = w.replayOp(op.ID, true)
		require.True(t, ask)

		op, err = w.LookUpOperationNow(ctx, uuid.New(), op.ID, op.Version, someone)
		require.NoError(t, err)
		w.replayOp(op.ID, false)
		require.Equal(t, 2, w.replays(op), "a person may order one")
	})
}

// What an event settled meanwhile is not doubted because of a rejected replay.
func TestARejectedReplayDoubtsNothingThatIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.send(w.refund(w.paid(), 300).ID, timedOut())
	w.clock.add(apart)
	a, _, err := w.BeginOperation(ctx, replayedOp(op.ID))
	require.NoError(t, err)
	o := refundObject(op, "re_1", provider.Succeeded)
	w.hook(provider.Event{Key: "evt_1", Interesting: true, Object: o, OccurredAt: w.Now()})
	op = w.finishOp(a, rejectedReplay())
	require.Equal(t, store.Succeeded, op.Status)
	require.Empty(t, op.NeedsReview)
}
