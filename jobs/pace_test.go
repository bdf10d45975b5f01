package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/breaker"
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
	const last = 0.999999
	floor := provider.Settings{}.WithDefaults().RetryPauses[0]
	none := breaker.Settings{}
	require.InDelta(t, 10, spread(none, floor, 0, last).Seconds(), 0.01)
	require.InDelta(t, 10, spread(none, floor, 500, last).Seconds(), 0.01)
	require.InDelta(t, 100, spread(none, floor, 10_000, last).Seconds(), 0.01)
	// 1 to 50 a second over 30 s admits 765 calls, and 50 a second from then on.
	ramp := breaker.Recommended(5 * time.Second)
	require.InDelta(t, 10, spread(ramp, floor, 20, last).Seconds(), 0.01, "a small backlog keeps the floor")
	require.InDelta(t, 30, spread(ramp, floor, 765, last).Seconds(), 0.01)
	require.InDelta(t, 50, spread(ramp, floor, 1765, last).Seconds(), 0.01)
}

func TestWakingFollowsTheRamp(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2*time.Second, WakeAt(breaker.Settings{}, 20), "without a ramp: store.WakePace")
	ramp := breaker.Recommended(5 * time.Second)
	require.Zero(t, WakeAt(ramp, 0))
	require.InDelta(t, 0.66, WakeAt(ramp, 1).Seconds(), 0.05, "one a second at first, growing")
	require.InDelta(t, 30, WakeAt(ramp, 765).Seconds(), 0.01)
}

// aRamp draws settings with a ramp.
func aRamp(t *rapid.T) breaker.Settings {
	s := breaker.Settings{RampFor: time.Duration(rapid.Int64Range(int64(time.Second), int64(10*time.Minute)).Draw(t, "ramp for"))}
	s.RampStart = rapid.Float64Range(0.1, 20).Draw(t, "start")
	s.RampFull = s.RampStart + rapid.Float64Range(0, 200).Draw(t, "growth")
	return s
}

// admitted is what the ramp lets through within a time after the closing: its first
// token and the integral of its rate.
func admitted(s breaker.Settings, after time.Duration) float64 {
	within := min(after, s.RampFor).Seconds()
	growth := (s.RampFull - s.RampStart) / s.RampFor.Seconds()
	return 1 + s.RampStart*within + growth*within*within/2 + s.RampFull*max(after-s.RampFor, 0).Seconds()
}

// The stated factor is one: at no moment more jobs of a backlog are expected back than
// the ramp has admitted by then, and the last one is back when the ramp has admitted all
// (or the floor is over). Nothing returns early.
func TestReturnsNeverOutrunTheRamp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := aRamp(t)
		floor := time.Duration(rapid.Int64Range(int64(time.Second), int64(20*time.Second)).Draw(t, "floor"))
		backlog := rapid.IntRange(0, 20_000).Draw(t, "backlog")
		n := max(backlog, 1)
		width := max(floor, rampTime(s, float64(n)))
		before := time.Duration(0)
		for i := range 200 {
			u := float64(i) / 200
			at := spread(s, floor, backlog, u)
			if at < before || at > width+time.Millisecond {
				t.Fatalf("u=%v: %s is before %s or outside [0, %s]", u, at, before, width)
			}
			// A wait has an end: what comes after a day of ramp comes then.
			if back := u * float64(n); at < longestWait && back > admitted(s, at)+1e-6*float64(n) {
				t.Fatalf("%s after the closing %.2f jobs are expected back, the ramp admits %.2f", at, back, admitted(s, at))
			}
			before = at
		}
	})
}

// The same against the circuit itself: of jobs woken by WakeAt none meets the ramp.
func TestWokenJobsAreAdmitted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := aRamp(t)
		set.OpenFor = time.Minute
		now := time.Unix(1_800_000_000, 0)
		k := breaker.Key{Name: "atlas", Class: classCharge}
		b := breaker.NewLocal(breaker.Options{Log: quiet(), Now: func() time.Time { return now },
			Settings: func(breaker.Key) breaker.Settings { return set }})
		snap, err := b.Snapshot(context.Background(), k)
		if err == nil {
			_, err = b.Reset(context.Background(), k, snap.Epoch, "test", "")
		}
		if err != nil {
			t.Fatal(err)
		}
		closed := now
		for i := range rapid.IntRange(1, 300).Draw(t, "jobs") {
			// A moment for each rounding of the circuit's: at low rates its bucket holds one
			// token only, so what one job came late the next cannot use.
			now = closed.Add(WakeAt(set, i) + time.Duration(i)*100*time.Microsecond)
			p, err := b.Permit(context.Background(), k)
			if err != nil {
				t.Fatalf("job %d, %s after the closing: %v", i, now.Sub(closed), err)
			}
			p.Report(context.Background(), breaker.OK, 0, "", "")
		}
	})
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
	s := provider.Settings{}.WithDefaults()
	for range 200 {
		got := throttled(s, history{}, 30*time.Second)
		require.GreaterOrEqual(t, got, 30*time.Second)
		require.LessOrEqual(t, got, 36*time.Second)
	}
	require.Greater(t, throttled(s, history{}, 0), 7*time.Second, "without Retry-After: the engine's own backoff")
}
