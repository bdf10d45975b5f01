package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/store"
)

var _ store.QueueSwitch = (*Enqueuer)(nil)

// PauseQueue implements store.QueueSwitch. A queue that no process worked yet gets its
// row here, so that the first one to come finds it paused.
func (e *Enqueuer) PauseQueue(ctx context.Context, tx pgx.Tx, queue string) error {
	const q = `INSERT INTO river_queue (name, created_at, updated_at) VALUES ($1, $2, $2) ON CONFLICT (name) DO NOTHING`
	if _, err := tx.Exec(ctx, q, queue, time.Now()); err != nil {
		return fmt.Errorf("jobs: pause %s: %w", queue, err)
	}
	if err := e.client.QueuePauseTx(ctx, tx, queue, nil); err != nil {
		return fmt.Errorf("jobs: pause %s: %w", queue, err)
	}
	return nil
}

// ResumeQueue implements store.QueueSwitch.
func (e *Enqueuer) ResumeQueue(ctx context.Context, tx pgx.Tx, queue string) error {
	if err := e.client.QueueResumeTx(ctx, tx, queue, nil); err != nil {
		return fmt.Errorf("jobs: resume %s: %w", queue, err)
	}
	return nil
}

// Client returns the insert-only River client, for pages that read the queue.
func (e *Enqueuer) Client() *river.Client[pgx.Tx] { return e.client }
