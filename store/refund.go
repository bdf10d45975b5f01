package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// Refundable are the figures of refunds on one charge of a payment, minor units.
type Refundable struct {
	ChargeID   string // at the provider
	Currency   string
	Captured   int64 // what the charge took
	Refunded   int64 // given back
	Pending    int64 // pending and processing
	Unknown    int64 // may have been given back
	Refundable int64 // what is left: captured less all refunds that are not failed
}

// NewRefund is the content of a refund request, already validated.
type NewRefund struct {
	PaymentID      uuid.UUID
	Origin         string // OriginAPI or OriginConsole
	ClientID       string // scope of the key: an API key id, or "user:ID"
	IdempotencyKey string // a client's key, or the form's one-time action id
	Amount         int64
	Currency       string // empty: the payment's
	// ExpectedRefundable is the refundable amount the requester was shown; nil if it was
	// shown none, which only a program may say.
	ExpectedRefundable *int64
	// ChargeID is empty for the charge the payment rests on, whichever that is; else it names
	// a duplicate of it, which goes back whole.
	ChargeID string
	Reason   string
}

// Refund is the result of CreateRefund.
type Refund struct {
	Operation Operation
	Replayed  bool // the key was known with the same content; Operation is the stored one as it is now
	Figures   Refundable
}

// Reasons of NotRefundableError.
const (
	RefusedNotSucceeded = "not_succeeded" // the payment took no money
	RefusedNoCharge     = "no_charge"     // the provider's id of the charge is not known
	RefusedCurrency     = "currency"
	RefusedAmount       = "amount"   // zero or negative
	RefusedTooMuch      = "too_much" // more than is refundable
)

// NotRefundableError refuses a refund (422). Nothing was stored.
type NotRefundableError struct {
	Why     string
	Status  Status // of the payment
	Figures Refundable
}

// Error implements error.
func (e *NotRefundableError) Error() string {
	return fmt.Sprintf("store: not refundable: %s (payment %s, %d left)", e.Why, e.Status, e.Figures.Refundable)
}

// RefundableChangedError: the refundable amount is not the one the requester was shown
// any more (409). Nothing was stored; Figures are fresh.
type RefundableChangedError struct {
	Expected int64
	Figures  Refundable
}

// Error implements error.
func (e *RefundableChangedError) Error() string {
	return fmt.Sprintf("store: refundable is %d, not %d", e.Figures.Refundable, e.Expected)
}

// CreateRefund stores a refund, its timeline event, audit row and job in one
// transaction, under the payment's row lock. The key decides first: with the same
// content it returns the stored refund (Replayed), whatever else would refuse a new
// one. Errors: ErrNotFound, ErrKeyReused, *RefundableChangedError, *NotRefundableError;
// after any of them nothing is stored and nothing is sent.
func (s *Store) CreateRefund(ctx context.Context, n NewRefund, by Actor) (Refund, error) {
	var out Refund
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		pay, err := lockPayment(ctx, tx, n.PaymentID)
		if err != nil {
			return err
		}
		out, err = s.createRefund(ctx, tx, pay, n, by)
		return err
	})
	if err != nil {
		return Refund{}, err
	}
	return out, nil
}

func (s *Store) createRefund(ctx context.Context, tx pgx.Tx, pay Payment, n NewRefund, by Actor) (Refund, error) {
	hash, err := n.hash(pay)
	if err != nil {
		return Refund{}, err
	}
	// A repeat is of this payment, so its first request committed before we got the lock.
	switch op, same, err := knownOperation(ctx, tx, n.ClientID, n.IdempotencyKey, hash); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return Refund{}, wrap(err, "read idempotency key")
	case !same:
		return Refund{}, ErrKeyReused
	default:
		f, err := refundable(ctx, tx, pay, op.ProviderPaymentID)
		return Refund{Operation: op, Replayed: true, Figures: f}, err
	}
	figures, err := mayRefund(ctx, tx, pay, n)
	if err != nil {
		return Refund{}, err
	}
	op, err := s.requestRefund(ctx, tx, pay, n, figures.ChargeID, hash, by)
	if err != nil {
		return Refund{}, err
	}
	figures.Pending, figures.Refundable = figures.Pending+op.Amount, figures.Refundable-op.Amount
	return Refund{Operation: op, Figures: figures}, nil
}

// hash is over the content. What the requester was shown is no content: a repeat of the
// same request may have been shown other figures.
func (n NewRefund) hash(pay Payment) ([]byte, error) {
	currency := n.Currency
	if currency == "" {
		currency = pay.Currency
	}
	b, err := json.Marshal([]any{provider.OpRefund, n.PaymentID, n.ChargeID, n.Amount, currency, n.Reason})
	if err != nil {
		return nil, wrap(err, "hash refund")
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

func knownOperation(ctx context.Context, tx pgx.Tx, client, key string, hash []byte) (op Operation, same bool, err error) {
	err = tx.QueryRow(ctx, `SELECT request_hash = $3 FROM operations WHERE client_id = $1 AND idempotency_key = $2`, client, key, hash).Scan(&same)
	if err != nil || !same {
		return Operation{}, false, err
	}
	op, err = scanOperation(tx.QueryRow(ctx, `SELECT `+operationColumns+` FROM operations WHERE client_id = $1 AND idempotency_key = $2`, client, key))
	return op, true, err
}

// mayRefund refuses what cannot be refunded. What the requester was shown is compared
// first: with other figures before their eyes they would ask for something else.
func mayRefund(ctx context.Context, tx pgx.Tx, pay Payment, n NewRefund) (Refundable, error) {
	if n.ChargeID != "" {
		return mayRefundDuplicate(ctx, tx, pay, n)
	}
	f, err := refundable(ctx, tx, pay, pay.ProviderPaymentID)
	if err != nil {
		return f, err
	}
	no := func(why string) (Refundable, error) {
		return f, &NotRefundableError{Why: why, Status: pay.Status, Figures: f}
	}
	switch {
	case pay.Status != Succeeded:
		return no(RefusedNotSucceeded)
	case f.ChargeID == "" || f.Captured == 0:
		return no(RefusedNoCharge)
	case n.Currency != "" && n.Currency != pay.Currency:
		return no(RefusedCurrency)
	case n.ExpectedRefundable != nil && *n.ExpectedRefundable != f.Refundable:
		return f, &RefundableChangedError{Expected: *n.ExpectedRefundable, Figures: f}
	case n.Amount <= 0:
		return no(RefusedAmount)
	case n.Amount > f.Refundable:
		return no(RefusedTooMuch)
	}
	return f, nil
}

func (s *Store) requestRefund(ctx context.Context, tx pgx.Tx, pay Payment, n NewRefund, charge string, hash []byte, by Actor) (Operation, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Operation{}, err
	}
	op, err := s.insertOperation(ctx, tx, Operation{
		ID: id, PaymentID: pay.ID, Kind: provider.OpRefund, Origin: n.Origin, ClientID: n.ClientID, IdempotencyKey: n.IdempotencyKey,
		OperationKey: childKey(provider.OpRefund, id), Provider: pay.Provider, ProviderPaymentID: charge,
		Amount: n.Amount, Currency: pay.Currency, Status: Pending, NextCheckWhy: whyCharge, Reason: n.Reason, RequestedBy: by.String(),
	}, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, ErrKeyReused // taken this moment, for another payment
	}
	if err != nil {
		return Operation{}, wrap(err, "insert refund")
	}
	var b pgx.Batch
	queueEvent(&b, childEvent(pay, op, s.Now(), op.event("requested"), n.Origin, by, op.Reason, nil))
	queueAudit(&b, s.Now(), by, "refund.create", "payment:"+pay.ID.String(), op.Reason, nil, operationState(op))
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return Operation{}, wrap(err, "record refund")
	}
	if err := Notify(ctx, tx, TopicPayments); err != nil {
		return Operation{}, err
	}
	return op, s.enqueuer().Operation(ctx, tx, op.ID, op.Provider, time.Time{})
}

// refundable computes the figures of one charge of a payment. Its own charge took what
// was captured; a duplicate, what the provider said it took.
func refundable(ctx context.Context, q reader, pay Payment, charge string) (Refundable, error) {
	f := Refundable{ChargeID: charge, Currency: pay.Currency}
	err := q.QueryRow(ctx, `
		SELECT CASE WHEN p.provider_payment_id = $2 THEN p.captured_amount ELSE coalesce((SELECT o.amount FROM provider_objects o
				WHERE o.provider = p.provider AND o.object_id = $2 AND o.payment_id = p.id AND o.succeeded_at IS NOT NULL
				AND o.currency = p.currency AND p.status = 'succeeded'), 0) END,
			coalesce(sum(r.amount) FILTER (WHERE r.status = 'succeeded'), 0),
			coalesce(sum(r.amount) FILTER (WHERE r.status IN ('pending', 'processing')), 0),
			coalesce(sum(r.amount) FILTER (WHERE r.status = 'unknown'), 0)
		FROM payments p LEFT JOIN operations r ON r.payment_id = p.id AND r.kind = 'refund' AND r.provider_payment_id = $2
		WHERE p.id = $1 GROUP BY p.id`, pay.ID, charge).
		Scan(&f.Captured, &f.Refunded, &f.Pending, &f.Unknown)
	if err != nil {
		return f, wrap(notFound(err), "read refundable")
	}
	f.Refundable = max(f.Captured-f.Refunded-f.Pending-f.Unknown, 0)
	return f, nil
}

// Refundable reads the figures of the charge a payment rests on. ErrNotFound.
func (s *Store) Refundable(ctx context.Context, paymentID uuid.UUID) (Refundable, error) {
	return s.RefundableCharge(ctx, paymentID, "")
}

// RefundableCharge reads the figures of one charge of a payment, by the provider's id;
// empty: the one it rests on. ErrNotFound.
func (s *Store) RefundableCharge(ctx context.Context, paymentID uuid.UUID, charge string) (Refundable, error) {
	pay, err := s.Payment(ctx, paymentID)
	if err != nil {
		return Refundable{}, err
	}
	if charge == "" {
		charge = pay.ProviderPaymentID
	}
	return refundable(ctx, s.pool, pay, charge)
}
