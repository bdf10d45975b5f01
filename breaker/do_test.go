package breaker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDoReturnsWhatTheCallReturned(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		ctx, errCall := context.Background(), errors.New("refused")
		require.NoError(t, Do(ctx, r.workers[0], charge, func(context.Context) error { return nil }, nil))
		require.Equal(t, errCall, Do(ctx, r.workers[0], charge, func(context.Context) error { return errCall }, nil))
		require.Equal(t, Counts{OK: 1, Fail: 1}, r.snap().Total)
	})
}

func TestDoAsksTheCallersClassify(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		err := Do(context.Background(), r.workers[0], charge, func(context.Context) error { return errors.New("422") },
			func(err error) Verdict {
				require.EqualError(t, err, "422")
				return Neutral
			})
		require.EqualError(t, err, "422")
		require.Equal(t, Counts{Neutral: 1}, r.snap().Total)
	})
}

func TestDoWithAnEndedContextCallsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "local", rigOptions{})
	errStop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStop)
	err := Do(ctx, r.workers[0], charge, func(context.Context) error { panic("called") }, nil)
	require.Equal(t, errStop, err)
	require.Zero(t, r.snap().Total)
}

func TestDoReportsWhenTheGoroutineExits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "local", rigOptions{settings: Settings{MaxInFlight: 1}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Do(context.Background(), r.workers[0], charge, func(context.Context) error {
			runtime.Goexit() // what t.FailNow does
			return nil
		}, nil)
	}()
	<-done
	require.Zero(t, r.snap().InFlight)
	require.Equal(t, Counts{Neutral: 1}, r.snap().Total)
}

type classed struct{}

func (classed) Error() string      { return "gateway says no" }
func (classed) ErrorClass() string { return "gateway_502" }

type slowNet struct{}

func (slowNet) Error() string { return "i/o timeout" }
func (slowNet) Timeout() bool { return true }

func TestErrorClass(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":            nil,
		"gateway_502": fmt.Errorf("charge: %w", classed{}),
		"timeout":     fmt.Errorf("charge: %w", context.DeadlineExceeded),
		"canceled":    context.Canceled,
		"dns":         &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}},
		"dial":        &net.OpError{Op: "dial", Err: errors.New("refused")},
		"read":        &net.OpError{Op: "read", Err: errors.New("reset")},
		"error":       errors.New("timeout dial dns"), // text proves nothing
	} {
		require.Equal(t, want, ErrorClass(err))
	}
	require.Equal(t, "timeout", ErrorClass(&net.OpError{Op: "read", Err: slowNet{}}))
}

func TestDoOrFallsBack(t *testing.T) {
	onEach(t, rigOptions{settings: NonMoney()}, func(t *testing.T, r *rig) {
		ctx, calls := context.Background(), 0
		original := func(error) string { return "original" }
		translate := func(err error) string {
			return DoOr(ctx, r.workers[0], charge, 0, func(context.Context) (string, error) {
				calls++
				return "traduit", err
			}, original)
		}
		require.Equal(t, "traduit", translate(nil))
		for range 5 {
			require.Equal(t, "original", translate(errors.New("503")))
		}
		require.Equal(t, 6, calls)
		require.Equal(t, "original", translate(nil))
		require.Equal(t, 6, calls, "open: not called")
		r.advance(120 * time.Second)
		require.Equal(t, "traduit", translate(nil))
		r.requireState(Closed)
	})
}

func TestDoOrEndsACallAtItsTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, "local", rigOptions{settings: NonMoney()})
	got := DoOr(context.Background(), r.workers[0], charge, time.Millisecond, func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, func(cause error) string { return ErrorClass(cause) })
	require.Equal(t, "timeout", got)
	require.Equal(t, Counts{Fail: 1}, r.snap().Total)
}

func TestDoOrOfAVisitorWhoLeftIsNeutral(t *testing.T) {
	t.Parallel()
	r := newRig(t, "local", rigOptions{settings: NonMoney()})
	ctx, cancel := context.WithCancel(context.Background())
	DoOr(ctx, r.workers[0], charge, 0, func(ctx context.Context) (string, error) {
		cancel()
		return "", ctx.Err()
	}, func(error) string { return "" })
	require.Equal(t, Counts{Neutral: 1}, r.snap().Total)
}
