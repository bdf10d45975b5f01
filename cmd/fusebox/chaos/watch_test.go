package chaos

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatchTellsAHabitFromABusyMachine: a transaction open across a provider's call shows
// again and again after the same statement.
func TestWatchTellsAHabitFromABusyMachine(t *testing.T) {
	t.Parallel()
	w := &world{log: slog.New(slog.DiscardHandler)}
	x := newWatch(w)
	for _, statement := range []string{"a", "b", "a", "c"} {
		x.notes(idling{statement: statement, line: statement})
	}
	require.Empty(t, w.findings)
	x.notes(idling{statement: "a", line: "a"})
	x.notes(idling{statement: "a", line: "a"})
	require.Len(t, w.findings, 1, "told once")
}

func TestWatchExcusesWhatAFaultExplains(t *testing.T) {
	t.Parallel()
	x := newWatch(&world{})
	require.False(t, x.excused())
	x.explains(ProviderHalfOpen, true)
	require.False(t, x.excused(), "a slow provider is what the watch is for")
	x.explains(FreezeWork, true)
	require.True(t, x.excused())
	x.explains(FreezeWork, false)
	require.True(t, x.excused(), "for a moment longer")
	x.until[string(FreezeWork)] = time.Now().Add(-time.Second)
	require.False(t, x.excused())
}
