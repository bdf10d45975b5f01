package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NoteWaiting records that a payment's job waits (circuit open, throttled, in flight,
// paused): next_check_at, why, and one timeline event per stretch of waiting. A payment
// that is final by now stays as it is. ErrNotFound.
func (s *Store) NoteWaiting(ctx context.Context, id uuid.UUID, until time.Time, why, detail string) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p, err := lockPayment(ctx, tx, id)
		if err != nil || p.Status.Final() {
			return err
		}
		_, _, err = s.apply(ctx, tx, p, change{
			next: next{at: until, why: clean(why)},
			kind: "snoozed", source: "job", by: System("jobs"), quiet: p.NextCheckWhy == why,
			detail: map[string]any{"why": why, "until": until.UTC(), "detail": detail},
		})
		return err
	})
}
