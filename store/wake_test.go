package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

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
