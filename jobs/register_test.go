package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// Only limits the bulkheads a process works; the default queue it always works.
func TestOnlyLimitsTheBulkheads(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("alpha"), quick("beta"))
	b.start("w1", func(c *Config) { c.Only = []string{"beta"} })
	other := b.pay("alpha", nil)
	b.becomes(b.pay("beta", nil).ID, store.Succeeded)
	b.raiseAlert("default queue works")
	b.delivered()
	require.Equal(t, store.Pending, b.payment(other.ID).Status)
	require.Equal(t, "", b.attempts(other.ID))
	b.start("w2", func(c *Config) { c.Only = []string{"alpha"} })
	b.becomes(other.ID, store.Succeeded)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	for want, change := range map[string]func(*Config){
		"Only":            func(c *Config) { c.Only = []string{"nobody"} },
		"needs a Store":   func(c *Config) { c.Store = nil },
		"connect_timeout": func(c *Config) { c.Providers = []provider.Settings{{Name: "atlas", ConnectTimeout: time.Hour}} },
		"alert sink":      func(c *Config) { c.Sinks = []AlertSink{{Name: "x", Kind: "pager"}} },
	} {
		_, err := New(b.config("w1", change))
		require.ErrorContains(t, err, want)
	}
}

// Every process knows every kind and every periodic job, whatever it works: any may
// become the leader, and a leader discards stuck jobs of kinds it does not know.
func TestEveryProcessCanLead(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("alpha"), quick("beta"))
	r, err := New(b.config("w1", func(c *Config) { c.Only = []string{"beta"} }))
	require.NoError(t, err)
	budgets, err := CheckBudgets(b.settings, b.registry)
	require.NoError(t, err)
	c := r.riverConfig(budgets)
	require.Len(t, c.PeriodicJobs, 3, "the sweep and both syncs")
	require.Len(t, c.Queues, 3, "default and beta's two")
	require.Greater(t, c.RescueStuckJobsAfter, c.JobTimeout)
	require.Equal(t, budgets[0].JobTimeout, c.JobTimeout)
}

func TestAFreeWorkerSoonHasAJob(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int]time.Duration{1: 5 * time.Millisecond, 40: 5 * time.Millisecond, 128: 16 * time.Millisecond, 256: 32 * time.Millisecond, 900: 100 * time.Millisecond} {
		require.Equal(t, want, cooldown(workers), workers)
	}
}

// The cause tells a shutdown from a deadline; River's own cancellation counts as ours.
func TestCallContextCauses(t *testing.T) {
	t.Parallel()
	runner := func() *Runner {
		r := &Runner{}
		r.stopping, r.stopNow = context.WithCancelCause(context.Background())
		return r
	}
	ended := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	ctx, cancel := runner().callContext(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, ended(ctx), context.DeadlineExceeded)

	r := runner()
	ctx, cancel = r.callContext(context.Background(), time.Hour)
	defer cancel()
	r.stopNow(provider.ErrShutdown)
	require.ErrorIs(t, ended(ctx), provider.ErrShutdown)

	job, stop := context.WithCancelCause(context.Background())
	ctx, cancel = runner().callContext(job, time.Hour)
	defer cancel()
	stop(errors.New("stop initiated"))
	require.ErrorIs(t, ended(ctx), provider.ErrShutdown)
}

func TestAJobsOwnErrorsBackOffToAMinute(t *testing.T) {
	t.Parallel()
	row := &rivertype.JobRow{}
	for _, want := range []time.Duration{time.Second, 4 * time.Second, 9 * time.Second} {
		require.InDelta(t, want.Seconds(), time.Until(retryPolicy{}.NextRetry(row)).Seconds(), want.Seconds()*0.3)
		row.Errors = append(row.Errors, rivertype.AttemptError{})
	}
	row.Errors = make([]rivertype.AttemptError, 20)
	require.InDelta(t, 60, time.Until(retryPolicy{}.NextRetry(row)).Seconds(), 13)
}

func TestEachRunIsLoggedOnceAtItsEnd(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		`"level":"INFO","msg":"job done"`:     nil,
		`"level":"DEBUG","msg":"job snoozed"`: river.JobSnooze(time.Second),
		`"level":"ERROR","msg":"job failed"`:  errors.New("database away"),
		`"error":"database away"`:             errors.New("database away"),
		`"kind":"charge","job":7,"queue":"q"`: nil,
	} {
		var out bytes.Buffer
		m := &jobLog{log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		got := m.Work(context.Background(), &rivertype.JobRow{Kind: kindCharge, ID: 7, Queue: "q"}, func(context.Context) error { return err })
		require.Equal(t, err, got)
		require.Contains(t, out.String(), want)
		require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")))
	}
}
