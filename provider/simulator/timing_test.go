package simulator

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimingDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, DefaultTiming(), Timing{}.withDefaults())
	set := Timing{Slow: time.Second}.withDefaults()
	require.Equal(t, time.Second, set.Slow)
	require.Equal(t, DefaultTiming().Late, set.Late)
	def := DefaultTiming()
	for _, f := range def.fields() {
		require.Positive(t, *f.d, f.name)
	}
}

// Every field travels through JSON under its own name.
func TestTimingJSON(t *testing.T) {
	t.Parallel()
	var want Timing
	for i, f := range want.fields() {
		*f.d = time.Duration(i+1) * 1500 * time.Millisecond
	}
	raw, err := json.Marshal(want)
	require.NoError(t, err)
	var got Timing
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, want, got)

	got = Timing{Slow: time.Second, Late: time.Second}
	require.NoError(t, json.Unmarshal([]byte(`{"slow":"2s"}`), &got))
	require.Equal(t, Timing{Slow: 2 * time.Second, Late: time.Second}, got, "absent ones keep their value")
	for _, bad := range []string{`{"slow":2}`, `{"slow":"2"}`, `{"slow":"-2s"}`, `{"speed":"2s"}`, `[]`} {
		require.Error(t, json.Unmarshal([]byte(bad), &got), bad)
	}
}
