package breaker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLocalCircuitsAreApart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := NewLocal(Options{Settings: func(Key) Settings { return Settings{Failures: 1} }})
	status := Key{Name: charge.Name, Class: "status"}
	p, err := l.Permit(ctx, charge)
	require.NoError(t, err)
	report(p, Fail)
	_, err = l.Permit(ctx, charge)
	require.Error(t, err)
	_, err = l.Permit(ctx, status)
	require.NoError(t, err, "lookups flow while charges are blocked")
}

func TestLocalUnderRace(t *testing.T) {
	t.Parallel()
	l := NewLocal(Options{Settings: func(Key) Settings { return Settings{Failures: 3, OpenFor: time.Microsecond, MaxInFlight: 4} }})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				if p, err := l.Permit(context.Background(), charge); err == nil {
					report(p, []Verdict{OK, Fail, Fail, Neutral}[i%4])
				}
				_, _ = l.Snapshot(context.Background(), charge)
			}
		})
	}
	wg.Wait()
	s, err := l.Snapshot(context.Background(), charge)
	require.NoError(t, err)
	require.Zero(t, s.InFlight)
}

// A jump of this process's clock during an outage is bounded when Redis comes back.
func TestRestoredOpenTimeIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{})
	b := r.workers[0].(*Redis)
	v := unseen()
	v.epoch, v.state, v.til, v.why = "1", Open, r.now.Load()+int64(1000*time.Hour/time.Microsecond), ReasonConsecutive
	b.circuit(charge).seen.Store(&v)
	_, d := r.permit(0)
	require.Equal(t, DeniedOpen, d.Reason)
	require.LessOrEqual(t, d.RetryAfter, 300*time.Second, "ten times OpenFor at most")
}
