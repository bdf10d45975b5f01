package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWakeProbesTakesTheOldestOnly: as many as half-open needs, the rest sleeps on.
func TestWakeProbesTakesTheOldestOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := w.Now().Add(time.Hour)
	first, second, paused := w.create(), w.create(), w.create()
	require.NoError(t, w.NoteWaiting(ctx, paused.ID, later, "paused", ""))
	n, err := w.WakeProbes(ctx, first.Provider, true, 1)
	require.NoError(t, err)
	require.Zero(t, n, "nobody waits for the circuit")
	for _, p := range []string{first.ID.String(), second.ID.String()} {
		w.db.Exec(t, `UPDATE payments SET next_check_at = $2, next_check_why = 'circuit_open' WHERE id = $1`, p, later)
	}
	n, err = w.WakeProbes(ctx, first.Provider, true, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.True(t, w.get(first.ID).NextCheckAt.Equal(w.Now()), "at once")
	require.True(t, w.get(second.ID).NextCheckAt.Equal(later))
	require.True(t, w.get(paused.ID).NextCheckAt.Equal(later))
	n, err = w.WakeProbes(ctx, first.Provider, true, 5)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
