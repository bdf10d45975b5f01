// Package provider is the boundary to payment providers: the vocabulary of
// outcomes, the pure reading of an answer (outcome.go), the one guarded HTTP
// client every money call goes through (httpcall.go), and the interface an
// adapter implements. It knows nothing of our database, jobs or console.
package provider

import (
	"context"
	"net/http"
	"time"
)

// Money is an amount in minor units of an ISO 4217 currency (4900 EUR is 49.00 €).
type Money struct {
	Amount   int64
	Currency string
}

// ChargeRequest is what the engine asks a provider to charge.
type ChargeRequest struct {
	PaymentID     string // our payment id; adapters put it into the provider's reference or metadata
	OrderRef      string
	Money         Money
	Description   string
	CustomerName  string
	CustomerEmail string
	// PaymentMethod and CustomerID are the provider's own ids of a stored payment method
	// and of the customer it belongs to, for providers that charge nothing else (Stripe:
	// pm_…, cus_…). Empty at the others. A client names them in its payment's metadata.
	PaymentMethod string
	CustomerID    string
	// ManualCapture: hold the money and take it when a capture says so.
	ManualCapture bool
}

// Where a payment's metadata names the stored payment method and its customer.
const (
	MetaPaymentMethod = "payment_method"
	MetaCustomerID    = "customer_id"
)

// Way is one way an adapter can learn the truth about a charge whose answer was lost.
type Way string

// Ways to the truth, see money-rules §6.
const (
	ByReference Way = "by_reference" // ask by our payment id
	ByKey       Way = "by_key"       // ask by the idempotency key we sent
	ByID        Way = "by_id"        // ask by the provider's id, when an answer or event delivered one
	ReplayKey   Way = "replay_key"   // send the same key and bytes again; documented by the provider as safe
	WebhookOnly Way = "webhook_only" // nothing to ask; wait for the provider's event
)

// Capabilities is what an adapter declares about its provider. The engine trusts
// it, and the conformance suite checks it.
type Capabilities struct {
	IdempotencyKeys bool          // the provider honours a key; without it nothing is ever resent without a lookup
	KeyLife         time.Duration // how long the provider remembers a key; 0 without keys
	Ways            []Way         // ways to the truth in the order to try them; empty means an operator has to
	Listing         bool          // the provider can list its charges (sync needs it)
	Webhooks        bool          // the provider sends signed events
	Ping            bool          // there is a cheap read that tells whether the provider is there; the adapter is a Pinger
	// ListPages is how many further requests a lookup by reference may cost, at a provider
	// that cannot filter by reference and has its list read through.
	ListPages int
	// NeverAbsent: a lookup can find a charge and never shows that there is none, because
	// what it asks lags behind or holds only some of them.
	NeverAbsent bool

	Operations []OperationKind // what can be done to a charge; the adapter is an Operator when there is any
	Disputes   bool            // the provider sends events about disputes
	// ListsRefunds: the list holds every refund beside the charges.
	ListsRefunds bool
	// TokenCircuit: requests carry a token, which is fetched under a circuit of class
	// ClassToken.
	TokenCircuit bool
}

// Has reports whether w is among the declared ways.
func (c Capabilities) Has(w Way) bool {
	for _, x := range c.Ways {
		if x == w {
			return true
		}
	}
	return false
}

// CanAsk reports whether any declared way asks the provider a question.
func (c Capabilities) CanAsk() bool {
	return c.Has(ByReference) || c.Has(ByKey) || c.Has(ByID)
}

// Object is a charge as the provider describes it.
type Object struct {
	ID           string    // the provider's id
	Reference    string    // our payment id, if the provider carries it
	OperationKey string    // the idempotency key it was made with, if the provider tells
	Status       string    // the provider's own word
	Outcome      Outcome   // our reading of Status; empty when the word is not on the adapter's list
	Money        Money     // zero Amount when the provider did not say
	Reason       string    // decline code and the like
	Message      string    // the provider's words for people; hostile text
	CreatedAt    time.Time // by the provider's clock
	Raw          []byte    // redacted JSON, capped

	Kind   ObjectKind // what it is; a charge unless said otherwise
	Child  Child      // of a refund or dispute
	Totals *Totals    // of a charge; nil: the provider did not say
}

// Charged is the result of one charge call: the classification, the facts of the
// wire, and the object if the answer carried one.
type Charged struct {
	Classification
	Exchange Exchange
	Object   *Object // nil unless an object could be read; on an undecodable body a hint only
}

// LookupQuery asks a provider about one charge.
type LookupQuery struct {
	PaymentID         string // our reference
	OperationKey      string
	ProviderPaymentID string // may be empty
	Want              Money
	// SentFrom and SentTo are when the charge was first and last sent: where a list has to
	// be searched, the stretch to search. Zero when not known.
	SentFrom, SentTo time.Time
	// Cursor is what the last lookup of this charge left in LookedUp.Cursor.
	Cursor string
}

// LookupVerdict is what a lookup established.
type LookupVerdict string

// Lookup verdicts.
const (
	LookupFound    LookupVerdict = "found"     // at least one object
	LookupAbsent   LookupVerdict = "absent"    // the provider said, about our reference or key, that there is none
	LookupNoAnswer LookupVerdict = "no_answer" // transport trouble, 5xx, 401/403, undecodable: proves nothing
)

// LookedUp is the result of asking a provider about one charge.
type LookedUp struct {
	Verdict  LookupVerdict
	Way      Way
	Objects  []Object // when found; more than one means duplicates at the provider
	Health   Verdict  // for the breaker of class "status"
	Reason   string   // machine-readable, e.g. not_found, http_503, forbidden
	Alert    string   // alert kind to raise, or empty
	Requests int      // HTTP requests made, ≤ 3 per way
	Exchange Exchange // of the last request
	// Cursor is where a list that is read through was left, opaque to the engine, which keeps
	// it and brings it back with the next lookup of this charge. Losing it costs requests.
	Cursor string
	// More: nothing went wrong, and there is more to read than one lookup may. The next one
	// should follow soon, and is a part of this one.
	More bool
}

// ListQuery asks for one page of a provider's charges, oldest first.
type ListQuery struct {
	From, To time.Time // From inclusive, To exclusive, by the provider's clock
	Cursor   string    // empty for the first page
	Limit    int
}

// Page is one page of a provider's charges.
type Page struct {
	Objects []Object
	Next    string // empty at the last page
	Health  Verdict
}

// Event is one provider event, read from a verified webhook body.
type Event struct {
	Key         string // what is really unique for this provider; the inbox is unique on (provider, Key)
	Type        string // the provider's event type
	Interesting bool   // false: signed, but not about a charge; stored as ignored
	Object      Object
	OccurredAt  time.Time
}

// Signature verdicts of a webhook delivery.
const (
	SignatureValid    = "valid"
	SignatureInvalid  = "invalid"
	SignatureMissing  = "missing"
	SignatureTooOld   = "too_old"
	SignatureInFuture = "in_future"
)

// Verification is what checking a delivery's signature established.
type Verification struct {
	Verdict     string // SignatureValid or why not
	SecretLabel string // which configured secret matched ("1" is the newest), never the secret
	TimeReject  bool   // the HMAC was right and only the time was out of tolerance: check the clock
}

// Adapter is a payment provider. Implementations live in a folder each, are safe
// for concurrent use and hold no state of a payment.
//
// The legal order for a charge is: Freeze once; store the bytes; then Charge with
// those bytes, any number of times under the same key and never with other bytes.
type Adapter interface {
	// Name is the configured name ("atlas"), not the kind ("gateway").
	Name() string
	Capabilities() Capabilities
	// Freeze renders the request body to be stored and sent. It returns a *FieldError
	// when the provider cannot take the request (currency, divisibility): refused
	// before anything is sent.
	Freeze(ChargeRequest) ([]byte, error)
	// Charge makes exactly one wire send of body under key and reads the answer.
	// It never returns an error: whatever happened is in the classification.
	Charge(ctx context.Context, key string, body []byte, want Money) Charged
	// Lookup asks about one charge by the declared ways in order, with the client's
	// own retries (3 tries, about 200, 400, 800 ms).
	Lookup(ctx context.Context, q LookupQuery) LookedUp
	// List returns one page. An error means no page; its verdict is in the Page.
	List(ctx context.Context, q ListQuery) (Page, error)
	// Verify checks the signature over the exact raw bytes, in constant time, with
	// every active secret, at time now.
	Verify(h http.Header, raw []byte, now time.Time) Verification
	// Parse reads a verified body into its events (some providers batch). An error
	// means the body is not what the provider documents.
	Parse(raw []byte) ([]Event, error)
}

// Registry holds the configured adapters by name, in configuration order.
type Registry struct {
	names    []string
	adapters map[string]Adapter
}

// NewRegistry returns a registry of the given adapters. Names must be unique.
func NewRegistry(adapters ...Adapter) *Registry {
	r := &Registry{adapters: make(map[string]Adapter, len(adapters))}
	for _, a := range adapters {
		if _, dup := r.adapters[a.Name()]; dup {
			panic("provider: duplicate name " + a.Name())
		}
		r.names = append(r.names, a.Name())
		r.adapters[a.Name()] = a
	}
	return r
}

// Get returns the adapter of that name, and whether there is one.
func (r *Registry) Get(name string) (Adapter, bool) {
	a, ok := r.adapters[name]
	return a, ok
}

// Names returns the configured names in order.
func (r *Registry) Names() []string { return r.names }
