package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// CallOutcome is one provider call, for tuning and the provider strip.
type CallOutcome struct {
	At         time.Time // zero: now
	Provider   string
	Class      string // charge, status
	Verdict    string // ok, fail, neutral
	Outcome    string
	ErrorClass string
	Latency    time.Duration
	Worker     string
	PaymentID  *uuid.UUID
}

// RecordCall stores one provider call in tx (nil: its own).
func (s *Store) RecordCall(ctx context.Context, tx pgx.Tx, c CallOutcome) error {
	if tx == nil {
		return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.RecordCall(ctx, tx, c) })
	}
	if c.At.IsZero() {
		c.At = s.Now()
	}
	_, err := tx.Exec(ctx, `INSERT INTO call_outcomes (at, provider, class, verdict, outcome, error_class, latency_us, worker, payment_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.At, c.Provider, c.Class, c.Verdict, c.Outcome, clean(c.ErrorClass), max(c.Latency.Microseconds(), 0), c.Worker, c.PaymentID)
	if err != nil {
		return wrap(err, "record call")
	}
	return Notify(ctx, tx, TopicProviders)
}
