package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

const (
	pageSize = 100
	// syncSlice is how long one run of a sync job pages before it lets lookups have the
	// worker; the cursor is persisted, so the next run goes on where it stopped.
	syncSlice = 10 * time.Second
	// exceptionPause is the wait after a failed page, times the failures so far.
	exceptionPause = 500 * time.Millisecond
	runPaused      = "paused"
)

// syncWorker pages through a provider's own list and compares it with our books.
type syncWorker struct {
	river.WorkerDefaults[syncArgs]
	r *Runner
}

// Timeout implements river.Worker.
func (w *syncWorker) Timeout(job *river.Job[syncArgs]) time.Duration {
	if l, ok := w.r.lanes[job.Args.Provider]; ok {
		return jobTimeout(l.settings)
	}
	return 0
}

// Work implements river.Worker.
func (w *syncWorker) Work(ctx context.Context, job *river.Job[syncArgs]) error {
	l, ok := w.r.lanes[job.Args.Provider]
	if !ok || !l.adapter.Capabilities().Listing {
		return nil // not configured any more, or nothing to list
	}
	run, err := w.r.cfg.Store.OpenRun(ctx, l.settings.Name, job.Args.TriggeredBy, l.settings.SyncOverlap)
	if err != nil {
		return fmt.Errorf("jobs: sync: %w", err)
	}
	if wait := w.pausedFor(run); wait > 0 {
		return river.JobSnooze(wait)
	}
	for end := w.r.cfg.Now().Add(syncSlice); w.r.cfg.Now().Before(end); {
		last, err := w.page(ctx, l, &run)
		if err != nil || last {
			return err
		}
	}
	return river.JobSnooze(0)
}

// pausedFor is how long the run still rests after too many exceptions.
func (w *syncWorker) pausedFor(run store.Run) time.Duration {
	if run.State != runPaused || run.PausedUntil == nil {
		return 0
	}
	return max(run.PausedUntil.Sub(w.r.cfg.Now()), 0)
}

// page fetches and records one page. A denied or failed page ends the job's run with
// a snooze; the cursor stays.
func (w *syncWorker) page(ctx context.Context, l *lane, run *store.Run) (last bool, err error) {
	page, took, err := w.fetch(ctx, l, *run)
	if d := denied(err); d != nil {
		return false, river.JobSnooze(w.r.backFrom(ctx, l, d))
	}
	if errors.Is(err, provider.ErrShutdown) {
		return false, river.JobSnooze(0)
	}
	write, cancel := store.Detached(ctx)
	defer cancel()
	if err != nil {
		return false, w.exception(write, l, run, page.Health, took, err)
	}
	last = page.Next == ""
	if *run, err = w.r.cfg.Store.RecordPage(write, run.ID, page, last); err != nil {
		return false, fmt.Errorf("jobs: record page: %w", err)
	}
	return last, w.record(write, l, page.Health, "page", "", took)
}

// fetch gets one page under the status circuit.
func (w *syncWorker) fetch(ctx context.Context, l *lane, run store.Run) (provider.Page, time.Duration, error) {
	permit, err := w.r.cfg.Breaker.Permit(ctx, breaker.Key{Name: l.settings.Name, Class: classStatus})
	if err != nil {
		return provider.Page{}, 0, err
	}
	report := context.WithoutCancel(ctx)
	defer permit.Report(report, breaker.Neutral, 0, "", "")
	call, cancel := w.r.callContext(ctx, lookupDeadline(l.settings))
	defer cancel()
	began := time.Now()
	page, err := l.adapter.List(call, provider.ListQuery{From: run.From, To: run.To, Cursor: run.Cursor, Limit: pageSize})
	took := time.Since(began)
	if err != nil && errors.Is(context.Cause(call), provider.ErrShutdown) {
		return page, took, provider.ErrShutdown
	}
	class := ""
	if err != nil {
		class = "list"
	}
	permit.Report(report, breaker.Verdict(page.Health), took, class, run.ID.String())
	return page, took, err
}

// exception counts a failed page. At the tenth in a row the store pauses the run; the
// same cursor resumes afterwards.
func (w *syncWorker) exception(ctx context.Context, l *lane, run *store.Run, v provider.Verdict, took time.Duration, cause error) error {
	after, err := w.r.cfg.Store.RecordSyncException(ctx, run.ID, cause.Error(), l.settings.SyncPause)
	if err != nil {
		return fmt.Errorf("jobs: sync exception (%w) not recorded: %w", cause, err)
	}
	if err := w.record(ctx, l, v, "exception", "list", took); err != nil {
		return err
	}
	if wait := w.pausedFor(after); wait > 0 {
		return river.JobSnooze(wait)
	}
	return river.JobSnooze(min(jitter(time.Duration(max(after.Exceptions, 1))*exceptionPause), l.settings.SyncPause))
}

func (w *syncWorker) record(ctx context.Context, l *lane, v provider.Verdict, outcome, reason string, took time.Duration) error {
	return w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return w.r.recordCall(ctx, tx, l, classStatus, v, outcome, reason, took, nil)
	})
}
