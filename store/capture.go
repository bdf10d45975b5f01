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

// Capturable are the figures of a payment whose money is held until it is captured,
// minor units.
type Capturable struct {
	Currency   string
	Authorised int64      // held, by the provider's word
	Until      *time.Time // when the provider lets go by itself
	Captured   int64      // taken
	Live       *Operation // the capture or void under way, or the one that was made; nil: none
	Capturable int64      // what a capture may take now, and a void would let go
}

// NewAction is the content of a capture or void request, already validated.
type NewAction struct {
	PaymentID      uuid.UUID
	Kind           provider.OperationKind // OpCapture or OpVoid
	Origin         string                 // OriginAPI or OriginConsole
	ClientID       string                 // scope of the key: an API key id, or "user:ID"
	IdempotencyKey string                 // a client's key, or the form's one-time action id
	Amount         int64                  // of a capture; 0: all that is held
	// ExpectedCapturable is the capturable amount the requester was shown; nil if it was
	// shown none, which only a program may say.
	ExpectedCapturable *int64
	Reason             string
}

// Action is the result of CreateCapture and CreateVoid.
type Action struct {
	Operation Operation
	Replayed  bool // the key was known with the same content; Operation is the stored one as it is now
	Figures   Capturable
}

// Reasons of NotCapturableError, beside RefusedAmount and RefusedTooMuch.
const (
	RefusedAutomatic     = "automatic"      // the money is taken with the charge
	RefusedNotAuthorised = "not_authorised" // nothing is held: not yet, or not any more
	RefusedUnderWay      = "under_way"      // a capture or void has not failed
)

// NotCapturableError refuses a capture or void (422). Nothing was stored.
type NotCapturableError struct {
	Kind    provider.OperationKind
	Why     string
	Status  Status // of the payment
	Figures Capturable
}

// Error implements error.
func (e *NotCapturableError) Error() string {
	return fmt.Sprintf("store: no %s: %s (payment %s, %d held)", e.Kind, e.Why, e.Status, e.Figures.Capturable)
}

// CapturableChangedError: the capturable amount is not the one the requester was shown
// any more (409). Nothing was stored; Figures are fresh.
type CapturableChangedError struct {
	Expected int64
	Figures  Capturable
}

// Error implements error.
func (e *CapturableChangedError) Error() string {
	return fmt.Sprintf("store: capturable is %d, not %d", e.Figures.Capturable, e.Expected)
}

// CreateCapture stores a capture of what a payment holds, its timeline event, audit row
// and job in one transaction, under the payment's row lock, as CreateRefund does a
// refund. A part may be captured; the rest is let go. Errors: ErrNotFound, ErrKeyReused,
// *CapturableChangedError, *NotCapturableError; after any of them nothing is stored and
// nothing is sent.
func (s *Store) CreateCapture(ctx context.Context, n NewAction, by Actor) (Action, error) {
	n.Kind = provider.OpCapture
	return s.createAction(ctx, n, by)
}

// CreateVoid stores a void, which lets go of what a payment holds; see CreateCapture.
func (s *Store) CreateVoid(ctx context.Context, n NewAction, by Actor) (Action, error) {
	n.Kind, n.Amount = provider.OpVoid, 0
	return s.createAction(ctx, n, by)
}

func (s *Store) createAction(ctx context.Context, n NewAction, by Actor) (Action, error) {
	var out Action
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		pay, err := lockPayment(ctx, tx, n.PaymentID)
		if err != nil {
			return err
		}
		out, err = s.actOnCharge(ctx, tx, pay, n, by)
		return err
	})
	if err != nil {
		return Action{}, err
	}
	return out, nil
}

func (s *Store) actOnCharge(ctx context.Context, tx pgx.Tx, pay Payment, n NewAction, by Actor) (Action, error) {
	hash, err := n.hash()
	if err != nil {
		return Action{}, err
	}
	switch op, same, err := knownOperation(ctx, tx, n.ClientID, n.IdempotencyKey, hash); {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return Action{}, wrap(err, "read idempotency key")
	case !same:
		return Action{}, ErrKeyReused
	default:
		f, err := capturable(ctx, tx, pay)
		return Action{Operation: op, Replayed: true, Figures: f}, err
	}
	f, err := mayAct(ctx, tx, pay, n)
	if err != nil {
		return Action{}, err
	}
	if n.Amount == 0 {
		n.Amount = f.Capturable
	}
	op, err := s.requestAction(ctx, tx, pay, n, hash, by)
	if err != nil {
		return Action{}, err
	}
	f.Live, f.Capturable = &op, 0
	return Action{Operation: op, Figures: f}, nil
}

func (n NewAction) hash() ([]byte, error) {
	b, err := json.Marshal([]any{n.Kind, n.PaymentID, n.Amount, n.Reason})
	if err != nil {
		return nil, wrap(err, "hash request")
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

// mayAct refuses what cannot be captured or let go. What the requester was shown is
// compared before the amount: with other figures before their eyes they would ask for
// something else.
func mayAct(ctx context.Context, tx pgx.Tx, pay Payment, n NewAction) (Capturable, error) {
	f, err := capturable(ctx, tx, pay)
	if err != nil {
		return f, err
	}
	no := func(why string) (Capturable, error) {
		return f, &NotCapturableError{Kind: n.Kind, Why: why, Status: pay.Status, Figures: f}
	}
	switch {
	case !pay.Manual():
		return no(RefusedAutomatic)
	case n.ExpectedCapturable != nil && *n.ExpectedCapturable != f.Capturable:
		return f, &CapturableChangedError{Expected: *n.ExpectedCapturable, Figures: f}
	case f.Live != nil:
		return no(RefusedUnderWay)
	case f.Capturable == 0 || pay.ProviderPaymentID == "":
		return no(RefusedNotAuthorised)
	case n.Amount < 0:
		return no(RefusedAmount)
	case n.Amount > f.Capturable:
		return no(RefusedTooMuch)
	}
	return f, nil
}

func (s *Store) requestAction(ctx context.Context, tx pgx.Tx, pay Payment, n NewAction, hash []byte, by Actor) (Operation, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Operation{}, err
	}
	op, err := s.insertOperation(ctx, tx, Operation{
		ID: id, PaymentID: pay.ID, Kind: n.Kind, Origin: n.Origin, ClientID: n.ClientID, IdempotencyKey: n.IdempotencyKey,
		OperationKey: childKey(n.Kind, id), Provider: pay.Provider, ProviderPaymentID: pay.ProviderPaymentID,
		Amount: n.Amount, Currency: pay.Currency, Status: Pending, NextCheckWhy: whyCharge, Reason: n.Reason, RequestedBy: by.String(),
	}, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, ErrKeyReused // taken this moment, for another payment
	}
	if err != nil {
		return Operation{}, wrap(err, "insert "+string(n.Kind))
	}
	var b pgx.Batch
	queueEvent(&b, childEvent(pay, op, s.Now(), op.event("requested"), n.Origin, by, op.Reason, nil))
	queueAudit(&b, s.Now(), by, string(n.Kind)+".create", "payment:"+pay.ID.String(), op.Reason, nil, operationState(op))
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return Operation{}, wrap(err, "record "+string(n.Kind))
	}
	if err := Notify(ctx, tx, TopicPayments); err != nil {
		return Operation{}, err
	}
	return op, s.enqueuer().Operation(ctx, tx, op.ID, op.Provider, time.Time{})
}

// Capturable reads the figures of a payment. ErrNotFound.
func (s *Store) Capturable(ctx context.Context, paymentID uuid.UUID) (Capturable, error) {
	pay, err := s.Payment(ctx, paymentID)
	if err != nil {
		return Capturable{}, err
	}
	return capturable(ctx, s.pool, pay)
}

func capturable(ctx context.Context, q reader, pay Payment) (Capturable, error) {
	f := Capturable{Currency: pay.Currency, Authorised: pay.AuthorisedAmount, Until: pay.AuthorisedUntil, Captured: pay.CapturedAmount}
	if !pay.Manual() {
		return f, nil
	}
	list, err := actionsOf(ctx, q, pay.ID)
	if err != nil {
		return f, err
	}
	if i := indexLive(list); i >= 0 {
		f.Live = &list[i]
	} else if pay.Authorised() {
		// Never more than was asked for: what is held beyond it is a mismatch for a person.
		f.Capturable = min(pay.AuthorisedAmount, pay.Amount)
	}
	return f, nil
}

// actionsOf reads a payment's captures and voids, in the order they were made.
func actionsOf(ctx context.Context, q reader, paymentID uuid.UUID) ([]Operation, error) {
	rows, err := q.Query(ctx, `SELECT `+operationColumns+` FROM operations
		WHERE payment_id = $1 AND kind IN ('capture', 'void') ORDER BY created_at, id`, paymentID)
	if err != nil {
		return nil, wrap(err, "read captures")
	}
	list, err := pgx.CollectRows(rows, rowToOperation)
	return list, wrap(err, "read captures")
}

// indexLive finds the last capture or void that has not failed.
func indexLive(list []Operation) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Status != Failed {
			return i
		}
	}
	return -1
}
