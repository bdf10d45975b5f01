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

// replaysOperation reports whether a replay is this operation's way to the truth, see
// lane.replays. It is done to a charge whose id is known, so whoever answers questions by
// id is asked.
func (l *lane) replaysOperation(op store.Operation) bool {
	if op.Status != store.Unknown || op.Origin == store.OriginExternal || !l.canReplay() ||
		l.asks() && replaysOver(op.NeedsReview, op.StatusReason) {
		return false
	}
	for _, w := range l.adapter.Capabilities().Ways {
		switch {
		case w == provider.ReplayKey:
			return true
		case w == provider.WebhookOnly, !l.asks():
		default:
			return false
		}
	}
	return false
}

// replay queues the resend if the operation still needs one, and completes the job under
// the payment's row lock, see reconcileWorker.replay. ask: there is a question to put
// instead, and the job goes on.
func (w *operationLookupWorker) replay(ctx context.Context, job *river.Job[operationLookupArgs], l *lane) (ask bool, err error) {
	var again time.Time
	err = w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		again, ask, err = w.r.cfg.Store.ReplayOperation(ctx, tx, job.Args.OperationID, w.r.replayPolicy(l, l.asks()))
		if err != nil || ask || !again.IsZero() {
			return err
		}
		return complete(ctx, tx, job)
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("jobs: replay of an operation: %w", err)
	case !again.IsZero():
		return false, river.JobSnooze(max(again.Sub(w.r.cfg.Now()), 0))
	}
	return ask, nil
}
