package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/provider"
	"fusebox/store"
)

// webhookWorker applies inbox rows. Verification happened at receipt; the worker
// never looks at signatures or the time again.
type webhookWorker struct {
	river.WorkerDefaults[webhookArgs]
	r *Runner
}

// Work implements river.Worker. An event is applied once however often its job runs: its
// row says whether it was. What is plain is applied together with others, and River
// completes the job after that; else the completion commits with the change.
func (w *webhookWorker) Work(ctx context.Context, job *river.Job[webhookArgs]) error {
	if w.r.cfg.Store.ApplyTogether(ctx, job.Args.EventID, w.r.parser) {
		return nil
	}
	name, hint, err := w.r.cfg.Store.WebhookWork(ctx, job.Args.EventID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("jobs: webhook: %w", err)
	}
	l, ok := w.r.lanes[name]
	if !ok {
		return fmt.Errorf("jobs: webhook %d is of provider %q, which is not configured", job.Args.EventID, name)
	}
	if f, ok := provider.AsFetcher(l.adapter); ok && hint {
		return w.follow(ctx, job, l, f)
	}
	return w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := w.r.cfg.Store.ApplyWebhook(ctx, tx, job.Args.EventID, l.adapter.Parse); err != nil {
			return fmt.Errorf("jobs: apply webhook %d: %w", job.Args.EventID, err)
		}
		return complete(ctx, tx, job)
	})
}
