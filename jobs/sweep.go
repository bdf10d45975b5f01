package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/provider"
	"fusebox/store"
)

const (
	// pruneBatch bounds one delete: a long one would hold locks and bloat the table.
	pruneBatch = 5000
	// alertGrace is how old an undelivered alert is before the sweep looks after it, and
	// alertKept how old before its news is stale. The console shows it either way.
	alertGrace = 2 * time.Minute
	alertKept  = 3 * 24 * time.Hour
)

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
		AskOperationAt: func(name string, kind provider.OperationKind) bool {
			l, ok := w.r.lanes[name]
			if ok {
				_, ok = l.operator(kind)
			}
			return ok
		},
		ReplayAt: func(name string) bool {
			l, ok := w.r.lanes[name]
			return ok && l.canReplay()
		},
	})
	if err != nil {
		err = fmt.Errorf("jobs: sweep: %w", err)
	}
	if swept != (store.Swept{}) {
		w.r.cfg.Log.InfoContext(ctx, "sweep found work", "overdue", swept.Overdue,
			"requeued", swept.Requeued, "webhooks", swept.Webhooks, "aged", swept.Aged)
	}
	return errors.Join(err, w.r.compareCircuits(ctx), w.r.webhookSilence(ctx), w.undelivered(ctx), w.prune(ctx), w.r.cfg.Store.SweepBulks(ctx),
		w.r.cfg.Store.SweepPauses(ctx), w.lapsing(ctx))
}

// lapseWarning is how long before a provider lets held money go people are told.
const lapseWarning = 6 * time.Hour

func (w *sweepWorker) lapsing(ctx context.Context) error {
	if _, err := w.r.cfg.Store.AlertLapsing(ctx, lapseWarning); err != nil {
		return fmt.Errorf("jobs: held money that lapses: %w", err)
	}
	return nil
}

// undelivered gives alerts that no sink has taken their job back: their tries were
// used up while a sink was down for hours, or the job was lost.
func (w *sweepWorker) undelivered(ctx context.Context) error {
	const q = `
		SELECT id FROM alerts WHERE delivered_at IS NULL AND created_at BETWEEN $1 AND $2
		ORDER BY id DESC LIMIT 200`
	now := w.r.cfg.Now()
	rows, err := w.r.cfg.Store.Pool().Query(ctx, q, now.Add(-alertKept), now.Add(-alertGrace))
	if err != nil {
		return fmt.Errorf("jobs: undelivered alerts: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("jobs: undelivered alerts: %w", err)
	}
	for _, id := range ids {
		if _, err := w.r.client.Insert(ctx, alertArgs{AlertID: id}, nil); err != nil {
			return fmt.Errorf("jobs: undelivered alert %d: %w", id, err)
		}
	}
	return nil
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
