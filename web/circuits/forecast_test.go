package circuits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/web/circuits"
)

func TestWaitingCallsGoAsTheRampAdmits(t *testing.T) {
	t.Parallel()
	// From 1 to 11 calls a second in 10 s: 60 calls within the ramp, then 11 a second.
	s := breaker.Settings{RampFor: 10 * time.Second, RampStart: 1, RampFull: 11}
	near := func(want, got time.Duration) { t.Helper(); require.InDelta(t, want.Seconds(), got.Seconds(), 0.01) }
	require.Zero(t, circuits.AfterClosing(s, 0, time.Minute))
	near(10*time.Second, circuits.AfterClosing(s, 60, 0))
	near(4*time.Second, circuits.AfterClosing(s, 12, 0))
	near(12*time.Second, circuits.AfterClosing(s, 82, 0))
	near(10*time.Second, circuits.AfterClosing(s, 1, 10*time.Second))
	near(5*time.Second, circuits.AfterClosing(breaker.Settings{}, 500, 0))
	near(5*time.Second, circuits.AfterClosing(breaker.Settings{RampFor: time.Minute, RampStart: 2, RampFull: 2}, 10, 0))

	left, ok := circuits.InRamp(s, 4*time.Second, 48)
	require.True(t, ok)
	near(6*time.Second, left)
	_, ok = circuits.InRamp(s, 10*time.Second, 48)
	require.False(t, ok, "over")
	_, ok = circuits.InRamp(breaker.Settings{}, time.Second, 48)
	require.False(t, ok, "none")
}
