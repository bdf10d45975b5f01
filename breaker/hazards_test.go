package breaker

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestB01_OurOwnCancellationsAreNeutral(t *testing.T) {
	t.Parallel()
	errShutdown := errors.New("shutting down")
	cases := map[string]struct {
		end  func(context.Context) (context.Context, func())
		err  error
		want Verdict
	}{
		"cancelled with a cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errShutdown) }
		}, nil, Neutral},
		"a sibling failed": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(&net.OpError{Op: "read", Err: errors.New("reset")}) }
		}, nil, Neutral},
		"cancelled, yet the error is another": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(nil) }
		}, &net.OpError{Op: "read", Err: errors.New("connection reset")}, Neutral},
		"not cancelled, yet the error says so": {func(ctx context.Context) (context.Context, func()) {
			return ctx, func() {}
		}, context.Canceled, Fail},
		"attempt deadline": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
			cancel()
			return ctx, func() {}
		}, nil, Fail},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := c.end(context.Background())
			end()
			err := c.err
			if err == nil {
				err = ctx.Err()
			}
			require.Equal(t, c.want, judgeCall(ctx, err, nil))
		})
	}
}

func TestB01_TenChargesCancelledByShutdownThenADeadline(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Failures: 1}}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		for range 10 {
			_ = Do(ctx, r.workers[0], charge, func(ctx context.Context) error {
				defer cancel(errors.New("SIGTERM"))
				return errors.New("connection closed")
			}, nil)
		}
		r.requireState(Closed)
		err := Do(context.Background(), r.workers[0], charge, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "timeout", r.requireState(Open).LastError)
	})
}

func TestB02_KilledProbeHolderNeverLeavesItHalfOpen(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Probes: 2, Successes: 2, MinCalls: 5}}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.advance(30 * time.Second)
		first, _ := r.permit(0)
		_, _ = r.permit(0) // its process is killed
		report(first, OK)
		s := r.requireState(HalfOpen)
		require.Equal(t, 1, s.ProbesHeld)
		require.Contains(t, s.Probes[0].Token, "w0#", "the holder is shown")
		r.advance(6 * 24 * time.Hour) // six days
		for range 2 {
			require.Nil(t, r.call(0, OK))
		}
		r.requireState(Closed)
		// The first success was six days old: half-open had begun again.
		require.Contains(t, r.moves(), "half_open>half_open half_open_over")
	})
}

func TestB02_ImpossibleSettingsAreRefused(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Settings{Probes: 2, Successes: 5}.Validate(), "Probes (2) is below Successes (5)")
	require.ErrorContains(t, Settings{ProbeTTL: 2 * time.Minute}.Validate(), "HalfOpenFor is below ProbeTTL")
}

func TestB03_HalfOpenHerdGetsOneProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{workers: 5})
	r.trip(5)
	r.advance(30 * time.Second)
	granted := make(chan Permit, 50)
	denied := make(chan *Denied, 50)
	for i := range 50 {
		go func() {
			p, err := r.workers[i%5].Permit(context.Background(), charge)
			if d := (*Denied)(nil); errors.As(err, &d) {
				denied <- d
			} else {
				granted <- p
			}
		}()
	}
	for range 49 {
		require.Equal(t, DeniedProbing, (<-denied).Reason)
	}
	probe := <-granted
	require.True(t, probe.Probe())
	r.requireState(HalfOpen)
	report(probe, OK) // its outcome alone moves the state
	r.requireState(Closed)
}

func TestB05_DeclinesAndBadRequestsAreNeitherFailureNorHealth(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		for range 100 {
			_ = r.call(0, OK) // 402
			_ = r.call(0, Neutral)
		}
		require.Equal(t, "0", r.requireState(Closed).Epoch)
		for i := range 5 { // alternating 500 and 400: the 400 does not reset the run
			require.Equal(t, i, r.requireState(Closed).Consecutive)
			_ = r.call(0, Fail)
			_ = r.call(0, Neutral)
		}
		r.requireState(Open)
		r.advance(30 * time.Second)
		for range 2 { // a probe answered 400, then 401
			p, d := r.permit(0)
			require.Nil(t, d)
			require.True(t, p.Probe())
			report(p, Neutral)
			require.Zero(t, r.requireState(HalfOpen).ProbesHeld)
		}
		require.Nil(t, r.call(0, OK))
		r.requireState(Closed)
	})
}

func TestB06_OneSickWorkerIsNamedAndDoesNotOpenItForAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{workers: 3})
	_ = r.call(0, OK)
	_ = r.call(1, OK)
	for range 20 { // worker 2 alone gets NXDOMAIN
		p, d := r.permit(2)
		require.Nil(t, d)
		p.Report(context.Background(), Fail, time.Millisecond, "dns", "pay_9")
	}
	s := r.requireState(Closed)
	require.Equal(t, "w2", s.Recent[0].Worker)
	require.Equal(t, "dns", s.Recent[0].Class)
	events := r.events()
	require.Len(t, events, 1, "told once")
	require.Equal(t, KindBadWorker, events[0].Kind)
	require.Equal(t, Closed, events[0].To)
	require.Equal(t, "w2", events[0].Note)
	require.Equal(t, []string{"w2"}, events[0].Evidence.Workers)
	require.Contains(t, events[0].Evidence.Description, "only worker w2 sees failures")

	_ = r.call(1, Fail) // a second worker sees it
	require.Equal(t, []string{"w1", "w2"}, r.events()[1].Evidence.Workers)
	r.requireState(Open)
}

func TestB06_ALoneWorkerOpensItOnceTheOthersAreIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{workers: 2})
	_ = r.call(0, OK)
	for range 5 {
		_ = r.call(1, Fail)
	}
	r.requireState(Closed)
	r.advance(61 * time.Second)
	_ = r.call(1, Fail)
	r.requireState(Open)
}
