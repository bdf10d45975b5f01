package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/riverqueue/river"

	"fusebox/store"
)

// pruneBatch bounds one delete: a long one would hold locks and bloat the table.
const pruneBatch = 5000

// sweepWorker looks after everything the queue may have lost. It trusts rows.
type sweepWorker struct {
	river.WorkerDefaults[sweepArgs]
	r *Runner
}

// Work implements river.Worker. Each part runs whatever the others met.
func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[sweepArgs]) error {
	swept, err := w.r.cfg.Store.Sweep(ctx, store.SweepParams{
		UnknownAged: w.r.cfg.UnknownAged,
		AskAt: func(name string) bool {
			l, ok := w.r.lanes[name]
			return ok && l.asks()
		},
	})
	if err != nil {
		err = fmt.Errorf("jobs: sweep: %w", err)
	}
	if swept != (store.Swept{}) {
		w.r.cfg.Log.InfoContext(ctx, "sweep found work", "overdue", swept.Overdue,
			"requeued", swept.Requeued, "webhooks", swept.Webhooks, "aged", swept.Aged)
	}
	return errors.Join(err, w.r.compareCircuits(ctx), w.prune(ctx))
}

// prune deletes call outcomes older than Config.CallsKept, in batches.
func (w *sweepWorker) prune(ctx context.Context) error {
	const q = `
		DELETE FROM call_outcomes WHERE id IN (
			SELECT id FROM call_outcomes WHERE at < $1 ORDER BY at LIMIT $2)`
	before := w.r.cfg.Now().Add(-w.r.cfg.CallsKept)
	for {
		tag, err := w.r.cfg.Store.Pool().Exec(ctx, q, before, pruneBatch)
		if err != nil {
			return fmt.Errorf("jobs: prune call outcomes: %w", err)
		}
		if tag.RowsAffected() < pruneBatch {
			return nil
		}
	}
}
