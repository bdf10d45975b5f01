package breaker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLifeOfACircuit(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		require.Equal(t, "0", r.requireState(Closed).Epoch)
		open := r.trip(5)
		require.Equal(t, ReasonConsecutive, open.OpenReason)
		require.Equal(t, "timeout", open.LastError)
		require.WithinDuration(t, epochStart.Add(30*time.Second), open.OpenUntil, 0)

		_, d := r.permit(0)
		require.Equal(t, DeniedOpen, d.Reason)
		require.Equal(t, 30*time.Second, d.RetryAfter)
		require.WithinDuration(t, epochStart.Add(30*time.Second), d.Until, 0)

		r.advance(30 * time.Second)
		probe, d := r.permit(0)
		require.Nil(t, d)
		require.True(t, probe.Probe())
		require.Equal(t, 1, r.requireState(HalfOpen).ProbesHeld)
		_, d = r.permit(0)
		require.Equal(t, DeniedProbing, d.Reason)

		report(probe, OK)
		closed := r.requireState(Closed)
		require.Zero(t, closed.Consecutive)
		require.True(t, older(open.Epoch, closed.Epoch))
		require.Equal(t, []string{"closed>open consecutive_failures", "open>half_open open_time_over",
			"half_open>closed probes_succeeded"}, r.moves())
	})
}

func TestFailedProbeOpensAgain(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(31 * time.Second)
		require.Nil(t, r.call(0, Fail))
		s := r.requireState(Open)
		require.Equal(t, ReasonProbeFailed, s.OpenReason)
		require.Equal(t, 1, s.Reopens)
	})
}

func TestEvidenceOfAnOpening(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Failures: 3}}, func(t *testing.T, r *rig) {
		for i, class := range []string{"timeout", "dial", "timeout"} {
			p, _ := r.permit(0)
			p.Report(context.Background(), Fail, time.Second, class, "pay_"+string(rune('a'+i)))
		}
		events := r.events()
		require.Len(t, events, 1)
		e := events[0]
		require.Equal(t, charge, e.Key)
		require.Equal(t, r.snap().Epoch, e.Epoch)
		require.Equal(t, 3, e.Evidence.Failures)
		require.Equal(t, map[string]int{"timeout": 2, "dial": 1}, e.Evidence.ErrorClass)
		require.Equal(t, []string{"w0"}, e.Evidence.Workers)
		require.Equal(t, []string{"pay_c", "pay_b", "pay_a"}, e.Evidence.Samples)
		require.Contains(t, e.Evidence.Settings, "failures=3")
		require.Contains(t, e.Evidence.Settings, "open_for=30s")
		require.Equal(t, "3 failures in a row: timeout × 2, dial × 1 from 1 worker", e.Evidence.Description)
		require.WithinDuration(t, epochStart, e.At, 0)
	})
}

func TestFailuresInAWindowOpenWithSuccessesBetween(t *testing.T) {
	onEach(t, rigOptions{settings: NonMoney()}, func(t *testing.T, r *rig) {
		for range 4 {
			_ = r.call(0, Fail)
			_ = r.call(0, OK)
			r.advance(time.Second)
		}
		r.advance(57 * time.Second) // the first two are older than 60 s now
		_ = r.call(0, Fail)
		r.requireState(Closed)
		_ = r.call(0, Fail)
		s := r.requireState(Open)
		require.Equal(t, ReasonWindow, s.OpenReason)
		require.Equal(t, 120*time.Second, s.OpenUntil.Sub(s.Since))
	})
}

func TestResetIsCompareAndSet(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		ctx := context.Background()
		open := r.trip(5)
		_, err := r.workers[0].Reset(ctx, charge, "0", "ana", "stale page")
		require.ErrorIs(t, err, ErrEpoch)
		r.requireState(Open)
		s, err := r.workers[0].Reset(ctx, charge, open.Epoch, "ana", "provider confirmed")
		require.NoError(t, err)
		require.Equal(t, Closed, s.State)
		_, err = r.workers[0].Reset(ctx, charge, open.Epoch, "ben", "second click")
		require.ErrorIs(t, err, ErrEpoch)
		last := r.events()[1]
		require.Equal(t, ReasonReset, last.Reason)
		require.Equal(t, "ana", last.Actor)
		require.Equal(t, "reset by ana: provider confirmed", last.Evidence.Description)
	})
}

func TestSnapshotChangesNothing(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(time.Hour)
		before := r.requireState(Open)
		for range 5 {
			require.Equal(t, before, r.requireState(Open))
		}
		require.Len(t, r.events(), 1)
	})
}

func TestSeveralProbesAndSuccesses(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Probes: 3, Successes: 2}}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(31 * time.Second)
		var probes []Permit
		for range 3 {
			p, d := r.permit(0)
			require.Nil(t, d)
			probes = append(probes, p)
		}
		_, d := r.permit(0)
		require.Equal(t, DeniedProbing, d.Reason)
		report(probes[0], OK)
		r.requireState(HalfOpen)
		report(probes[1], OK)
		closed := r.requireState(Closed)
		report(probes[2], Fail) // of the era before
		require.Equal(t, closed.Epoch, r.requireState(Closed).Epoch)
		require.Zero(t, r.snap().Consecutive)
	})
}

func TestConcurrentCallsLoseNoCount(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 100} {
		r := newRig(t, "redis", rigOptions{workers: 4, settings: Settings{Failures: -1, Rate: 1, MinCalls: 1e6, MaxInFlight: limit}})
		var wg sync.WaitGroup
		for w := range 4 {
			for range 8 {
				wg.Go(func() {
					for i := range 25 {
						_ = r.call(w, []Verdict{OK, Fail, Neutral}[i%3])
					}
				})
			}
		}
		wg.Wait()
		s := r.snap()
		require.Equal(t, Counts{OK: 288, Fail: 256, Neutral: 256}, s.Total)
		require.Equal(t, s.Total, s.Window)
		require.Len(t, s.Workers, 4)
		require.Zero(t, s.InFlight)
	}
}
