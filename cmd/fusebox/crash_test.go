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
		// charged is whether the provider has the charge when the worker dies.
		charged bool
	}{
		{jobs.PointBeforeMark, false},
		{jobs.PointAfterMark, false},
		{jobs.PointAfterSend, true},
		{jobs.PointAfterAnswer, true},
		{jobs.PointAfterCommit, true},
	}
	for _, p := range points {
		t.Run(p.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, place{}, "steady")
			payment := w.pay("steady", "crash")
			w.work("FUSEBOX_FAILPOINT="+p.point, "FUSEBOX_WORKER=doomed").killed(30 * time.Second)
			if p.charged {
				w.eventually(5*time.Second, "the provider booked it", func() bool { return w.charges("steady", payment.ID) == 1 })
			}
			w.work("FUSEBOX_WORKER=survivor")
			// A job left "running" by a dead worker comes back with River's rescue, which
			// has to wait for the longest job there can be.
			got := w.settled(payment.ID, 3*time.Minute)
			require.Equal(t, store.Succeeded, got.Status)
			require.Equal(t, 1, w.charges("steady", payment.ID))
			w.clean()
		})
	}
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
