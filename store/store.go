// Package store keeps Fusebox's books in Postgres: payments and their attempts,
// the timeline, the webhook inbox, wallets, reconciliation runs and the audit log.
// Every way in (API, charge job, webhook, reconcile, sync, operator) meets in
// transitions.go, the only place that writes a payment's status.
package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Enqueuer inserts follow-up work in the transaction that made it necessary.
// Package jobs implements it with River. All inserts are unique where doubling
// would be noise: a second call for live work does nothing.
type Enqueuer interface {
	// Charge enqueues the charge job of a payment, to run at at (zero: now).
	Charge(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, provider string, at time.Time) error
	// QueueCharges enqueues, when b runs, the charge jobs of those of the payments that are
	// there then: b made them, or did not.
	QueueCharges(ctx context.Context, b *pgx.Batch, list []ChargeJob) error
	// Recharge enqueues the resend of an unknown payment's own key and bytes after
	// two counted absences (money-rules §6, on_absent: recharge).
	Recharge(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, provider string) error
	// Reconcile enqueues a lookup of a payment at at (zero: now).
	Reconcile(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, provider string, at time.Time) error
	// Operation enqueues the job that sends an operation (a refund) at at (zero: now).
	Operation(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, provider string, at time.Time) error
	// ReplayOperation enqueues the resend of an unknown operation's own key and bytes.
	ReplayOperation(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, provider string) error
	// OperationLookup enqueues a lookup of an operation at at (zero: now).
	OperationLookup(ctx context.Context, tx pgx.Tx, operationID uuid.UUID, provider string, at time.Time) error
	// Webhook enqueues the application of an inbox row.
	Webhook(ctx context.Context, tx pgx.Tx, eventID int64) error
	// QueueWebhooks enqueues, when b runs, the application of new inbox rows.
	QueueWebhooks(ctx context.Context, b *pgx.Batch, eventIDs []int64) error
	// Alert enqueues the delivery of a stored alert.
	Alert(ctx context.Context, tx pgx.Tx, alertID int64) error
	// Sync enqueues a reconciliation run of a provider.
	Sync(ctx context.Context, tx pgx.Tx, provider, triggeredBy string) error
	// Bulk enqueues the work on a bulk: what it asks one provider, or with an empty
	// provider what touches our books only.
	Bulk(ctx context.Context, tx pgx.Tx, bulkID uuid.UUID, provider string) error
}

// ChargeJob names a payment to charge.
type ChargeJob struct {
	PaymentID uuid.UUID
	Provider  string
}

// Store is the handle on the books. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	enq  Enqueuer
	now  func() time.Time
	log  *slog.Logger
	bell *bell

	wakeAt func(provider string, charges bool, i int) time.Duration

	creates  together[creating, Payment]
	begins   together[BeginParams, begunAttempt]
	finishes together[finishing, struct{}]
	reads    together[uuid.UUID, Chargeable]
	keys     together[string, APIKey]
	receives together[Delivery, int64]
	applies  together[applying, struct{}]

	noted notes
}

// Options of New. Zero values: real clock, slog.Default. Enqueuer may be nil only
// for callers that read.
type Options struct {
	Enqueuer Enqueuer
	Now      func() time.Time
	Log      *slog.Logger
	// WakeAt is when the i-th (from 0) of the payments that waited for a circuit comes
	// back after its closing, see WakeWaiting. nil: WakePace a second.
	WakeAt func(provider string, charges bool, i int) time.Duration
}

// New returns a store on pool.
func New(pool *pgxpool.Pool, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.WakeAt == nil {
		o.WakeAt = evenly
	}
	s := &Store{pool: pool, enq: o.Enqueuer, now: o.Now, log: o.Log, wakeAt: o.WakeAt, bell: &bell{pool: pool, log: o.Log}}
	s.creates.run, s.begins.run, s.finishes.run, s.reads.run = s.createTogether, s.beginTogether, s.finishTogether, s.readTogether
	s.begins.patient, s.finishes.patient, s.reads.patient, s.applies.patient = true, true, true, true
	s.receives.eager = true // a provider waits, and counts how long
	s.receives.run, s.applies.run, s.keys.run = s.receiveTogether, s.applyTogether, s.keysTogether
	return s
}

// enqueuer returns the enqueuer. A store made without one only reads: a write that
// needs follow-up work fails rather than losing it.
func (s *Store) enqueuer() Enqueuer {
	if s.enq == nil {
		return noEnqueuer{}
	}
	return s.enq
}

// Pool returns the pool, for River and for readers of other packages.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Now returns the store's clock in UTC, cut to microseconds as Postgres keeps it.
func (s *Store) Now() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
