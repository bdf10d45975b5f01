package jobs

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
)

// stopNow stops a process with calls in flight.
func (b *bench) stopNow(r *Runner, grace time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	require.NoError(b.t, r.Stop(ctx))
}

// Shutdown during the wait: sent, so unknown; our own doing, so neutral; and the next
// process asks instead of sending.
func TestC16_StopDuringTheWaitLeavesUnknown(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AnswerTimeout = 30 * time.Second
	b := newBench(t, s)
	f := b.fakes["atlas"].on(hangs(true))
	r := b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.eventually("sent", func() (bool, string) { return len(f.seen()) == 1, "not sent" })
	began := time.Now()
	b.stopNow(r, 100*time.Millisecond)
	require.Less(t, time.Since(began), 5*time.Second)
	p = b.payment(p.ID)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, "1:unknown", b.attempts(p.ID))
	require.Equal(t, []breaker.Verdict{breaker.Neutral}, b.circuits.verdicts("atlas", classCharge))
	require.Equal(t, "shutdown_after_send", b.text(`SELECT error_class FROM attempts WHERE payment_id = $1`, p.ID))

	b.start("w2", nil)
	p = b.becomes(p.ID, store.Succeeded)
	require.Len(t, f.seen(), 1)
	require.Equal(t, 1, b.ledger(p))
}

// Shutdown before anything left: pending, and the next process sends it, once.
func TestB01_StopBeforeAnythingLeftStaysPending(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AnswerTimeout = 30 * time.Second
	b := newBench(t, s)
	f := b.fakes["atlas"].on(dialHangs, succeeds)
	r := b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.eventually("marked", func() (bool, string) { return b.attempts(p.ID) == "1:open", b.attempts(p.ID) })
	b.stopNow(r, 50*time.Millisecond)
	require.Equal(t, store.Pending, b.payment(p.ID).Status)
	require.Equal(t, []breaker.Verdict{breaker.Neutral}, b.circuits.verdicts("atlas", classCharge))

	b.start("w2", nil)
	p = b.becomes(p.ID, store.Succeeded)
	require.Len(t, f.seen(), 1)
	require.Equal(t, "1:not_sent 2:succeeded", b.attempts(p.ID))
}

// A stop with time enough lets the call finish.
func TestStopLetsRunningCallsFinish(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.fakes["atlas"].on(holds(entered, release, succeeds))
	r := b.start("w1", nil)
	p := b.pay("atlas", nil)
	<-entered
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	b.stopNow(r, 10*time.Second)
	require.Equal(t, store.Succeeded, b.payment(p.ID).Status)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE kind = 'charge' AND state = 'completed'`))
}

// The crash points, in process: whatever is lost between mark and commit, the payment
// ends settled with at most one charge. A killed process is cmd's test; here the
// goroutine dies and the connection state with it.
func TestC16_ACrashAtAnyPointChargesAtMostOnce(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]struct {
		status store.Status
		ledger int
	}{
		PointBeforeMark:  {store.Succeeded, 1},
		PointAfterMark:   {store.Failed, 0}, // nothing left: two absences past the horizon say so
		PointAfterSend:   {store.Succeeded, 1},
		PointAfterAnswer: {store.Succeeded, 1},
		PointAfterCommit: {store.Succeeded, 1},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick("atlas"))
			var once atomic.Bool
			b.start("w1", func(c *Config) {
				c.At = func(at, _ string) {
					if at == point && once.CompareAndSwap(false, true) {
						panic("crash at " + at)
					}
				}
			})
			p := b.pay("atlas", nil)
			p = b.becomes(p.ID, want.status)
			b.idle(kindCharge)
			require.True(t, once.Load())
			require.Equal(t, want.ledger, b.ledger(p))
			require.LessOrEqual(t, len(b.fakes["atlas"].seen()), 1)
		})
	}
}
