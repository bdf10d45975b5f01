package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
)

func TestRetryPausesGrowAndTheLastRepeats(t *testing.T) {
	t.Parallel()
	s := provider.Settings{}.WithDefaults()
	require.Equal(t, 5, maxTries(s))
	for tries, nominal := range map[int]time.Duration{
		1: 10 * time.Second, 2: 30 * time.Second, 3: time.Minute, 4: 5 * time.Minute, 5: 5 * time.Minute, 500: 5 * time.Minute,
	} {
		for range 50 {
			got := retryPause(s, tries)
			require.InDelta(t, nominal.Seconds(), got.Seconds(), nominal.Seconds()*jitterShare, "try %d", tries)
		}
	}
}

func TestReconcilePausesFollowTheLookupsDone(t *testing.T) {
	t.Parallel()
	s := provider.Settings{}.WithDefaults()
	require.Equal(t, time.Minute, firstLookup(s, false))
	require.Equal(t, 10*time.Second, firstLookup(s, true))
	for done, nominal := range map[int]time.Duration{1: 5 * time.Minute, 2: 15 * time.Minute, 3: time.Hour, 4: 6 * time.Hour, 5: 24 * time.Hour, 900: 24 * time.Hour} {
		require.InDelta(t, nominal.Seconds(), reconcilePause(s, done).Seconds(), nominal.Seconds()*jitterShare, "lookup %d", done)
	}
}

func TestSpreadIsWiderThanTheSchedulersTickAndGrowsWithTheBacklog(t *testing.T) {
	t.Parallel()
	s := provider.Settings{}.WithDefaults()
	require.Equal(t, 10*time.Second, spread(s, 0))
	require.Equal(t, 10*time.Second, spread(s, 500))
	require.Equal(t, 100*time.Second, spread(s, 10_000))
}

// A job never returns before the circuit or the provider said, nor later than the
// spread allows, and no pause is ever negative: River panics on one.
func TestReturnTimesStayInTheirWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Hour)).Draw(t, "after"))
		width := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "width"))
		got := returnAfter(after, width)
		if got < max(after, 0) || got > max(after, 0)+width {
			t.Fatalf("%s is outside [%s, %s]", got, after, after+width)
		}
		i := rapid.IntRange(-3, 100).Draw(t, "i")
		if retryPause(provider.Settings{}.WithDefaults(), i) <= 0 {
			t.Fatalf("pause after try %d is not positive", i)
		}
	})
}

func TestAThrottledChargeNeverReturnsEarlierThanAsked(t *testing.T) {
	t.Parallel()
	c := &charge{lane: &lane{settings: provider.Settings{}.WithDefaults()}}
	for range 200 {
		got := c.throttled(30 * time.Second)
		require.GreaterOrEqual(t, got, 30*time.Second)
		require.LessOrEqual(t, got, 36*time.Second)
	}
	require.Greater(t, c.throttled(0), 7*time.Second, "without Retry-After: the engine's own backoff")
}
