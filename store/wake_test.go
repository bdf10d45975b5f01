package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// TestWakeWaitingBringsCircuitWaitersForward: what sleeps for an open circuit comes
// back at the agreed pace, oldest first; what waits for another reason does not.
func TestWakeWaitingBringsCircuitWaitersForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := w.Now().Add(time.Hour)
	first, second, paused := w.create(), w.create(), w.create()
	require.NoError(t, w.NoteWaiting(ctx, first.ID, later, "circuit_open", ""))
	require.NoError(t, w.NoteWaiting(ctx, second.ID, later, "circuit_open", ""))
	require.NoError(t, w.NoteWaiting(ctx, paused.ID, later, "paused", ""))

	n, err := w.WakeWaiting(ctx, first.Provider, true)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.True(t, w.get(first.ID).NextCheckAt.Before(later.Add(-50*time.Minute)))
	require.Equal(t, 100*time.Millisecond, w.get(second.ID).NextCheckAt.Sub(*w.get(first.ID).NextCheckAt))
	require.True(t, w.get(paused.ID).NextCheckAt.Equal(later))

	n, err = w.WakeWaiting(ctx, first.Provider, true)
	require.NoError(t, err)
	require.Zero(t, n, "woken once")
}

// tokenless is a call that did not go out for want of a token.
func tokenless() provider.Charged {
	c := notSent()
	c.Reason, c.Health, c.Next, c.RetryAfter = provider.ReasonNoToken, provider.HealthNeutral, provider.NextSnooze, time.Minute
	return c
}

// TestWakeTokenless: what did not go out for want of a token comes back when there is one,
// charges and operations, and nothing that waits for another reason does.
func TestWakeTokenless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paid := w.paid()
	held, alsoHeld, dialled, circuit := w.create(), w.create(), w.create(), w.create()
	for _, p := range []store.Payment{held, alsoHeld} {
		w.charge(p.ID, tokenless())
	}
	w.charge(dialled.ID, notSent())
	w.charge(circuit.ID, tokenless())
	later := w.Now().Add(time.Hour)
	require.NoError(t, w.NoteWaiting(ctx, circuit.ID, later, "circuit_open", ""), "it was turned away by the circuit of charges since")
	refund := w.send(w.refund(paid, 300).ID, tokenless())
	before := *w.get(dialled.ID).NextCheckAt
	require.Equal(t, "throttled", w.get(held.ID).NextCheckWhy)

	n, err := w.WakeTokenProbes(ctx, held.Provider, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, "charge", w.get(held.ID).NextCheckWhy)
	require.Equal(t, "throttled", w.get(alsoHeld.ID).NextCheckWhy, "one is enough for a probe")

	n, err = w.WakeTokenless(ctx, held.Provider)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	now := w.get(alsoHeld.ID)
	require.Equal(t, "charge", now.NextCheckWhy)
	require.Equal(t, store.Pending, now.Status)
	require.WithinDuration(t, w.Now(), *now.NextCheckAt, 5*time.Second)
	require.Equal(t, "charge", w.op(refund.ID).NextCheckWhy)
	require.True(t, before.Equal(*w.get(dialled.ID).NextCheckAt))
	require.True(t, later.Equal(*w.get(circuit.ID).NextCheckAt))

	n, err = w.WakeTokenless(ctx, held.Provider)
	require.NoError(t, err)
	require.Zero(t, n, "woken once")
	n, err = w.WakeTokenless(ctx, "birch")
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestWakeWaitingKeepsThePaceItIsGiven: the ramp of the circuit decides who comes back
// when, and nobody is put off who would have come sooner.
func TestWakeWaitingKeepsThePaceItIsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paced := store.New(w.db.Pool, store.Options{Enqueuer: w.jobs, Now: w.Now, WakeAt: func(_ string, charges bool, i int) time.Duration {
		require.True(t, charges)
		return time.Duration(i*i) * time.Minute
	}})
	later := w.Now().Add(time.Hour)
	var ids []uuid.UUID
	for range 3 {
		p := w.create()
		require.NoError(t, w.NoteWaiting(ctx, p.ID, later, "circuit_open", ""))
		ids = append(ids, p.ID)
	}
	soon := w.Now().Add(time.Second)
	require.NoError(t, w.NoteWaiting(ctx, ids[2], soon, "circuit_open", ""))
	began := w.Now()
	n, err := paced.WakeWaiting(ctx, w.get(ids[0]).Provider, true)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.WithinDuration(t, began.Add(time.Minute), *w.get(ids[1]).NextCheckAt, 5*time.Second)
	require.WithinDuration(t, soon, *w.get(ids[2]).NextCheckAt, time.Millisecond, "not put off to its turn")
	require.Equal(t, 4*time.Minute, paced.WakeSpan("atlas", true, 3))
	require.Zero(t, paced.WakeSpan("atlas", true, 0))
	require.Equal(t, 200*time.Millisecond, w.WakeSpan("atlas", false, 3), "store.WakePace unless told otherwise")
}
