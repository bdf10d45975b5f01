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

const apart = 5 * time.Second

func (w *world) replay(id uuid.UUID) time.Time {
	w.t.Helper()
	var again time.Time
	require.NoError(w.t, w.tx(func(tx pgx.Tx) (err error) {
		again, err = w.Replay(ctx, tx, id, store.ReplayPolicy{KeyLife: keyLife, Apart: apart, NextAt: w.Now().Add(time.Minute)})
		return err
	}))
	return again
}

func replayed(id uuid.UUID) store.BeginParams {
	p := begin(id)
	p.Body, p.Recharge, p.Replay = nil, true, true
	return p
}

func TestReplayQueuesTheSameKeyAndBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	first := w.begin(p.ID)
	w.finish(first, timedOut())
	require.Equal(t, w.Now().Add(apart), w.replay(p.ID), "the call may still run over there")
	require.Zero(t, w.jobs.Asked(t, "recharge", p.ID))
	w.clock.add(apart)
	require.Zero(t, w.replay(p.ID))
	require.Equal(t, 1, w.jobs.Asked(t, "recharge", p.ID))
	require.Equal(t, "recharge", w.get(p.ID).NextCheckWhy)

	a, _, err := w.BeginAttempt(ctx, replayed(p.ID))
	require.NoError(t, err)
	require.Equal(t, first.OperationKey, a.OperationKey)
	require.Equal(t, first.Request, a.Request)
	require.Equal(t, first.ReplayUntil, a.ReplayUntil, "a replay does not lengthen the key's life")
	require.Equal(t, a.Deadline, w.replay(p.ID), "one at a time")
	_, _, err = w.BeginAttempt(ctx, replayed(p.ID))
	require.ErrorIs(t, err, store.ErrInFlight)
	require.Equal(t, 1, w.jobs.Asked(t, "recharge", p.ID))

	w.clock.add(deadline + apart) // its worker died
	require.Zero(t, w.replay(p.ID))
	require.Equal(t, 2, w.jobs.Asked(t, "recharge", p.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM attempts WHERE error_class = 'no_outcome'`))
}

func TestReplayLeavesWhatIsNotUnknownAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending := w.create()
	done := w.create()
	obj := object(done, "pay_done", provider.Succeeded)
	w.charge(done.ID, answered(provider.Succeeded, &obj))
	w.clock.add(time.Hour)
	for _, p := range []store.Payment{pending, done} {
		before := w.get(p.ID)
		require.Zero(t, w.replay(p.ID))
		require.Equal(t, before, w.get(p.ID))
		require.Zero(t, w.jobs.Asked(t, "recharge", p.ID))
	}
	_, _, err := w.BeginAttempt(ctx, replayed(done.ID))
	require.ErrorIs(t, err, store.ErrSettled)
	require.ErrorIs(t, w.tx(func(tx pgx.Tx) error {
		_, err := w.Replay(ctx, tx, uuid.New(), store.ReplayPolicy{})
		return err
	}), store.ErrNotFound)
}

// C-13: from the margin before the key's end on, nothing goes out any more.
func TestC13_ReplayEndsWithTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.clock.add(keyLife - 5*time.Minute - time.Second)
	require.Zero(t, w.replay(p.ID))
	require.Equal(t, 1, w.jobs.Asked(t, "recharge", p.ID))
	w.clock.add(time.Second)
	_, _, err := w.BeginAttempt(ctx, replayed(p.ID)) // the job ran too late
	require.ErrorIs(t, err, store.ErrKeyExpired)
	require.Zero(t, w.replay(p.ID))
	require.Equal(t, 1, w.jobs.Asked(t, "recharge", p.ID))
	got := w.get(p.ID)
	require.Equal(t, store.Unknown, got.Status)
	require.Equal(t, []string{store.ReviewKeyExpired}, got.NeedsReview)
	require.Nil(t, got.NextCheckAt)

	w.jobs.Clear(t)
	w.clock.add(24 * time.Hour)
	everywhere := func(string) bool { return true }
	nowhere := func(string) bool { return false }
	require.Equal(t, store.Swept{}, w.sweep(store.SweepParams{AskAt: nowhere, ReplayAt: everywhere}))
	require.Zero(t, w.jobs.Live(t, "reconcile"))
}

// A sweep gives an unknown payment its replay back, and leaves what the provider
// acknowledged to its events.
func TestSweepBringsReplaysBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	q := w.create()
	oq := object(q, "pay_q", provider.Processing)
	w.charge(q.ID, answered(provider.Processing, &oq))
	w.jobs.Clear(t)
	w.clock.add(2 * time.Hour)
	nowhere := func(string) bool { return false }
	w.sweep(store.SweepParams{AskAt: nowhere, ReplayAt: func(string) bool { return true }})
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID))
	require.Empty(t, w.get(p.ID).NeedsReview)
	require.Zero(t, w.jobs.Asked(t, "reconcile", q.ID))
	require.Equal(t, []string{store.ReviewNoStatusAPI}, w.get(q.ID).NeedsReview)
}

// A rejected replay does not tell what the first send did: unknown, for a person, and no
// further replay unless the person orders one. An event still settles it, and clears the doubt.
func TestARejectedReplayProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.clock.add(apart)
	w.replay(p.ID)
	a, _, err := w.BeginAttempt(ctx, replayed(p.ID))
	require.NoError(t, err)
	p = w.finish(a, rejectedReplay())
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewContradiction}, p.NeedsReview)
	w.clock.add(apart)
	require.Zero(t, w.replay(p.ID))
	p = w.get(p.ID)
	require.Equal(t, []string{store.ReviewContradiction, store.ReviewNoStatusAPI}, p.NeedsReview)
	require.Nil(t, p.NextCheckAt)
	require.Equal(t, 1, w.jobs.Asked(t, "recharge", p.ID), "no further one")

	_, err = w.ReconcileNow(ctx, uuid.New(), p.ID, p.Version, someone)
	require.NoError(t, err)
	w.replay(p.ID)
	require.Equal(t, 2, w.jobs.Asked(t, "recharge", p.ID), "a person may order one")

	o := object(p, "pay_1", provider.Succeeded)
	w.hook(provider.Event{Key: "evt_1", Interesting: true, Object: o, OccurredAt: w.Now()})
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status)
	require.Empty(t, p.NeedsReview)
}

func TestARejectedReplayDoubtsNoSettledPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.clock.add(apart)
	a, _, err := w.BeginAttempt(ctx, replayed(p.ID))
	require.NoError(t, err)
	w.hook(provider.Event{Key: "evt_1", Interesting: true, Object: object(p, "pay_1", provider.Succeeded), OccurredAt: w.Now()})
	p = w.finish(a, rejectedReplay())
	require.Equal(t, store.Succeeded, p.Status)
	require.Empty(t, p.NeedsReview)
}
