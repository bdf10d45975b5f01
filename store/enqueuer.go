package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// errNoEnqueuer: a write on a store that was made for reading only.
var errNoEnqueuer = errors.New("store: made without an enqueuer, so it can only read")

// noEnqueuer refuses everything, which rolls the transaction back.
type noEnqueuer struct{}

func (noEnqueuer) Charge(context.Context, pgx.Tx, uuid.UUID, string, time.Time) error {
	return errNoEnqueuer
}
func (noEnqueuer) QueueCharges(context.Context, *pgx.Batch, []ChargeJob) error { return errNoEnqueuer }
func (noEnqueuer) Recharge(context.Context, pgx.Tx, uuid.UUID, string) error   { return errNoEnqueuer }
func (noEnqueuer) Reconcile(context.Context, pgx.Tx, uuid.UUID, string, time.Time) error {
	return errNoEnqueuer
}
func (noEnqueuer) Operation(context.Context, pgx.Tx, uuid.UUID, string, time.Time) error {
	return errNoEnqueuer
}
func (noEnqueuer) ReplayOperation(context.Context, pgx.Tx, uuid.UUID, string) error {
	return errNoEnqueuer
}
func (noEnqueuer) OperationLookup(context.Context, pgx.Tx, uuid.UUID, string, time.Time) error {
	return errNoEnqueuer
}
func (noEnqueuer) Webhook(context.Context, pgx.Tx, int64) error             { return errNoEnqueuer }
func (noEnqueuer) QueueWebhooks(context.Context, *pgx.Batch, []int64) error { return errNoEnqueuer }
func (noEnqueuer) Alert(context.Context, pgx.Tx, int64) error               { return errNoEnqueuer }
func (noEnqueuer) Sync(context.Context, pgx.Tx, string, string) error       { return errNoEnqueuer }
func (noEnqueuer) Bulk(context.Context, pgx.Tx, uuid.UUID, string) error {
	return errNoEnqueuer
}
