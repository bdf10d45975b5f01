package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
)

func TestRampReachesWhatItAdmits(t *testing.T) {
	t.Parallel()
	for _, s := range []breaker.Settings{
		{RampFor: 30 * time.Second, RampStart: 1, RampFull: 50},
		{RampFor: 10 * time.Second, RampStart: 5, RampFull: 5}, // even
		{RampFor: time.Minute},                                 // the defaults
	} {
		last := time.Duration(-1)
		for _, n := range []float64{0, 0.5, 1, 10, 49, 765, 1000, 50_000} {
			at, ok := s.RampReaches(n)
			require.True(t, ok)
			require.Greater(t, at, last)
			require.InDelta(t, n, s.RampAdmits(at), 1e-5*max(n, 1))
			last = at
		}
	}
}

func TestRampInNumbers(t *testing.T) {
	t.Parallel()
	s := breaker.Settings{RampFor: 30 * time.Second, RampStart: 1, RampFull: 50}
	require.InDelta(t, 765, s.RampAdmits(30*time.Second), 1e-9)
	require.InDelta(t, 765+500, s.RampAdmits(40*time.Second), 1e-9)
	require.Zero(t, s.RampAdmits(-time.Second))
	at, _ := s.RampReaches(765)
	require.Equal(t, 30*time.Second, at)
	at, _ = s.RampReaches(815)
	require.Equal(t, 31*time.Second, at)
	at, _ = s.RampReaches(math.Inf(1))
	require.Positive(t, at, "no overflow")
	_, ok := breaker.Settings{}.RampReaches(1)
	require.False(t, ok)
	require.Zero(t, breaker.Settings{}.RampAdmits(time.Hour))
}
