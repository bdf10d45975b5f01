package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/provider"
	"fusebox/store"
)

const (
	kindBulk = "bulk"
	// bulkSlice is how long one run works before it queues again behind everything else:
	// a bulk never holds one of the few status workers for longer.
	bulkSlice = 2 * time.Second
	// checkBatch is how many dry runs are made between two looks at the clock.
	checkBatch = 20
)

// bulkArgs asks for the work on a bulk: what it asks one provider, or, with an empty
// provider, what touches our own books only.
type bulkArgs struct {
	BulkID   uuid.UUID `json:"bulk_id" river:"unique"`
	Provider string    `json:"provider" river:"unique"`
}

// Kind implements river.JobArgs.
func (bulkArgs) Kind() string { return kindBulk }

// InsertOpts implements river.JobArgsWithInsertOpts. In the queue it shares, a bulk
// yields to everything: lookups, syncs and events go first.
func (a bulkArgs) InsertOpts() river.InsertOpts {
	queue := river.QueueDefault
	if a.Provider != "" {
		queue = statusQueue(a.Provider)
	}
	return river.InsertOpts{Queue: queue, Priority: 4, UniqueOpts: unique()}
}

// bulkWorker works a frozen set item by item. Each item's outcome commits with its
// effect, so a worker killed at any moment costs at most one question asked again, and a
// cancel stops before the next item.
type bulkWorker struct {
	river.WorkerDefaults[bulkArgs]
	r *Runner
}

// Timeout implements river.Worker.
func (w *bulkWorker) Timeout(job *river.Job[bulkArgs]) time.Duration {
	if l, ok := w.r.lanes[job.Args.Provider]; ok {
		return jobTimeout(l.settings)
	}
	return 0
}

// Work implements river.Worker.
func (w *bulkWorker) Work(ctx context.Context, job *river.Job[bulkArgs]) error {
	b, err := w.r.cfg.Store.Bulk(ctx, job.Args.BulkID)
	if errors.Is(err, store.ErrNotFound) {
		return nil // a draft that nobody confirmed
	}
	if err != nil {
		return fmt.Errorf("jobs: bulk: %w", err)
	}
	switch {
	case b.State == store.BulkChecking:
		err = w.check(ctx, b)
	case b.State == store.BulkRunning:
		err = w.run(ctx, job)
	}
	return err
}

// check dry-runs a slice of the events.
func (w *bulkWorker) check(ctx context.Context, b store.Bulk) error {
	for end := time.Now().Add(bulkSlice); time.Now().Before(end) && ctx.Err() == nil && !w.r.stopped(); {
		left, err := w.r.cfg.Store.CheckBulkItems(ctx, b.ID, w.r.parser, checkBatch)
		if err != nil {
			return fmt.Errorf("jobs: check bulk: %w", err)
		}
		if left == 0 {
			return nil
		}
	}
	return river.JobSnooze(0)
}

// parser reads the events of a provider; nil without one.
func (r *Runner) parser(name string) store.ParseEvents {
	if l, ok := r.lanes[name]; ok {
		return l.adapter.Parse
	}
	return nil
}

// run works a slice of the items at the bulk's pace.
func (w *bulkWorker) run(ctx context.Context, job *river.Job[bulkArgs]) error {
	pace := time.Duration(0)
	if job.Args.Provider != "" {
		pace = time.Second / store.BulkPace
	}
	for end := time.Now().Add(bulkSlice); time.Now().Before(end) && !w.r.stopped(); {
		began := time.Now()
		it, err := w.r.cfg.Store.ClaimBulkItem(ctx, job.Args.BulkID, job.Args.Provider)
		if errors.Is(err, store.ErrNotFound) {
			return w.end(ctx, job)
		}
		if err != nil {
			return fmt.Errorf("jobs: bulk: %w", err)
		}
		asked, err := w.item(ctx, it)
		if err != nil {
			return err
		}
		if asked && !rest(ctx, pace-time.Since(began)) {
			break
		}
	}
	return river.JobSnooze(0)
}

// rest waits; false when the job is to stop.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// end closes the bulk when nothing is left, and comes back for what another worker has
// claimed: should it die, its item is free again after a while.
func (w *bulkWorker) end(ctx context.Context, job *river.Job[bulkArgs]) error {
	more, err := w.r.cfg.Store.EndBulk(ctx, job.Args.BulkID, job.Args.Provider)
	if err != nil {
		return fmt.Errorf("jobs: end bulk: %w", err)
	}
	if more {
		return river.JobSnooze(schedulerTick)
	}
	return nil
}

// item works one item. asked: it cost the provider something.
func (w *bulkWorker) item(ctx context.Context, it store.BulkItem) (asked bool, err error) {
	if it.EventID != 0 {
		parse := w.r.parser(it.Provider)
		if parse == nil {
			return false, w.skip(ctx, it, store.SkipNoProvider)
		}
		if err := w.r.cfg.Store.ReapplyBulkItem(ctx, it, parse); err != nil {
			return false, fmt.Errorf("jobs: reapply bulk item: %w", err)
		}
		return false, nil
	}
	return w.ask(ctx, it)
}

func (w *bulkWorker) skip(ctx context.Context, it store.BulkItem, why string) error {
	return w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return w.r.cfg.Store.FinishBulkItem(ctx, tx, it, store.OutcomeSkipped, why)
	})
}

// ask asks the provider about one payment, unless that could change nothing or move money.
func (w *bulkWorker) ask(ctx context.Context, it store.BulkItem) (bool, error) {
	l, ok := w.r.lanes[it.Provider]
	if !ok {
		return false, w.skip(ctx, it, store.SkipNoProvider)
	}
	found, err := w.r.cfg.Store.Chargeable(ctx, it.PaymentID)
	if errors.Is(err, store.ErrNotFound) {
		return false, w.skip(ctx, it, store.SkipGone)
	}
	if err != nil {
		return false, fmt.Errorf("jobs: bulk: %w", err)
	}
	p := found.Payment
	why, err := w.whyNot(ctx, l, p)
	if err != nil || why != "" {
		return false, errors.Join(err, w.skipIf(ctx, it, why))
	}
	looked, err := w.r.ask(ctx, l, p, historyOf(found))
	if err != nil {
		return false, w.notNow(ctx, l, it, err)
	}
	return true, w.record(ctx, l, it, p, looked)
}

func (w *bulkWorker) skipIf(ctx context.Context, it store.BulkItem, why string) error {
	if why == "" {
		return nil
	}
	return w.skip(ctx, it, why)
}

// whyNot is why a payment is not asked about; empty: it is.
func (w *bulkWorker) whyNot(ctx context.Context, l *lane, p store.Payment) (string, error) {
	switch {
	case p.Status == store.Pending:
		return store.SkipUnsent, nil
	case !needsLookup(p):
		return store.SkipSettled, nil
	case l.replays(p) || l.canReplay() && !l.canAskAbout(p):
		return store.SkipResend, nil // a money call; this action promised that none is made
	case !l.asks() || !l.canAskAbout(p):
		return store.SkipNoWay, nil
	}
	lately, err := w.r.cfg.Store.AskedSince(ctx, p.ID, w.r.cfg.Now().Add(-store.AskedLately))
	if lately {
		return store.SkipLately, err
	}
	return "", err
}

// notNow gives the item back: the circuit is open, the bulkhead full, or we stop.
func (w *bulkWorker) notNow(ctx context.Context, l *lane, it store.BulkItem, err error) error {
	release, cancel := store.Detached(ctx)
	defer cancel()
	d := denied(err)
	if d == nil {
		again := w.r.cfg.Store.ReleaseBulkItem(release, it, time.Time{})
		if errors.Is(err, provider.ErrShutdown) {
			return errors.Join(again, river.JobSnooze(0))
		}
		return errors.Join(err, again)
	}
	after := max(w.r.backFrom(ctx, l, d), time.Second)
	if err := w.r.cfg.Store.ReleaseBulkItem(release, it, w.r.cfg.Now().Add(after)); err != nil {
		return fmt.Errorf("jobs: bulk waits: %w", err)
	}
	return river.JobSnooze(after)
}

// record writes the answer and the item's outcome together.
func (w *bulkWorker) record(ctx context.Context, l *lane, it store.BulkItem, p store.Payment, looked provider.LookedUp) error {
	write, cancel := store.Detached(ctx)
	defer cancel()
	err := w.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		after, err := w.r.cfg.Store.RecordLookup(ctx, tx, p.ID, looked, w.r.policyAfter(l, p, looked), store.System(kindReconcile))
		if err != nil {
			return err
		}
		if err := w.r.recordLookupCall(ctx, tx, l, p.ID, looked); err != nil {
			return err
		}
		return w.r.cfg.Store.FinishBulkItem(ctx, tx, it, outcomeOf(p, after), after.StatusReason)
	})
	if err != nil {
		return fmt.Errorf("jobs: record bulk lookup: %w", err)
	}
	return nil
}

// outcomeOf says in one word what an answer made of a payment.
func outcomeOf(before, after store.Payment) string {
	added := slices.ContainsFunc(after.NeedsReview, func(reason string) bool {
		return reason != store.ReviewAged && !slices.Contains(before.NeedsReview, reason)
	})
	switch {
	case added:
		return store.OutcomeConflict
	case after.Status == store.Succeeded:
		return store.OutcomePaid
	case after.Status == store.Failed:
		return store.OutcomeFailed
	}
	return store.OutcomeUnknown
}
