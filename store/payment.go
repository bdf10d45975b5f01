package store

import (
	"time"

	"github.com/google/uuid"

	"fusebox/provider"
)

// Status of a payment; money-rules §1.
type Status string

// Statuses.
const (
	Pending        Status = "pending"
	Processing     Status = "processing"
	RequiresAction Status = "requires_action"
	Unknown        Status = "unknown"
	Succeeded      Status = "succeeded"
	Failed         Status = "failed"
)

// Statuses lists all statuses in the order screens show them.
var Statuses = []Status{Unknown, Pending, Processing, RequiresAction, Succeeded, Failed}

// Final reports whether the status is an end (failed may still become succeeded on
// verified proof of money).
func (s Status) Final() bool { return s == Succeeded || s == Failed }

// Review reasons beside the status. Only evidence or a person clears one.
const (
	ReviewAmountMismatch = "amount_mismatch"
	ReviewDuplicate      = "duplicate_at_provider"
	ReviewContradiction  = "contradiction"
	ReviewKeyExpired     = "key_expired"
	ReviewNoStatusAPI    = "no_status_api"
	ReviewUnmapped       = "unmapped_status"
	ReviewAged           = "aged"
)

// Payment is one payment the business asked for. Amount is in minor units.
type Payment struct {
	ID                uuid.UUID
	ClientID          string
	IdempotencyKey    string
	OrderRef          string
	Provider          string
	Amount            int64
	Currency          string
	Description       string
	CustomerName      string
	CustomerEmail     string
	Metadata          map[string]string
	WalletID          *uuid.UUID
	Status            Status
	StatusReason      string
	StatusEvidence    string
	NeedsReview       []string
	ProviderPaymentID string
	ProviderMessage   string
	NextCheckAt       *time.Time
	NextCheckWhy      string
	Lookups           int
	AbsentLookups     int
	UnknownSince      *time.Time
	UnknownSeen       bool
	Version           int64
	CreatedAt         time.Time
	UpdatedAt         time.Time
	SettledAt         *time.Time

	Capture          string     // CaptureAutomatic or CaptureManual
	AuthorisedAmount int64      // what the provider holds, or held; 0: it never said so
	AuthorisedUntil  *time.Time // when it lets go by itself
	CaptureAmount    int64      // what its capture asks for, or took; 0: none is under way or done
	CapturedAmount   int64      // what was taken; 0 until succeeded
}

// When a payment's money is taken.
const (
	CaptureAutomatic = "automatic" // with the charge
	CaptureManual    = "manual"    // by a capture; until then it is only held
)

// Manual reports whether a capture takes the money.
func (p Payment) Manual() bool { return p.Capture == CaptureManual }

// Authorised reports whether the money is held and waits to be captured or let go.
func (p Payment) Authorised() bool {
	return p.Manual() && p.Status == Processing && p.AuthorisedAmount > 0
}

// Took is what the charge takes if it succeeds: what its capture asks for, or all of it.
func (p Payment) Took() provider.Money {
	if p.CaptureAmount > 0 {
		return provider.Money{Amount: p.CaptureAmount, Currency: p.Currency}
	}
	return p.Money()
}

// Money returns the amount and currency asked for.
func (p Payment) Money() provider.Money {
	return provider.Money{Amount: p.Amount, Currency: p.Currency}
}

// Actor is who makes a change.
type Actor struct {
	Kind      string // system, user, client
	ID        string // "charge", a user id, an API key id
	Name      string // for people: "Olena", "charge job"
	RequestID string
}

// String returns "kind:id".
func (a Actor) String() string { return a.Kind + ":" + a.ID }

// System returns the actor for one of our own jobs.
func System(id string) Actor { return Actor{Kind: "system", ID: id, Name: id} }

// NewPayment is the content of a create request, already validated.
type NewPayment struct {
	ClientID        string
	IdempotencyKey  string
	OrderRef        string
	Provider        string
	Amount          int64
	Currency        string
	Description     string
	CustomerName    string
	CustomerEmail   string
	Metadata        map[string]string
	WalletID        *uuid.UUID
	Capture         string // empty: CaptureAutomatic
	AllowConcurrent bool   // a second payment for an order_ref that is unknown or processing
}

// Created is the result of CreatePayment.
type Created struct {
	Payment  Payment
	Replayed bool // the key was known with the same content; Payment is the stored one as it is now
}

// Attempt is one intended send of a money call.
type Attempt struct {
	ID                uuid.UUID
	PaymentID         uuid.UUID
	Operation         string
	Seq               int
	OperationKey      string
	Request           []byte
	Worker            string
	MarkedAt          time.Time
	FirstSentAt       time.Time
	ReplayUntil       time.Time
	Deadline          time.Time
	WireSends         int
	HTTPStatus        int
	ContentType       string
	Server            string
	ProviderRequestID string
	FinalURL          string
	ResponseBody      []byte
	Outcome           string // empty while in flight
	ErrorClass        string
	BreakerVerdict    string
	FirstByteSentAt   *time.Time
	FirstByteAt       *time.Time
	FinishedAt        *time.Time
}

// TimelineEvent is one row of payment_events.
type TimelineEvent struct {
	ID         int64
	PaymentID  uuid.UUID
	At         time.Time
	Kind       string
	Source     string
	Actor      string
	FromStatus Status
	ToStatus   Status
	Reason     string
	AttemptID  *uuid.UUID
	Evidence   map[string]any
}
