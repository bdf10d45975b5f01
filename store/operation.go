package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// Operation is something done to a charge that exists: a refund, a capture, a void. It
// has statuses of its own (all of a payment's but requires_action) and never changes
// the payment's. Amount is in minor units.
type Operation struct {
	ID                uuid.UUID
	PaymentID         uuid.UUID
	Kind              provider.OperationKind
	Seq               int    // of its kind, from 1
	Origin            string // OriginAPI, OriginConsole, OriginExternal
	ClientID          string // empty when external
	IdempotencyKey    string // a client's key, or a person's one-time action id
	OperationKey      string // the key sent to the provider; empty when external
	Provider          string
	ProviderPaymentID string // the charge it is done to, frozen
	Amount            int64
	Currency          string
	Beyond            int64 // the part the provider gave back although nothing was left of the charge
	Status            Status
	StatusReason      string
	StatusEvidence    string
	NeedsReview       []string
	ProviderObjectID  string
	ProviderMessage   string // hostile text
	NextCheckAt       *time.Time
	NextCheckWhy      string
	Lookups           int
	AbsentLookups     int
	UnknownSince      *time.Time
	UnknownSeen       bool
	Reason            string // in the words of whoever asked
	RequestedBy       string // Actor.String
	WalletWaived      bool   // a person let the wallet keep what it could not give back
	Version           int64
	CreatedAt         time.Time
	UpdatedAt         time.Time
	SettledAt         *time.Time
}

// Origins of an operation.
const (
	OriginAPI      = "api"
	OriginConsole  = "console"
	OriginExternal = "external" // made at the provider, and learnt from its event, list or lookup
)

// OperationStatuses lists the statuses of operations in the order screens show them.
var OperationStatuses = []Status{Unknown, Pending, Processing, Succeeded, Failed}

// Money returns the operation's amount and currency.
func (o Operation) Money() provider.Money {
	return provider.Money{Amount: o.Amount, Currency: o.Currency}
}

// AttemptName is the operation's name among its payment's attempts.
func (o Operation) AttemptName() string { return fmt.Sprintf("%s:%d", o.Kind, o.Seq) }

func (o Operation) refund() bool { return o.Kind == provider.OpRefund }

// event names a timeline event of the operation.
func (o Operation) event(what string) string { return string(o.Kind) + "_" + what }

// childKey is the idempotency key of an operation at the provider: its own, the same
// for every attempt, and never the client's.
func childKey(kind provider.OperationKind, id uuid.UUID) string {
	return string(kind) + "-" + id.String()
}

const operationColumns = `id, payment_id, kind, seq, origin, coalesce(client_id, ''), coalesce(idempotency_key, ''),
	coalesce(operation_key, ''), provider, provider_payment_id, amount, currency, beyond, status, status_reason, status_evidence,
	needs_review, coalesce(provider_object_id, ''), provider_message, next_check_at, next_check_why, lookups, absent_lookups,
	unknown_since, unknown_seen, reason, requested_by, wallet_waived, version, created_at, updated_at, settled_at`

func scanOperation(row pgx.Row) (o Operation, err error) {
	err = row.Scan(&o.ID, &o.PaymentID, &o.Kind, &o.Seq, &o.Origin, &o.ClientID, &o.IdempotencyKey,
		&o.OperationKey, &o.Provider, &o.ProviderPaymentID, &o.Amount, &o.Currency, &o.Beyond, &o.Status, &o.StatusReason, &o.StatusEvidence,
		&o.NeedsReview, &o.ProviderObjectID, &o.ProviderMessage, &o.NextCheckAt, &o.NextCheckWhy, &o.Lookups, &o.AbsentLookups,
		&o.UnknownSince, &o.UnknownSeen, &o.Reason, &o.RequestedBy, &o.WalletWaived, &o.Version, &o.CreatedAt, &o.UpdatedAt, &o.SettledAt)
	if err != nil {
		return Operation{}, err
	}
	return o, nil
}

func rowToOperation(row pgx.CollectableRow) (Operation, error) { return scanOperation(row) }

// reader is a pool or a transaction.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// operationsOf reads a payment's operations of one kind, or of all with kind empty, in
// the order they were made.
func operationsOf(ctx context.Context, q reader, paymentID uuid.UUID, kind provider.OperationKind) ([]Operation, error) {
	rows, err := q.Query(ctx, `SELECT `+operationColumns+` FROM operations
		WHERE payment_id = $1 AND (kind = $2 OR $2 = '') ORDER BY created_at, id`, paymentID, kind)
	if err != nil {
		return nil, wrap(err, "read operations")
	}
	list, err := pgx.CollectRows(rows, rowToOperation)
	return list, wrap(err, "read operations")
}

// Operation reads one operation. ErrNotFound.
func (s *Store) Operation(ctx context.Context, id uuid.UUID) (Operation, error) {
	o, err := scanOperation(s.pool.QueryRow(ctx, `SELECT `+operationColumns+` FROM operations WHERE id = $1`, id))
	if err != nil {
		return Operation{}, wrap(notFound(err), "read operation")
	}
	return o, nil
}

// OperationsOfPayment lists a payment's operations, oldest first.
func (s *Store) OperationsOfPayment(ctx context.Context, paymentID uuid.UUID) ([]Operation, error) {
	return operationsOf(ctx, s.pool, paymentID, "")
}

// AttemptsOfOperation lists an operation's attempts, oldest first.
func (s *Store) AttemptsOfOperation(ctx context.Context, o Operation) (list []Attempt, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		all, err := attemptsOf(ctx, tx, o.PaymentID)
		if err != nil {
			return err
		}
		list = nil
		for _, a := range all {
			if a.Operation == o.AttemptName() {
				list = append(list, a)
			}
		}
		return nil
	})
	return list, err
}

// LockOperation reads an operation under its payment's row lock and its own.
func (s *Store) LockOperation(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Operation, error) {
	_, op, err := lockOperation(ctx, tx, id)
	return op, err
}

// lockOperation locks the payment, then the operation: the first locks of every change.
func lockOperation(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Payment, Operation, error) {
	var paymentID uuid.UUID
	if err := tx.QueryRow(ctx, `SELECT payment_id FROM operations WHERE id = $1`, id).Scan(&paymentID); err != nil {
		return Payment{}, Operation{}, wrap(notFound(err), "find operation")
	}
	pay, err := lockPayment(ctx, tx, paymentID)
	if err != nil {
		return Payment{}, Operation{}, err
	}
	op, err := scanOperation(tx.QueryRow(ctx, `SELECT `+operationColumns+` FROM operations WHERE id = $1 FOR UPDATE`, id))
	return pay, op, wrap(err, "lock operation")
}

// insertOperation gives birth to one: a request of ours pending, one that the provider
// told us of processing until its object is judged. The caller holds the payment's lock,
// so the sequence has no gaps. pgx.ErrNoRows: its idempotency key is known.
func (s *Store) insertOperation(ctx context.Context, tx pgx.Tx, o Operation, hash []byte) (Operation, error) {
	now := s.Now()
	return scanOperation(tx.QueryRow(ctx, `
		INSERT INTO operations (id, payment_id, kind, seq, origin, client_id, idempotency_key, request_hash, operation_key, provider,
			provider_payment_id, amount, currency, beyond, status, status_evidence, provider_object_id, next_check_at, next_check_why,
			reason, requested_by, created_at, updated_at)
		VALUES ($1, $2, $3, (SELECT coalesce(max(seq), 0) + 1 FROM operations WHERE payment_id = $2 AND kind = $3),
			$4, nullif($5, ''), nullif($6, ''), $7, nullif($8, ''), $9, $10, $11, $12, $13, $14, $15, nullif($16, ''), $17, $18, $19, $20, $21, $21)
		ON CONFLICT ON CONSTRAINT operations_idempotency DO NOTHING
		RETURNING `+operationColumns,
		o.ID, o.PaymentID, o.Kind, o.Origin, o.ClientID, o.IdempotencyKey, hash, o.OperationKey, o.Provider,
		o.ProviderPaymentID, o.Amount, o.Currency, o.Beyond, o.Status, o.StatusEvidence, o.ProviderObjectID, now, o.NextCheckWhy,
		clean(o.Reason), o.RequestedBy, now))
}
