package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fusebox/store"
)

// Jobs is an Enqueuer for tests of the store: it writes what was asked for into a
// table of the test's database, in the caller's transaction, and does no work. Like
// the real one it keeps one live row per kind and subject.
type Jobs struct{ pool *pgxpool.Pool }

var _ store.Enqueuer = (*Jobs)(nil)

// NewJobs makes the table and returns the enqueuer.
func NewJobs(t testing.TB, db *DB) *Jobs {
	t.Helper()
	_, err := db.Pool.Exec(context.Background(), `CREATE TABLE test_jobs (kind text, subject text, at timestamptz, asked int NOT NULL DEFAULT 1, PRIMARY KEY (kind, subject))`)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return &Jobs{pool: db.Pool}
}

func put(ctx context.Context, tx pgx.Tx, kind, subject string, at time.Time) error {
	var when *time.Time
	if !at.IsZero() {
		when = &at
	}
	_, err := tx.Exec(ctx, `INSERT INTO test_jobs AS j (kind, subject, at) VALUES ($1, $2, $3)
		ON CONFLICT (kind, subject) DO UPDATE SET asked = j.asked + 1, at = excluded.at`, kind, subject, when)
	return err
}

// Charge implements store.Enqueuer.
func (*Jobs) Charge(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, _ string, at time.Time) error {
	return put(ctx, tx, "charge", paymentID.String(), at)
}

// QueueCharges implements store.Enqueuer.
func (*Jobs) QueueCharges(_ context.Context, b *pgx.Batch, list []store.ChargeJob) error {
	for _, j := range list {
		b.Queue(`INSERT INTO test_jobs (kind, subject) SELECT 'charge', id::text FROM payments WHERE id = $1`, j.PaymentID) // two are an error, as with River
	}
	return nil
}

// Recharge implements store.Enqueuer.
func (*Jobs) Recharge(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, _ string) error {
	return put(ctx, tx, "recharge", paymentID.String(), time.Time{})
}

// Reconcile implements store.Enqueuer.
func (*Jobs) Reconcile(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, _ string, at time.Time) error {
	return put(ctx, tx, "reconcile", paymentID.String(), at)
}

// Operation implements store.Enqueuer.
func (*Jobs) Operation(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, _ string, at time.Time) error {
	return put(ctx, tx, "operation", operationID.String(), at)
}

// ReplayOperation implements store.Enqueuer.
func (*Jobs) ReplayOperation(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, _ string) error {
	return put(ctx, tx, "operation_replay", operationID.String(), time.Time{})
}

// OperationLookup implements store.Enqueuer.
func (*Jobs) OperationLookup(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, _ string, at time.Time) error {
	return put(ctx, tx, "operation_lookup", operationID.String(), at)
}

// Webhook implements store.Enqueuer.
func (*Jobs) Webhook(ctx context.Context, tx pgx.Tx, eventID int64) error {
	return put(ctx, tx, "webhook", fmt.Sprint(eventID), time.Time{})
}

// QueueWebhooks implements store.Enqueuer.
func (*Jobs) QueueWebhooks(_ context.Context, b *pgx.Batch, eventIDs []int64) error {
	for _, id := range eventIDs {
		b.Queue(`INSERT INTO test_jobs (kind, subject) VALUES ('webhook', $1::bigint::text)`, id)
	}
	return nil
}

// Alert implements store.Enqueuer.
func (*Jobs) Alert(ctx context.Context, tx pgx.Tx, alertID int64) error {
	return put(ctx, tx, "alert", fmt.Sprint(alertID), time.Time{})
}

// Sync implements store.Enqueuer.
func (*Jobs) Sync(ctx context.Context, tx pgx.Tx, provider, _ string) error {
	return put(ctx, tx, "sync", provider, time.Time{})
}

// Bulk implements store.Enqueuer.
func (*Jobs) Bulk(ctx context.Context, tx pgx.Tx, bulkID uuid.UUID, provider string) error {
	return put(ctx, tx, "bulk", bulkID.String()+" "+provider, time.Time{})
}

// Asked returns how often a job was asked for: kind is charge, recharge, reconcile,
// operation, operation_replay, operation_lookup, webhook, alert or sync; subject the payment, operation,
// inbox row, alert or provider.
func (j *Jobs) Asked(t testing.TB, kind string, subject any) int {
	t.Helper()
	var n int
	err := j.pool.QueryRow(context.Background(), `SELECT coalesce(sum(asked), 0) FROM test_jobs WHERE kind = $1 AND subject = $2`,
		kind, fmt.Sprint(subject)).Scan(&n)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return n
}

// Live returns how many jobs of a kind there are.
func (j *Jobs) Live(t testing.TB, kind string) int {
	t.Helper()
	var n int
	if err := j.pool.QueryRow(context.Background(), `SELECT count(*) FROM test_jobs WHERE kind = $1`, kind).Scan(&n); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return n
}

// Clear forgets all jobs, as if they had been worked.
func (j *Jobs) Clear(t testing.TB) {
	t.Helper()
	if _, err := j.pool.Exec(context.Background(), `DELETE FROM test_jobs`); err != nil {
		t.Fatalf("storetest: %v", err)
	}
}
