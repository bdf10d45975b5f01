package store

// Signatures agreed between the packages, to be replaced by their real files one
// by one. This file must be gone at the end.

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

var errUnbuilt = errors.New("store: not built yet")

// ---- transitions.go and friends

// CreatePayment inserts the payment, its created event and its charge job in one
// transaction. Errors: ErrKeyReused, *OrderBusyError, ErrWalletNotFound, ErrWalletCurrency.
func (s *Store) CreatePayment(ctx context.Context, n NewPayment, by Actor) (Created, error) {
	return Created{}, errUnbuilt
}

// Payment reads one payment. ErrNotFound.
func (s *Store) Payment(ctx context.Context, id uuid.UUID) (Payment, error) {
	return Payment{}, errUnbuilt
}

// BeginParams of BeginAttempt.
type BeginParams struct {
	PaymentID uuid.UUID
	Body      []byte        // frozen request bytes, used if this is the operation's first attempt; else must hash the same
	KeyLife   time.Duration // provider's; 0: it keeps no keys
	Deadline  time.Duration // from now; after it an attempt without outcome belongs to nobody
	Worker    string
	Recharge  bool // allowed from unknown, after counted absences, while the key lives
}

// BeginAttempt marks "maybe sent" durably, before the first byte leaves. It returns the
// attempt with the operation key and the frozen bytes to send. Errors: ErrSettled,
// ErrInFlight, ErrMaybeSent, ErrKeyExpired, ErrBytesChanged, ErrPaused, ErrNotFound.
func (s *Store) BeginAttempt(ctx context.Context, p BeginParams) (Attempt, Payment, error) {
	return Attempt{}, Payment{}, errUnbuilt
}

// FinishParams of FinishAttempt.
type FinishParams struct {
	AttemptID   uuid.UUID
	Charged     provider.Charged
	RetryAt     time.Time // when the job will come back while not executed (retry, snooze); shown to people
	ReconcileAt time.Time // when to look up an unknown or processing payment
	NoStatusAPI bool      // nobody can be asked: unknown gets needs_review no_status_api instead of lookups
}

// FinishAttempt writes the attempt's outcome and moves the payment, in tx: attempt
// row, guarded status change, provider object, timeline, wallet effect, review reasons,
// alerts, reconcile job, and unmatched webhooks that now have a payment.
func (s *Store) FinishAttempt(ctx context.Context, tx pgx.Tx, p FinishParams) (Payment, error) {
	return Payment{}, errUnbuilt
}

// RejectBeforeSend moves a pending payment to failed because the adapter's Freeze
// refused it (nothing was sent).
func (s *Store) RejectBeforeSend(ctx context.Context, tx pgx.Tx, id uuid.UUID, field, reason string) (Payment, error) {
	return Payment{}, errUnbuilt
}

// NoteWaiting records that a pending payment's job waits (circuit open, throttled,
// in flight, paused): next_check_at, why, and one timeline event per stretch of waiting.
func (s *Store) NoteWaiting(ctx context.Context, id uuid.UUID, until time.Time, why, detail string) error {
	return errUnbuilt
}

// LookupPolicy is how a lookup's absence counts and what follows.
type LookupPolicy struct {
	AbsentHorizon time.Duration // a "not found" counts only this long after the last send
	OnAbsent      string        // fail | recharge
	NextAt        time.Time     // next lookup if this one does not settle it
	KeyLife       time.Duration
	MaxLookups    int // beyond it: needs_review aged, lookups go on at the low rate
}

// RecordLookup applies what a lookup established, in tx. It returns the payment after it.
func (s *Store) RecordLookup(ctx context.Context, tx pgx.Tx, id uuid.UUID, l provider.LookedUp, pol LookupPolicy, by Actor) (Payment, error) {
	return Payment{}, errUnbuilt
}

// ---- inbox.go

// Delivery is one webhook delivery, verified (or not) at receipt. One delivery may
// carry several events; rejected and unparsed ones carry none.
type Delivery struct {
	Provider     string
	Raw          []byte
	Header       http.Header // Authorization, Cookie and the like are dropped before storing
	Verification provider.Verification
	Events       []provider.Event
	ParseError   string
}

// Received says what became of a delivery.
type Received struct {
	EventIDs   []int64
	Duplicates int
	State      string // of the delivery as a whole: received, ignored, rejected, unparsed
}

// ReceiveWebhook stores a delivery and enqueues the work, in one transaction. The
// caller answers 2xx only after it returned nil.
func (s *Store) ReceiveWebhook(ctx context.Context, d Delivery) (Received, error) {
	return Received{}, errUnbuilt
}

// ApplyWebhook applies one received or unmatched inbox row, in tx, under the payment's
// row lock; parse reads the stored raw body again. Already applied: no-op. It returns
// the row's state afterwards.
func (s *Store) ApplyWebhook(ctx context.Context, tx pgx.Tx, eventID int64, parse func(raw []byte) ([]provider.Event, error)) (string, error) {
	return "", errUnbuilt
}

// WebhookProvider reads which provider an inbox row belongs to. ErrNotFound.
func (s *Store) WebhookProvider(ctx context.Context, eventID int64) (string, error) {
	return "", errUnbuilt
}

// ---- recon.go

// Run is one reconciliation run.
type Run struct {
	ID            uuid.UUID
	Provider      string
	From, To      time.Time
	Cursor        string
	State         string
	Pages         int
	Exceptions    int
	PausedUntil   *time.Time
	Matched       int
	OursOnly      int
	TheirsOnly    int
	AmountDiffers int
	StatusDiffers int
	Duplicate     int
	TriggeredBy   string
	StartedAt     time.Time
	FinishedAt    *time.Time
}

// OpenRun returns the provider's open run (running or paused), or starts one whose window
// begins overlap before the watermark and ends at now − settle.
func (s *Store) OpenRun(ctx context.Context, provider, triggeredBy string, overlap time.Duration) (Run, error) {
	return Run{}, errUnbuilt
}

// RecordPage compares a page of the provider's objects with our payments, in one
// transaction with the cursor: findings, provider objects, and evidence applied to
// payments through the state machine. last completes the run, adds ours_only findings
// for our payments in the window the provider did not list, and moves the watermark.
func (s *Store) RecordPage(ctx context.Context, runID uuid.UUID, page provider.Page, last bool) (Run, error) {
	return Run{}, errUnbuilt
}

// RecordSyncException counts a failed page; at 10 in a row the run pauses for pause.
func (s *Store) RecordSyncException(ctx context.Context, runID uuid.UUID, detail string, pause time.Duration) (Run, error) {
	return Run{}, errUnbuilt
}

// ---- sweep.go

// SweepParams of Sweep.
type SweepParams struct {
	Grace       time.Duration              // how long past its time a payment may be before it is picked up (default 30 s)
	UnknownAged time.Duration              // unknown longer than this gets review reason aged and an alert
	AskAt       func(provider string) bool // false: the provider has no status API
}

// Swept counts what a sweep found.
type Swept struct {
	Overdue  int // attempts past their deadline without outcome, now unknown
	Requeued int // payments past their next check without live work
	Webhooks int // inbox rows received but not applied, or unmatched
	Aged     int
}

// Sweep trusts rows, not the queue; see design.md, Jobs.
func (s *Store) Sweep(ctx context.Context, p SweepParams) (Swept, error) { return Swept{}, errUnbuilt }

// ---- operator.go

// ResolveParams of Resolve.
type ResolveParams struct {
	ActionID  uuid.UUID // one-time id from the form; a repeat returns the first result
	PaymentID uuid.UUID
	Version   int64 // the version the person saw
	To        Status
	Reason    string
	Evidence  string // reference: ticket, provider dashboard id, ...
	By        Actor
}

// Resolve settles an unknown or needs-review payment on a person's word. Errors:
// *ConflictError, ErrNotAllowed, ErrNotFound.
func (s *Store) Resolve(ctx context.Context, p ResolveParams) (Payment, error) {
	return Payment{}, errUnbuilt
}

// ReconcileNow enqueues a lookup at once on a person's wish. Errors: *ConflictError, ErrNotFound,
// ErrNotAllowed (final and nothing to review).
func (s *Store) ReconcileNow(ctx context.Context, actionID, paymentID uuid.UUID, version int64, by Actor) (Payment, error) {
	return Payment{}, errUnbuilt
}

// Audit writes one audit row in tx.
func (s *Store) Audit(ctx context.Context, tx pgx.Tx, by Actor, action, target, reason string, before, after map[string]any) error {
	return errUnbuilt
}

// ClaimAction records a one-time action id in tx. first is false on a repeat, with the
// first call's result text.
func (s *Store) ClaimAction(ctx context.Context, tx pgx.Tx, id uuid.UUID, by Actor, action, target, result string) (first bool, earlier string, err error) {
	return false, "", errUnbuilt
}

// ---- wallet.go

// Wallet holds money of one owner in one currency; amounts in minor units.
type Wallet struct {
	ID        uuid.UUID
	OwnerRef  string
	Currency  string
	Balance   int64
	Held      int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// WalletEntry is one movement.
type WalletEntry struct {
	ID           int64
	WalletID     uuid.UUID
	OperationID  string
	Amount       int64 // signed
	BalanceAfter int64
	Kind         string
	PaymentID    *uuid.UUID
	Note         string
	Actor        string
	CreatedAt    time.Time
}

// CreateWallet returns the owner's wallet, new or existing; ErrWalletCurrency if it exists
// in another currency. created tells which.
func (s *Store) CreateWallet(ctx context.Context, ownerRef, currency string, by Actor) (w Wallet, created bool, err error) {
	return Wallet{}, false, errUnbuilt
}

// Wallet reads one. ErrWalletNotFound.
func (s *Store) Wallet(ctx context.Context, id uuid.UUID) (Wallet, error) {
	return Wallet{}, errUnbuilt
}

// Move credits (amount > 0) or debits (amount < 0) a wallet once per operation id. A repeat
// returns the first entry with replayed true. Errors: ErrWalletNotFound, ErrInsufficient,
// ErrOperationReused.
func (s *Store) Move(ctx context.Context, walletID uuid.UUID, operationID string, amount int64, note string, by Actor) (e WalletEntry, replayed bool, err error) {
	return WalletEntry{}, false, errUnbuilt
}

// WalletEntries lists a wallet's entries, newest first, before the given id (0: from the top).
func (s *Store) WalletEntries(ctx context.Context, walletID uuid.UUID, before int64, limit int) ([]WalletEntry, error) {
	return nil, errUnbuilt
}

// ---- alerts.go

// Alert is one stored alert.
type Alert struct {
	ID          int64
	Kind        string
	Severity    string
	Provider    string
	Title       string
	Detail      string
	DedupeKey   string
	PaymentID   *uuid.UUID
	CreatedAt   time.Time
	DeliveredAt *time.Time
}

// RaiseAlert stores an alert once per dedupe key and enqueues its delivery, in tx.
func (s *Store) RaiseAlert(ctx context.Context, tx pgx.Tx, a Alert) (raised bool, err error) {
	return false, errUnbuilt
}

// Alert reads one.
func (s *Store) Alert(ctx context.Context, id int64) (Alert, error) { return Alert{}, errUnbuilt }

// AlertDelivered records one sink's delivery; done marks the alert delivered.
func (s *Store) AlertDelivered(ctx context.Context, id int64, sink string, ok bool, detail string, done bool) error {
	return errUnbuilt
}

// BreakerEvent is one circuit transition as stored.
type BreakerEvent struct {
	ID       int64
	Provider string
	Class    string
	Epoch    string
	From, To string
	Reason   string
	Evidence map[string]any
	At       time.Time
}

// RecordBreakerEvent stores a transition once per (provider, class, epoch) and raises
// its alert in the same transaction. stored is false on a repeat.
func (s *Store) RecordBreakerEvent(ctx context.Context, e BreakerEvent) (stored bool, err error) {
	return false, errUnbuilt
}

// CallOutcome is one provider call, for tuning and the provider strip.
type CallOutcome struct {
	At         time.Time
	Provider   string
	Class      string
	Verdict    string
	Outcome    string
	ErrorClass string
	Latency    time.Duration
	Worker     string
	PaymentID  *uuid.UUID
}

// RecordCall stores one provider call in tx (nil: its own).
func (s *Store) RecordCall(ctx context.Context, tx pgx.Tx, c CallOutcome) error { return errUnbuilt }

// PauseCharges pauses a provider's charge queue after a configuration alarm; ResumeCharges
// lifts it on a person's word and re-enqueues waiting payments.
func (s *Store) PauseCharges(ctx context.Context, tx pgx.Tx, provider, reason string) error {
	return errUnbuilt
}

// ResumeCharges lifts a pause. See PauseCharges.
func (s *Store) ResumeCharges(ctx context.Context, provider string, by Actor, reason string) error {
	return errUnbuilt
}

// ---- verify.go

// Books are the findings of an audit of our own rows; verify adds the providers' ledgers.
type Books struct {
	Payments        int
	ByStatus        map[string]int
	WalletDrift     []string
	Stuck           []string // not final and without a next step
	UnknownSeen     int
	UnknownResolved int
	BreakerOpened   int
	BreakerClosed   int
	Webhooks        struct{ Received, Duplicates, Rejected, Applied, Unmatched int }
	MaxWireSends    int
}

// Audit of the books: see Books.
func (s *Store) Books(ctx context.Context) (Books, error) { return Books{}, errUnbuilt }

// EachPayment calls fn with every payment, in id order, in keyset pages.
func (s *Store) EachPayment(ctx context.Context, fn func(Payment) error) error { return errUnbuilt }
