package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"fusebox/store"
)

// schedulerTick is how often River's leader moves scheduled jobs to available. A
// wait shorter than it is made available at once with its time in the future, as
// River itself does with short snoozes; otherwise it would take up to a tick longer.
const schedulerTick = 5 * time.Second

// tellEvery is how often at most the workers of a queue are told of new jobs by one
// process. River's own 100 ms would be most of what a charge takes; each telling holds a
// lock of the whole server until its transaction is committed.
const tellEvery = 20 * time.Millisecond

// Enqueuer implements store.Enqueuer with an insert-only River client.
type Enqueuer struct {
	client *river.Client[pgx.Tx]
	pool   *pgxpool.Pool
	now    func() time.Time
}

var _ store.Enqueuer = (*Enqueuer)(nil)

// NewEnqueuer returns an enqueuer on pool. It only inserts, so every process that
// writes payments can have one without working any queue.
func NewEnqueuer(pool *pgxpool.Pool, log *slog.Logger) (*Enqueuer, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: log, FetchCooldown: tellEvery})
	if err != nil {
		return nil, fmt.Errorf("jobs: enqueuer: %w", err)
	}
	return &Enqueuer{client: client, pool: pool, now: time.Now}, nil
}

// UseClock sets the clock that the times of jobs are of, by default the machine's. It is
// called before the first job.
func (e *Enqueuer) UseClock(now func() time.Time) { e.now = now }

// Charge implements store.Enqueuer.
func (e *Enqueuer) Charge(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, provider string, at time.Time) error {
	return e.insert(ctx, tx, chargeArgs{PaymentID: paymentID, Provider: provider}, at)
}

// QueueCharges implements store.Enqueuer. The payments are new, so no job can be there.
func (e *Enqueuer) QueueCharges(ctx context.Context, b *pgx.Batch, list []store.ChargeJob) error {
	params := make([]river.InsertManyParams, len(list))
	for i, j := range list {
		params[i].Args = chargeArgs{PaymentID: j.PaymentID, Provider: j.Provider}
	}
	return e.queue(ctx, b, params, `EXISTS (SELECT FROM payments p WHERE p.id = (v.args ->> 'payment_id')::uuid)`)
}

// queue inserts new jobs of one kind when b runs, those of them for which where holds of
// v.args.
func (e *Enqueuer) queue(ctx context.Context, b *pgx.Batch, params []river.InsertManyParams, where string) error {
	if len(params) == 0 {
		return nil
	}
	q := queued{pool: e.pool}
	if _, err := e.client.InsertManyFastTx(ctx, &q, params); err != nil {
		return fmt.Errorf("jobs: insert %s: %w", params[0].Args.Kind(), err)
	}
	return q.queue(b, where)
}

// Recharge implements store.Enqueuer.
func (e *Enqueuer) Recharge(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, provider string) error {
	return e.insert(ctx, tx, chargeArgs{PaymentID: paymentID, Provider: provider, Recharge: true}, time.Time{})
}

// Reconcile implements store.Enqueuer.
func (e *Enqueuer) Reconcile(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, provider string, at time.Time) error {
	return e.insert(ctx, tx, reconcileArgs{PaymentID: paymentID, Provider: provider}, at)
}

// Operation implements store.Enqueuer.
func (e *Enqueuer) Operation(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, provider string, at time.Time) error {
	return e.insert(ctx, tx, operationArgs{OperationID: operationID, Provider: provider}, at)
}

// ReplayOperation implements store.Enqueuer.
func (e *Enqueuer) ReplayOperation(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, provider string) error {
	return e.insert(ctx, tx, operationArgs{OperationID: operationID, Provider: provider, Replay: true}, time.Time{})
}

// OperationLookup implements store.Enqueuer.
func (e *Enqueuer) OperationLookup(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, provider string, at time.Time) error {
	return e.insert(ctx, tx, operationLookupArgs{OperationID: operationID, Provider: provider}, at)
}

// Webhook implements store.Enqueuer.
func (e *Enqueuer) Webhook(ctx context.Context, tx pgx.Tx, eventID int64) error {
	return e.insert(ctx, tx, webhookArgs{EventID: eventID}, time.Time{})
}

// QueueWebhooks implements store.Enqueuer. The rows are new, so no job can be there.
func (e *Enqueuer) QueueWebhooks(ctx context.Context, b *pgx.Batch, eventIDs []int64) error {
	params := make([]river.InsertManyParams, len(eventIDs))
	for i, id := range eventIDs {
		params[i].Args = webhookArgs{EventID: id}
	}
	return e.queue(ctx, b, params, `true`)
}

// Alert implements store.Enqueuer.
func (e *Enqueuer) Alert(ctx context.Context, tx pgx.Tx, alertID int64) error {
	return e.insert(ctx, tx, alertArgs{AlertID: alertID}, time.Time{})
}

// Sync implements store.Enqueuer.
func (e *Enqueuer) Sync(ctx context.Context, tx pgx.Tx, provider, triggeredBy string) error {
	return e.insert(ctx, tx, syncArgs{Provider: provider, TriggeredBy: triggeredBy}, time.Time{})
}

// Bulk implements store.Enqueuer.
func (e *Enqueuer) Bulk(ctx context.Context, tx pgx.Tx, bulkID uuid.UUID, provider string) error {
	return e.insert(ctx, tx, bulkArgs{BulkID: bulkID, Provider: provider}, time.Time{})
}

// insert adds a job to run at at (zero or past: now) in tx. For live work it
// inserts nothing, but pulls a job that waits for a later time forward: a person's
// "check now" must not wait for tomorrow's lookup.
func (e *Enqueuer) insert(ctx context.Context, tx pgx.Tx, args river.JobArgs, at time.Time) error {
	wait := at.Sub(e.now())
	opts := &river.InsertOpts{}
	if wait > 0 {
		opts.ScheduledAt = at
	}
	res, err := e.client.InsertTx(ctx, tx, args, opts)
	if err != nil {
		return fmt.Errorf("jobs: insert %s: %w", args.Kind(), err)
	}
	if res.UniqueSkippedAsDuplicate || (wait > 0 && wait <= schedulerTick) {
		return pullForward(ctx, tx, res.Job.ID, wait)
	}
	return nil
}

// pullForward makes a waiting job run after wait, if that is earlier than planned.
// Running and finished jobs are left alone.
func pullForward(ctx context.Context, tx pgx.Tx, jobID int64, wait time.Duration) error {
	wait = max(wait, 0)
	const q = `
		UPDATE river_job
		SET scheduled_at = least(scheduled_at, now() + make_interval(secs => $2)),
		    state = CASE WHEN $3 THEN 'available'::river_job_state ELSE state END
		WHERE id = $1 AND state IN ('scheduled', 'retryable', 'available')`
	if _, err := tx.Exec(ctx, q, jobID, wait.Seconds(), wait <= schedulerTick); err != nil {
		return fmt.Errorf("jobs: pull job %d forward: %w", jobID, err)
	}
	return nil
}
