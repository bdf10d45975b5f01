package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store/storetest"
)

// TestClockFollowsTheDatabase: a machine's clock that is ten minutes off decides nothing.
func TestClockFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	for _, off := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		c := newClock(config{ClockOffset: off}.now, discard)
		require.WithinDuration(t, time.Now().Add(off), c.now(), time.Second)
		eventually(t, 30*time.Second, "an answer in time", func() bool { return c.ask(t.Context(), db.Pool) })
		require.WithinDuration(t, time.Now(), c.now(), 2*time.Second)
		if off == 0 {
			require.Zero(t, c.offset.Load(), "a right clock is left alone")
		}
	}
}

func TestClockHearsWhatMeansSomething(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	machine := at
	c := newClock(func() time.Time { return machine }, discard)
	off := func() time.Duration { return time.Duration(c.offset.Load()) }

	require.True(t, c.hear(at, at.Add(200*time.Millisecond), at.Add(10*time.Millisecond)))
	require.Zero(t, off(), "less than can be measured")
	require.False(t, c.hear(at, at.Add(time.Hour), at.Add(time.Second)), "too long under way to mean anything")
	require.Zero(t, off())
	require.True(t, c.hear(at, at.Add(time.Minute), at.Add(100*time.Millisecond)))
	require.Equal(t, time.Minute-50*time.Millisecond, off())
	require.True(t, c.hear(at, at.Add(time.Minute+100*time.Millisecond), at.Add(100*time.Millisecond)))
	require.Equal(t, time.Minute-50*time.Millisecond, off(), "steady while the difference is small")
	require.True(t, c.hear(at, at.Add(50*time.Millisecond), at.Add(100*time.Millisecond)))
	require.Zero(t, off(), "the machine was put right")
	require.Equal(t, at, c.now())
}
