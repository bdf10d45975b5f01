package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
