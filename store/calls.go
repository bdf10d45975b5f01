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
	Class      string // charge, status, token, ping
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
	var b pgx.Batch
	s.queueCalls(&b, []CallOutcome{c})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return wrap(err, "record call")
	}
	return Notify(ctx, tx, TopicProviders)
}

func (s *Store) queueCalls(b *pgx.Batch, list []CallOutcome) {
	var c struct {
		at                                               []time.Time
		provider, class, verdict, outcome, error, worker []string
		latency                                          []int64
		payment                                          []uuid.NullUUID
	}
	for _, o := range list {
		if o.At.IsZero() {
			o.At = s.Now()
		}
		c.at, c.provider, c.class = append(c.at, o.At), append(c.provider, o.Provider), append(c.class, o.Class)
		c.verdict, c.outcome, c.error = append(c.verdict, o.Verdict), append(c.outcome, o.Outcome), append(c.error, clean(o.ErrorClass))
		c.latency, c.worker, c.payment = append(c.latency, max(o.Latency.Microseconds(), 0)), append(c.worker, o.Worker), append(c.payment, nullUUID(o.PaymentID))
	}
	b.Queue(`INSERT INTO call_outcomes (at, provider, class, verdict, outcome, error_class, latency_us, worker, payment_id)
		SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::uuid[])`,
		c.at, c.provider, c.class, c.verdict, c.outcome, c.error, c.latency, c.worker, c.payment)
}
