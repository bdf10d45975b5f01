package breaker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests of this file are the public failures of other breakers that ours must not
// share: one test per sentence of the list, on a real Redis, miniredis and Local.

func TestBugProbeThatHangsGivesItsSlotBackAtLeaseEnd(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(30 * time.Second)
		_, d := r.permit(0) // hangs: never reported
		require.Nil(t, d)
		r.advance(10*time.Second - time.Microsecond)
		_, d = r.permit(0)
		require.Equal(t, DeniedProbing, d.Reason)
		require.Equal(t, time.Microsecond, d.RetryAfter)
		r.advance(time.Microsecond)
		p, d := r.permit(0)
		require.Nil(t, d)
		require.True(t, p.Probe())
		report(p, OK)
		r.requireState(Closed)
	})
}

func TestBugProbeThatPanicsGivesItsSlotBack(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(30 * time.Second)
		require.PanicsWithValue(t, "boom", func() {
			_ = Do(context.Background(), r.workers[0], charge, func(context.Context) error { panic("boom") }, nil)
		})
		require.Zero(t, r.requireState(HalfOpen).ProbesHeld)
		require.Nil(t, r.call(0, OK))
		r.requireState(Closed)
	})
}

func TestBugProbeThatIsCancelledGivesItsSlotBack(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(30 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		err := Do(ctx, r.workers[0], charge, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		}, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, r.requireState(HalfOpen).ProbesHeld)
		require.Nil(t, r.call(0, OK))
		r.requireState(Closed)
	})
}

func TestBugSuccessOfTheClosedEraArrivingInHalfOpenIsIgnored(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		before, _ := r.permit(0)
		r.trip(5)
		r.advance(30 * time.Second)
		probe, _ := r.permit(0)
		report(before, OK)
		require.Equal(t, 1, r.requireState(HalfOpen).ProbesHeld)
		require.Equal(t, 1, r.snap().Total.Fenced)
		report(probe, Fail)
		r.requireState(Open)
	})
}

func TestBugExpiredHolderReportingLateIsIgnored(t *testing.T) {
	for _, v := range []Verdict{OK, Fail} {
		t.Run(string(v), func(t *testing.T) {
			onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
				r.trip(5)
				r.advance(30 * time.Second)
				expired, _ := r.permit(0)
				r.advance(10 * time.Second)
				report(expired, v) // nobody took its slot yet, but it is no longer its own
				r.requireState(HalfOpen)
				second, _ := r.permit(0)
				require.True(t, second.Probe())
				r.requireState(HalfOpen)
				report(second, OK)
				r.requireState(Closed)
			})
		})
	}
}

func TestBugHundredCancelledContextsChangeNothing(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		errShutdown := errors.New("shutting down")
		for range 100 {
			ctx, cancel := context.WithCancelCause(context.Background())
			err := Do(ctx, r.workers[0], charge, func(ctx context.Context) error {
				cancel(errShutdown)
				<-ctx.Done()
				return ctx.Err()
			}, nil)
			require.ErrorIs(t, err, context.Canceled)
		}
		s := r.requireState(Closed)
		require.Equal(t, "0", s.Epoch)
		require.Zero(t, s.Consecutive)
		require.Equal(t, Counts{Neutral: 100}, s.Total)
		require.True(t, r.workers[0].Degraded().IsZero())
	})
}

func TestBugThousandDeclinesStayClosed(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Rate: 0.5}}, func(t *testing.T, r *rig) {
		for range 1000 {
			require.Nil(t, r.call(0, OK)) // a decline is an answer
		}
		require.Equal(t, Counts{OK: 1000}, r.requireState(Closed).Total)
	})
}

func TestBugOpenTimeOverLeadsToHalfOpenNeverStraightToClosed(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		for range 10 {
			r.advance(24 * time.Hour)
			r.requireState(Open) // time alone moves nothing, a caller does
		}
		p, _ := r.permit(0)
		require.True(t, p.Probe())
		r.requireState(HalfOpen)
	})
}

func TestBugKeysDeletedWhileOpenAreRestored(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "miniredis"} {
		r := newRig(t, kind, rigOptions{})
		open := r.trip(5)
		for _, k := range r.workers[0].(*Redis).circuit(charge).keys {
			require.NoError(t, r.client.Del(context.Background(), k).Err())
		}
		require.Equal(t, Open, r.snap().State, "a look shows what is remembered")
		_, d := r.permit(0)
		require.NotNil(t, d, "the first call after the loss is refused already")
		require.Equal(t, DeniedOpen, d.Reason)
		s := r.requireState(Open)
		require.Equal(t, open.Epoch, s.Epoch)
		require.Equal(t, open.OpenUntil, s.OpenUntil)
		require.Equal(t, open.OpenReason, s.OpenReason)
		events := r.events()
		require.Len(t, events, 1, "the opening is told again: its event may be lost with the keys")
		require.Equal(t, "restored", events[0].Note)
		require.Equal(t, open.Epoch, events[0].Epoch, "consumers know it by its epoch")
	}
}

func TestBugKeysDeletedWhileFailuresAddUpAreRestored(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{})
	for range 4 {
		_ = r.call(0, Fail)
	}
	p, _ := r.permit(0)
	require.NoError(t, r.client.Del(context.Background(), r.workers[0].(*Redis).circuit(charge).keys[0]).Err())
	report(p, Fail)
	r.requireState(Open)
}

func TestBugFailoverThatLostTheLatestWritesIsRepaired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, "redis", rigOptions{})
	r.trip(5)
	r.advance(30 * time.Second)
	_ = r.call(0, OK)
	key := r.workers[0].(*Redis).circuit(charge).keys[0]
	old, err := r.client.Dump(ctx, key).Result()
	require.NoError(t, err)
	r.advance(time.Second)
	open := r.trip(5)
	require.NoError(t, r.client.RestoreReplace(ctx, key, 0, old).Err())
	_, d := r.permit(0)
	require.NotNil(t, d)
	require.Equal(t, open.Epoch, r.requireState(Open).Epoch)
}

func TestBugNewWorkerWhileOpenOnlyReads(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "miniredis"} {
		r := newRig(t, kind, rigOptions{})
		r.trip(5)
		before := r.snap()
		fresh := newRig(t, kind, rigOptions{client: r.client})
		require.Equal(t, before, fresh.snap())
		_, d := fresh.permit(0)
		require.Equal(t, DeniedOpen, d.Reason)
		require.Equal(t, before, fresh.snap())
		require.Len(t, r.events(), 1)
	}
}

func TestBugNewWorkerWhileFailuresAddUpKeepsTheCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{})
	for range 3 {
		_ = r.call(0, Fail)
	}
	fresh := newRig(t, "redis", rigOptions{client: r.client})
	require.Equal(t, 3, fresh.snap().Consecutive)
	_, d := fresh.permit(0)
	require.Nil(t, d)
	require.Equal(t, 3, fresh.snap().Consecutive)
}

func TestBugOneWorkersClockTenMinutesAheadChangesNoTransition(t *testing.T) {
	t.Parallel()
	var want []string
	for i, skew := range [][]time.Duration{{0, 0}, {10 * time.Minute, 0}, {0, -10 * time.Minute}} {
		r := newRig(t, "redis", rigOptions{workers: 2, skew: skew})
		for n := range 5 {
			_ = r.call(n%2, Fail)
		}
		r.advance(29 * time.Second)
		for w := range 2 {
			_, d := r.permit(w)
			require.Equal(t, time.Second, d.RetryAfter)
		}
		r.advance(time.Second)
		require.Nil(t, r.call(0, Fail))
		r.advance(30 * time.Second)
		require.Nil(t, r.call(1, OK))
		if got := r.moves(); i == 0 {
			want = got
			require.Len(t, want, 5)
		} else {
			require.Equal(t, want, got)
		}
	}
}

func TestBugFiftyWorkersTripItWithOneEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{workers: 50})
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			if p, _ := r.permit(w); p != nil {
				report(p, Fail)
			}
		})
	}
	wg.Wait()
	s := r.requireState(Open)
	events := r.events()
	require.Len(t, events, 1)
	require.Equal(t, s.Epoch, events[0].Epoch)
	require.Equal(t, 5, events[0].Evidence.Failures)
	require.Len(t, events[0].Evidence.Workers, 5)
	require.Equal(t, 0, r.requireState(Open).InFlight)
}

func TestBugOneFailureOfOneCallAtNightStaysClosed(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Rate: 0.5}}, func(t *testing.T, r *rig) {
		_ = r.call(0, Fail) // 100 % of the calls failed
		r.requireState(Closed)
		r.advance(4 * time.Hour)
		require.Nil(t, r.call(0, OK))
		require.Zero(t, r.requireState(Closed).Consecutive)
	})
}

func TestBugOneTimeoutAfterAnotherAtLowTrafficOpens(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Rate: 0.5}}, func(t *testing.T, r *rig) {
		for range 4 {
			_ = r.call(0, Fail)
			r.requireState(Closed)
			r.advance(3 * time.Hour) // no window forgets it
		}
		_ = r.call(0, Fail)
		r.requireState(Open)
	})
}

func TestBugFiftyWorkersWhenTheOpenTimeEndsGetExactlyTheAllowedProbes(t *testing.T) {
	t.Parallel()
	for _, allowed := range []int{1, 3} {
		r := newRig(t, "redis", rigOptions{workers: 50, settings: Settings{Probes: allowed}})
		r.trip(5)
		r.advance(30 * time.Second)
		var mu sync.Mutex
		probes, denied := 0, map[string]int{}
		var wg sync.WaitGroup
		for w := range 50 {
			wg.Go(func() {
				p, d := r.permit(w)
				mu.Lock()
				defer mu.Unlock()
				if p != nil && p.Probe() {
					probes++
				} else {
					denied[d.Reason]++
				}
			})
		}
		wg.Wait()
		require.Equal(t, allowed, probes)
		require.Equal(t, map[string]int{DeniedProbing: 50 - allowed}, denied)
		require.Len(t, r.requireState(HalfOpen).Probes, allowed)
	}
}

func TestBugADeniedCallReportsNothing(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		before := r.trip(5)
		called := false
		err := Do(context.Background(), r.workers[0], charge, func(context.Context) error {
			called = true
			return nil
		}, nil)
		var d *Denied
		require.ErrorAs(t, err, &d)
		require.False(t, called)
		require.Equal(t, before, r.snap())
	})
}

func TestReportingTwiceCountsOnce(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		p, _ := r.permit(0)
		for range 10 {
			report(p, Fail)
		}
		require.Equal(t, 1, r.requireState(Closed).Consecutive)
	})
}

// A failover to a server whose clock is an hour behind keeps nothing an hour longer.
func TestServersClockGoesBack(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{MaxInFlight: 2}}, func(t *testing.T, r *rig) {
		open := r.trip(5)
		r.advance(-time.Hour)
		_, d := r.permit(0)
		require.Equal(t, DeniedOpen, d.Reason)
		require.LessOrEqual(t, d.RetryAfter, 300*time.Second, "ten times OpenFor at most")
		r.advance(d.RetryAfter)
		_, d = r.permit(0) // hangs
		require.Nil(t, d)
		require.True(t, older(open.Epoch, r.requireState(HalfOpen).Epoch), "epochs grow all the same")
		r.advance(-time.Hour)
		p, d := r.permit(0)
		require.Nil(t, d)
		require.True(t, p.Probe())
		report(p, OK)
		r.requireState(Closed)
		for range 2 {
			_, d := r.permit(0)
			require.Nil(t, d)
		}
		r.advance(-time.Hour)
		_, d = r.permit(0)
		require.Nil(t, d, "leases of the faster clock do not fill the bulkhead")
	})
}
