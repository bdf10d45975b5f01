package jobs

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// operationArgs asks for an operation (a refund) to be sent, or for the resend of an
// unknown one's own key and bytes, in the queue and so the bulkhead of its provider's
// charges. The two are unique apart from each other, see chargeArgs.
type operationArgs struct {
	OperationID uuid.UUID `json:"operation_id" river:"unique"`
	Replay      bool      `json:"replay" river:"unique"`
	Provider    string    `json:"provider"`
}

// Kind implements river.JobArgs.
func (operationArgs) Kind() string { return kindOperation }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (a operationArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: chargeQueue(a.Provider), UniqueOpts: unique()}
}

// operationLookupArgs asks for a lookup of an operation. Like a reconcile job it
// completes only under the payment's row lock, see liveStates.
type operationLookupArgs struct {
	OperationID uuid.UUID `json:"operation_id" river:"unique"`
	Provider    string    `json:"provider"`
}

// Kind implements river.JobArgs.
func (operationLookupArgs) Kind() string { return kindOpLookup }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (a operationLookupArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: statusQueue(a.Provider), UniqueOpts: unique()}
}
