package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("store: not found")
	// ErrKeyReused: the idempotency key was used before with other content (422).
	ErrKeyReused = errors.New("store: idempotency key reused with different content")
	// ErrWalletNotFound: the named wallet does not exist.
	ErrWalletNotFound = errors.New("store: wallet not found")
	// ErrWalletCurrency: the wallet holds another currency.
	ErrWalletCurrency = errors.New("store: wallet has another currency")
	// ErrInsufficient: a debit beyond the available balance.
	ErrInsufficient = errors.New("store: insufficient available balance")
	// ErrOperationReused: a wallet operation id repeated with another amount or wallet.
	ErrOperationReused = errors.New("store: operation id reused with different content")
	// ErrWalletFull: a credit beyond what a balance can hold.
	ErrWalletFull = errors.New("store: wallet cannot hold that much")
	// ErrSettled: nothing to charge, the payment is past pending (or past unknown for a recharge).
	ErrSettled = errors.New("store: payment needs no charge")
	// ErrInFlight: another worker's attempt is running and within its deadline; come back later.
	ErrInFlight = errors.New("store: an attempt is in flight")
	// ErrMaybeSent: an earlier attempt may have been sent and left no outcome. The payment is
	// now unknown and a reconcile job is queued; nothing may be sent.
	ErrMaybeSent = errors.New("store: an earlier attempt may have been sent")
	// ErrKeyExpired: the provider may have forgotten the key; only lookups are allowed.
	ErrKeyExpired = errors.New("store: idempotency key expired at the provider")
	// ErrBytesChanged: other request bytes for the same operation key; refused before any send.
	ErrBytesChanged = errors.New("store: request bytes differ from the frozen ones")
	// ErrPaused: the provider's charge queue is paused after a configuration alarm.
	ErrPaused = errors.New("store: charges of this provider are paused")
	// ErrNotAllowed: the transition is not on the allow-list.
	ErrNotAllowed = errors.New("store: transition not allowed")
)

// OrderBusyError: another payment for the order is unknown or processing (409).
type OrderBusyError struct {
	PaymentID uuid.UUID
	Status    Status
}

// Error implements error.
func (e *OrderBusyError) Error() string {
	return fmt.Sprintf("store: payment %s for this order is %s", e.PaymentID, e.Status)
}

// ConflictError: the row changed since the person looked at it (409). Nothing was changed.
type ConflictError struct {
	By     string // who changed it, for people
	At     time.Time
	Status Status // what it is now
	What   string // what they did: timeline kind, e.g. "operator", "lookup"
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: changed by %s at %s to %s", e.By, e.At.Format(time.RFC3339), e.Status)
}
