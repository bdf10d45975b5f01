package provider

import (
	"context"
	"time"
)

// OperationKind is what is done to a charge that exists: a child record with a key, a
// status and attempts of its own. It never changes the charge's payment status.
type OperationKind string

// Operations on a charge.
const (
	OpRefund  OperationKind = "refund"  // gives money back, all of it or a part
	OpCapture OperationKind = "capture" // takes what was authorised, or a part
	OpVoid    OperationKind = "void"    // lets an authorisation go
)

// OperationRequest is what the engine asks to be done to a charge.
type OperationRequest struct {
	OperationID       string // ours; adapters put it into the provider's reference or metadata
	Kind              OperationKind
	PaymentID         string // ours
	ProviderPaymentID string // the charge, by the provider's id
	Charged           Money  // what the charge took, or authorised
	Money             Money  // of this operation; of a void, the whole authorisation
}

// OperationCall is one send of an operation. Everything in it was frozen at the first.
type OperationCall struct {
	Kind              OperationKind
	OperationID       string
	ProviderPaymentID string
	Key               string // idempotency key of this operation; empty for a provider without keys
	Body              []byte
	Want              Money
}

// OperationQuery asks a provider about one operation whose answer was lost.
type OperationQuery struct {
	Kind                OperationKind
	OperationID         string
	OperationKey        string
	PaymentID           string
	ProviderPaymentID   string
	ProviderOperationID string // may be empty
	Want                Money
}

// Operator is an adapter whose provider can do something to a charge; what, its
// Capabilities.Operations say. The rules are those of Adapter.Charge: freeze once,
// store the bytes, then send those bytes, exactly one wire send a call; the outcome
// table and the readings of evidence are the same.
type Operator interface {
	// FreezeOperation renders the request body. *FieldError when the provider cannot
	// take the request.
	FreezeOperation(OperationRequest) ([]byte, error)
	// Operate makes exactly one wire send. The Object in what it returns is the
	// operation's own (a refund, not its charge).
	Operate(ctx context.Context, c OperationCall) Charged
	// LookupOperation asks about one operation, by our reference or key or the
	// provider's id, as Adapter.Lookup does about a charge.
	LookupOperation(ctx context.Context, q OperationQuery) LookedUp
}

// ObjectKind tells what a provider's object is.
type ObjectKind string

// Kinds of objects. The zero value is a charge.
const (
	ObjectCharge  ObjectKind = ""
	ObjectRefund  ObjectKind = "refund"
	ObjectDispute ObjectKind = "dispute"
	// What a capture or void came to, as the answer to it or a question about it tells. Most
	// providers keep no object of their own for them: ID is the charge's then, and its own
	// otherwise. Outcome and Money are the operation's, and Child.Charge is the charge as it
	// is now.
	//
	// An event or list is about one only to tell that it was refused, or failed later, by our
	// Reference or by the ID of its own that the answer to it told: Outcome is Failed, and
	// without a Child.Charge nothing is said of the charge. Its success is an event about the
	// charge.
	ObjectCapture ObjectKind = "capture"
	ObjectVoid    ObjectKind = "void"
)

// Reasons an adapter gives for the status of a charge that is authorised before it is
// captured, in Object.Reason.
const (
	ReasonAuthorised = "authorised"            // the money is held and not taken
	ReasonVoided     = "voided"                // let go because somebody asked for it
	ReasonExpired    = "authorisation_expired" // let go by the provider: nobody captured in time
)

// Words of a dispute, in Object.Status: every adapter maps its provider's to these.
const (
	DisputeOpened = "opened"
	DisputeWon    = "won"
	DisputeLost   = "lost"
)

// Child is what an object that belongs to a charge says beside Object's own fields. Of
// a refund, Object.Reference is our operation id, if the provider carries it.
type Child struct {
	ChargeID  string    // the charge, by the provider's id
	PaymentID string    // the charge's own reference, if the provider repeats it: our payment id
	DueBy     time.Time // of a dispute: when evidence has to be there; zero: not said
	Charge    *Object   // of a capture or void: the charge as the provider describes it now
}

// Totals are a provider's running figures about one charge: a check, never an addition.
type Totals struct {
	Authorised, Captured, Refunded int64     // minor units of the charge's currency
	AuthorisedUntil                time.Time // when an authorisation lapses; zero: not said
}

// Can reports whether the provider is declared to do this to a charge.
func (c Capabilities) Can(k OperationKind) bool {
	for _, x := range c.Operations {
		if x == k {
			return true
		}
	}
	return false
}
