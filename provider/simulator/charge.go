package simulator

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Statuses a charge can have, in the contract's words.
const (
	StatusSucceeded      = "succeeded"
	StatusProcessing     = "processing"
	StatusRequiresAction = "requires_action"
	StatusFailed         = "failed"
	StatusCanceled       = "canceled"
)

// Charge is one object in the ledger: what the provider really did. A refund is one too,
// with an id, a key, a status and faults of its own; Of tells the two apart.
type Charge struct {
	ID        string    `json:"id"`
	Reference string    `json:"reference"`
	Key       string    `json:"key"`    // idempotency key; empty at a provider without keys
	Amount    int64     `json:"amount"` // minor units
	Currency  string    `json:"currency"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`

	OrderRef  string    `json:"order_ref,omitempty"`
	Code      string    `json:"code,omitempty"` // why it failed
	Message   string    `json:"message,omitempty"`
	Fault     Fault     `json:"fault,omitempty"`     // the charge fault that hit it
	Decide    string    `json:"decide,omitempty"`    // the status it will get by itself
	DecideAt  time.Time `json:"decide_at,omitzero"`  // when
	HideUntil time.Time `json:"hide_until,omitzero"` // lookup lag
	GoneUntil time.Time `json:"gone_until,omitzero"` // lookup not-found
	UpdatedAt time.Time `json:"updated_at,omitzero"` // last change of status
	Asked     int64     `json:"asked,omitempty"`     // the amount asked for, where another was charged
	Face      string    `json:"face,omitempty"`      // the API it was made through; empty is the gateway contract

	Manual    bool      `json:"manual,omitempty"`    // held first, and taken by a capture
	HeldUntil time.Time `json:"held_until,omitzero"` // when it lapses
	Capturing int64     `json:"capturing,omitempty"` // by a capture that is not decided
	Captured  int64     `json:"captured,omitempty"`  // of a manual charge: what its capture took

	Refunded int64  `json:"refunded,omitempty"`     // of a charge: what its succeeded refunds gave back
	Of       string `json:"of,omitempty"`           // of a refund: the charge it gives money back from
	OfRef    string `json:"of_reference,omitempty"` // of a refund: that charge's reference
}

// final reports whether the provider has decided.
func (c Charge) final() bool {
	return c.Status == StatusSucceeded || c.Status == StatusFailed || c.Status == StatusCanceled
}

// subject is the payment behind the charge.
func (c Charge) subject() subject {
	s := subject{reference: c.Reference, orderRef: c.OrderRef, amount: c.Amount}
	if c.Asked != 0 {
		s.amount = c.Asked
	}
	return s
}

// object is a charge on the wire.
type object struct {
	ID        string     `json:"id"`
	Reference string     `json:"reference"`
	Status    string     `json:"status"`
	Amount    int64      `json:"amount"`
	Currency  string     `json:"currency"`
	CreatedAt time.Time  `json:"created_at"`
	Key       string     `json:"idempotency_key,omitempty"`
	OrderRef  string     `json:"order_ref,omitempty"`
	ActionURL string     `json:"action_url,omitempty"`
	Error     *errorBody `json:"error,omitempty"`
	Totals    *totals    `json:"totals,omitempty"` // once it took or held money
	HeldUntil time.Time  `json:"authorised_until,omitzero"`
}

// totals are a charge's running figures.
type totals struct {
	Held     int64 `json:"authorised,omitempty"`
	Captured int64 `json:"captured"`
	Refunded int64 `json:"refunded"`
}

// errorBody is the contract's error object.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// wire renders a charge for answers and events; base is the provider's URL.
func (c Charge) wire(base string) object {
	o := object{
		ID: c.ID, Reference: c.Reference, Status: c.Status, Amount: c.Amount,
		Currency: c.Currency, CreatedAt: c.CreatedAt, Key: c.Key, OrderRef: c.OrderRef,
	}
	if c.Status == StatusRequiresAction {
		o.ActionURL = base + "/actions/" + c.ID
	}
	if c.Status == StatusSucceeded {
		o.Totals = &totals{Captured: c.taken(), Refunded: c.Refunded}
	}
	if c.Manual && !c.HeldUntil.IsZero() {
		o.HeldUntil = c.HeldUntil
		o.Totals = &totals{Held: c.Amount, Captured: c.Captured, Refunded: c.Refunded}
	}
	if c.Code != "" && c.final() && c.Status != StatusSucceeded {
		o.Error = &errorBody{Code: c.Code, Message: c.Message}
	}
	return o
}

// stored is the answer kept under an idempotency key.
type stored struct {
	Key    string    `json:"key"`
	Hash   string    `json:"hash"` // of the request body
	Status int       `json:"status"`
	Body   string    `json:"body"` // as text: the exact bytes come back
	At     time.Time `json:"at"`
}

// event is one webhook event until it is acknowledged. The delivery faults are
// decided when it is made and kept with it, so that a restart changes nothing.
type event struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	ChargeID string    `json:"charge_id,omitempty"`
	Face     string    `json:"face,omitempty"` // whose signature header it has
	Body     string    `json:"body"`           // as text: the exact bytes are sent and signed
	Due      time.Time `json:"due"`

	Early    bool `json:"early,omitempty"`    // first delivery before the answer
	Copies   int  `json:"copies,omitempty"`   // deliveries after the acknowledged one
	Parallel int  `json:"parallel,omitempty"` // simultaneous deliveries of the first try
	BadSigs  int  `json:"bad_sigs,omitempty"` // tries with a wrong HMAC
	OldSigs  int  `json:"old_sigs,omitempty"` // tries signed ten minutes ago
	Held     bool `json:"held,omitempty"`     // waits until the charge's final event was acknowledged
	Unsent   bool `json:"unsent,omitempty"`   // never delivered; only to be asked for
}

// newID returns an unguessable id such as pay_1f0c….
func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return prefix + "_" + hex.EncodeToString(b[:])
}
