package main

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/jobs"
	"fusebox/provider/simulator"
	"fusebox/store"
)

// TestCrashKillMinus9 kills a worker at each of five instructions of a charge, the
// worst ones, and lets another worker finish: one charge each, and it is ours.
func TestCrashKillMinus9(t *testing.T) {
	t.Parallel()
	points := []struct {
		point string
		// charges at the provider when the worker dies; -1: either, see jobs.PointAfterSend
		// (TestCrashWhileTheProviderIsSilent kills surely after the send).
		charges int
	}{
		{jobs.PointBeforeMark, 0},
		{jobs.PointAfterMark, 0},
		{jobs.PointAfterSend, -1},
		{jobs.PointAfterAnswer, 1},
		{jobs.PointAfterCommit, 1},
	}
	for _, p := range points {
		t.Run(p.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, place{}, "steady")
			payment := w.pay("steady", "crash")
			w.work("FUSEBOX_FAILPOINT="+p.point, "FUSEBOX_WORKER=doomed").killed(30 * time.Second)
			if p.charges >= 0 {
				require.Equal(t, p.charges, w.charges("steady", payment.ID))
			}
			w.survives(payment)
		})
	}
}

// survives lets another worker finish the payment of a dead one: paid, and once.
func (w *world) survives(payment store.Payment) {
	w.t.Helper()
	w.work("FUSEBOX_WORKER=survivor")
	// A job left "running" by a dead worker comes back with River's rescue, which has
	// to wait for the longest job there can be.
	got := w.settled(payment.ID, 3*time.Minute)
	require.Equal(w.t, store.Succeeded, got.Status)
	require.Equal(w.t, 1, w.charges("steady", payment.ID))
	w.clean()
}

// TestCrashWhileTheProviderIsSilent kills a worker after the provider booked the
// charge and before it said so.
func TestCrashWhileTheProviderIsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	payment := w.pay("steady", "fault:"+string(simulator.ChargedThenSilent))
	worker := w.work("PROVIDER_STEADY_ANSWER_TIMEOUT=20s", "FUSEBOX_WORKER=doomed")
	w.eventually(30*time.Second, "the provider booked it", func() bool { return w.charges("steady", payment.ID) == 1 })
	require.NoError(t, worker.cmd.Process.Kill())
	worker.killed(5 * time.Second)
	require.Equal(t, store.Pending, w.payment(payment.ID).Status, "nobody has read an answer")
	w.survives(payment)
}

// TestCrashTwice kills the worker again while it recovers.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	payment := w.pay("steady", "crash twice")
	w.work("FUSEBOX_FAILPOINT="+jobs.PointAfterAnswer, "FUSEBOX_FAILPOINT_ONCE="+filepath.Join(t.TempDir(), "once")).killed(30 * time.Second)
	second := w.work()
	w.eventually(30*time.Second, "the second worker found the payment", func() bool { return w.payment(payment.ID).Status != store.Pending })
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGKILL))
	second.killed(5 * time.Second)
	w.work()
	require.Equal(t, store.Succeeded, w.settled(payment.ID, 60*time.Second).Status)
	require.Equal(t, 1, w.charges("steady", payment.ID))
	w.clean()
}

// TestCrashShutdownDuringTheWait stops a worker politely while a charge hangs: the
// payment becomes unknown, never failed, and the next worker settles it.
func TestCrashShutdownDuringTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	payment := w.pay("steady", "fault:"+string(simulator.ChargedThenSilent))
	worker := w.work("FUSEBOX_STOP_GRACE=200ms", "PROVIDER_STEADY_ANSWER_TIMEOUT=8s")
	w.eventually(30*time.Second, "the charge is on its way", func() bool { return w.charges("steady", payment.ID) == 1 })
	require.NoError(t, worker.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, worker.exited(10*time.Second))
	require.Equal(t, store.Unknown, w.payment(payment.ID).Status)
	w.work()
	require.Equal(t, store.Succeeded, w.settled(payment.ID, 60*time.Second).Status)
	require.Equal(t, 1, w.charges("steady", payment.ID))
	w.clean()
}
