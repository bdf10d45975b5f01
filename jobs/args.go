package jobs

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// River job kinds.
const (
	kindCharge    = "charge"
	kindReconcile = "reconcile"
	kindOperation = "operation"        // sends a refund
	kindOpLookup  = "operation_lookup" // asks what became of one
	kindSync      = "sync"
	kindSweep     = "sweep"
	kindWebhook   = "webhook"
	kindAlert     = "alert"
)

// liveStates are the states in which a job counts as live work. A second insert
// for live work does nothing; completed, cancelled and discarded jobs never block.
// River insists on "running" being among them, so work that turns up while its own
// job runs is skipped. Each kind closes that window in its own way:
//   - charge and sync re-arm by snoozing themselves, and complete in the transaction
//     that writes the outcome, or after one that settled the payment for good;
//   - reconcile completes only under the payment's row lock, see reconcile.go;
//   - webhook and alert rows are found again by the sweep.
var liveStates = []rivertype.JobState{
	rivertype.JobStateAvailable,
	rivertype.JobStatePending,
	rivertype.JobStateRetryable,
	rivertype.JobStateRunning,
	rivertype.JobStateScheduled,
}

// unique makes a job unique by the args fields tagged river:"unique" while it lives.
func unique() river.UniqueOpts {
	return river.UniqueOpts{ByArgs: true, ByState: liveStates}
}

// chargeQueue is the queue, and so the bulkhead, of a provider's money calls.
func chargeQueue(provider string) string { return "charge_" + provider }

// statusQueue is the queue of a provider's lookups and syncs: they flow while
// charges are blocked, and can never fill the charge queue.
func statusQueue(provider string) string { return "status_" + provider }

// chargeArgs asks for the charge of a payment, or for the resend of an unknown
// one's own key and bytes. The two are unique apart from each other: a charge job
// left "running" by a killed process must not swallow the resend.
type chargeArgs struct {
	PaymentID uuid.UUID `json:"payment_id" river:"unique"`
	Recharge  bool      `json:"recharge" river:"unique"`
	Provider  string    `json:"provider"`
}

// Kind implements river.JobArgs.
func (chargeArgs) Kind() string { return kindCharge }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (a chargeArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: chargeQueue(a.Provider), UniqueOpts: unique()}
}

// reconcileArgs asks for a lookup of a payment.
type reconcileArgs struct {
	PaymentID uuid.UUID `json:"payment_id" river:"unique"`
	Provider  string    `json:"provider"`
}

// Kind implements river.JobArgs.
func (reconcileArgs) Kind() string { return kindReconcile }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (a reconcileArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: statusQueue(a.Provider), UniqueOpts: unique()}
}

// syncArgs asks for a reconciliation run of a provider.
type syncArgs struct {
	Provider    string `json:"provider" river:"unique"`
	TriggeredBy string `json:"triggered_by"`
}

// Kind implements river.JobArgs.
func (syncArgs) Kind() string { return kindSync }

// InsertOpts implements river.JobArgsWithInsertOpts. A sync yields to lookups in
// the queue they share: a person may be waiting for a lookup.
func (a syncArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: statusQueue(a.Provider), Priority: 3, UniqueOpts: unique()}
}

// sweepArgs asks for one sweep of the rows.
type sweepArgs struct{}

// Kind implements river.JobArgs.
func (sweepArgs) Kind() string { return kindSweep }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (sweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: river.QueueDefault, UniqueOpts: unique()}
}

// webhookArgs asks for the application of an inbox row.
type webhookArgs struct {
	EventID int64 `json:"event_id" river:"unique"`
}

// Kind implements river.JobArgs.
func (webhookArgs) Kind() string { return kindWebhook }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (webhookArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: river.QueueDefault, UniqueOpts: unique()}
}

// alertArgs asks for the delivery of a stored alert.
type alertArgs struct {
	AlertID int64 `json:"alert_id" river:"unique"`
}

// Kind implements river.JobArgs.
func (alertArgs) Kind() string { return kindAlert }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (alertArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: river.QueueDefault, Priority: 2, UniqueOpts: unique()}
}
