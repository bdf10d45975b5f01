package breaker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rates is a circuit that only shares open.
var rates = Settings{Failures: -1, Rate: 0.5, MinCalls: 10, RateWindow: 10 * time.Second}

func TestFailureRateNeedsMinimumCalls(t *testing.T) {
	onEach(t, rigOptions{settings: rates}, func(t *testing.T, r *rig) {
		for range 9 {
			_ = r.call(0, Fail) // 100 %, but of nine
		}
		r.requireState(Closed)
		_ = r.call(0, Fail)
		require.Equal(t, ReasonRate, r.requireState(Open).OpenReason)
	})
}

func TestFailureRateForgetsOldSeconds(t *testing.T) {
	onEach(t, rigOptions{settings: rates}, func(t *testing.T, r *rig) {
		for range 9 {
			_ = r.call(0, Fail)
		}
		r.advance(10 * time.Second)
		for i := range 18 {
			_ = r.call(0, []Verdict{OK, OK, Fail}[i%3])
		}
		s := r.requireState(Closed)
		require.Equal(t, Counts{OK: 12, Fail: 6}, s.Window)
		require.Equal(t, Counts{OK: 12, Fail: 15}, s.Total)
	})
}

func TestFailureRateIgnoresNeutralCalls(t *testing.T) {
	onEach(t, rigOptions{settings: rates}, func(t *testing.T, r *rig) {
		for range 100 {
			_ = r.call(0, Neutral)
		}
		for range 9 {
			_ = r.call(0, Fail)
		}
		r.requireState(Closed) // neutral calls are none of the ten
		_ = r.call(0, Fail)
		r.requireState(Open)
	})
}

func TestFailureRateStartsAfreshWhenItCloses(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Failures: -1, Rate: 0.5, MinCalls: 10, OpenFor: time.Millisecond}}, func(t *testing.T, r *rig) {
		for range 10 {
			_ = r.call(0, Fail)
		}
		r.requireState(Open)
		r.advance(time.Millisecond) // the same second
		_ = r.call(0, OK)
		require.Zero(t, r.requireState(Closed).Window.Fail)
		_ = r.call(0, Fail)
		r.requireState(Closed)
	})
}

func TestSlowCallsOpenIt(t *testing.T) {
	s := Settings{Failures: -1, SlowCall: 2 * time.Second, SlowRate: 0.8, MinCalls: 5}
	onEach(t, rigOptions{settings: s}, func(t *testing.T, r *rig) {
		slow := func(d time.Duration) {
			p, _ := r.permit(0)
			p.Report(context.Background(), OK, d, "", "")
		}
		slow(time.Second)
		for range 3 {
			slow(2 * time.Second)
		}
		r.requireState(Closed)
		slow(3 * time.Second)
		require.Equal(t, ReasonSlow, r.requireState(Open).OpenReason)
		require.Equal(t, []string{"w0"}, r.events()[0].Evidence.Workers)
		r.advance(30 * time.Second)
		slow(5 * time.Second) // a slow probe is no proof of health
		r.requireState(Open)
		r.advance(30 * time.Second)
		slow(time.Second)
		r.requireState(Closed)
	})
}

func TestOpenTimeGrowsAndIsJittered(t *testing.T) {
	s := Settings{OpenFor: 10 * time.Second, Backoff: 2, OpenMax: 30 * time.Second, Jitter: 0.1}
	onEach(t, rigOptions{settings: s, rand: func() float64 { return 1 }}, func(t *testing.T, r *rig) {
		opened := r.trip(5)
		for _, want := range []time.Duration{11, 22, 33, 33} { // capped before the jitter
			s := r.requireState(Open)
			require.Equal(t, want*time.Second, s.OpenUntil.Sub(s.Since))
			r.advance(want * time.Second)
			require.Nil(t, r.call(0, Fail))
		}
		r.advance(time.Minute)
		require.Nil(t, r.call(0, OK))
		r.trip(5)
		s := r.snap()
		require.Equal(t, 11*time.Second, s.OpenUntil.Sub(s.Since), "closing starts the backoff again")
		require.NotEqual(t, opened.Epoch, s.Epoch)
	})
}

func TestBulkheadCountsCallsOfAllWorkers(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		r := newRig(t, kind, rigOptions{workers: 3, settings: Settings{MaxInFlight: 3, LeaseTTL: 20 * time.Second}})
		var held []Permit
		for w := range 3 {
			p, d := r.permit(w)
			require.Nil(t, d)
			held = append(held, p)
		}
		_, d := r.permit(0)
		require.Equal(t, DeniedSaturated, d.Reason)
		require.Positive(t, d.RetryAfter)
		require.Equal(t, 3, r.snap().InFlight)
		report(held[1], Neutral)
		p, d := r.permit(2)
		require.Nil(t, d)
		report(p, OK)
		// A killed process frees its slots at the lease's end.
		r.advance(20 * time.Second)
		require.Zero(t, r.snap().InFlight)
		for w := range 3 {
			_, d := r.permit(w)
			require.Nil(t, d)
		}
	}
}

func TestSaturatedCircuitKeepsItsProbe(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Failures: 1, MaxInFlight: 1, LeaseTTL: time.Hour}}, func(t *testing.T, r *rig) {
		long, _ := r.permit(0)
		r.advance(time.Second)
		_, d := r.permit(0)
		require.Equal(t, DeniedSaturated, d.Reason)
		report(long, Fail)
		r.requireState(Open)
		r.advance(30 * time.Second)
		p, d := r.permit(0)
		require.Nil(t, d)
		require.True(t, p.Probe())
	})
}

func TestRampAdmitsAGrowingRate(t *testing.T) {
	s := Settings{RampFor: 10 * time.Second, RampStart: 1, RampFull: 9}
	onEach(t, rigOptions{settings: s}, func(t *testing.T, r *rig) {
		for range 100 {
			require.Nil(t, r.call(0, OK), "a circuit that never opened has no ramp")
		}
		r.trip(5)
		r.advance(30 * time.Second)
		require.Nil(t, r.call(0, OK))
		admitted := make([]int, 10)
		for second := range 10 {
			for range 20 {
				if d := r.call(0, OK); d == nil {
					admitted[second]++
				} else {
					require.Equal(t, DeniedRamp, d.Reason)
					require.Positive(t, d.RetryAfter)
				}
				r.advance(50 * time.Millisecond)
			}
		}
		require.LessOrEqual(t, admitted[0], 3)
		require.Greater(t, admitted[9], admitted[1])
		total := 0
		for _, n := range admitted {
			total += n
		}
		require.InDelta(t, 50, total, 4, "the area under the ramp: (1+9)/2 × 10")
		for range 100 {
			require.Nil(t, r.call(0, OK), "the ramp is over")
		}
	})
}

func TestQuorumOfTwoWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{workers: 3, settings: rates})
	for range 10 {
		_ = r.call(0, OK)
	}
	for range 20 {
		_ = r.call(1, Fail)
	}
	r.requireState(Closed)
	require.Equal(t, KindBadWorker, r.events()[0].Kind)
	_ = r.call(2, Fail)
	require.Equal(t, ReasonRate, r.requireState(Open).OpenReason)
}
