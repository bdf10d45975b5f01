package store

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reasons in payments.next_check_why that the store itself writes.
const (
	whyCharge     = "charge"     // the charge job is queued
	whyInFlight   = "in_flight"  // an attempt is running
	whyRetry      = "retry"      // provably not executed; the job comes back
	whyThrottled  = "throttled"  // the provider asked us to come back later
	whyPaused     = "paused"     // charges of the provider are paused
	whyReconcile  = "reconcile"  // a lookup is queued
	whyRecharge   = "recharge"   // the same key and bytes go out again
	whyAuthorised = "authorised" // the money is held until it is captured or let go
	whyOperator   = "operator"   // a person asked for a lookup
)

// PauseCharges pauses a provider's charge queue after a configuration alarm; ResumeCharges
// lifts it on a person's word and re-enqueues waiting payments. Paused already: nothing.
func (s *Store) PauseCharges(ctx context.Context, tx pgx.Tx, provider, reason string) error {
	now := s.Now()
	tag, err := tx.Exec(ctx, `
		INSERT INTO provider_state AS p (provider, charges_paused, paused_reason, paused_at) VALUES ($1, true, $2, $3)
		ON CONFLICT (provider) DO UPDATE SET charges_paused = true, paused_reason = $2, paused_at = $3
		WHERE NOT p.charges_paused`, provider, reason, now)
	if err != nil {
		return wrap(err, "pause charges")
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	_, err = s.RaiseAlert(ctx, tx, Alert{
		Kind: "config_alarm", Severity: "critical", Provider: provider,
		Title:     "Charges of " + provider + " are paused",
		Detail:    "The provider refuses our credentials (" + reason + "). Nothing is lost: payments wait. Fix the configuration, then resume.",
		DedupeKey: "config_alarm:" + provider + ":" + now.Format(time.RFC3339Nano),
	})
	if err != nil {
		return err
	}
	return Notify(ctx, tx, TopicProviders)
}

// ResumeCharges lifts a pause and enqueues the charge jobs of the payments that wait
// for it, in batches: a crash in between leaves the rest to their own retry times. Not
// paused: nothing. See PauseCharges.
func (s *Store) ResumeCharges(ctx context.Context, provider string, by Actor, reason string) error {
	lifted := false
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		lifted, err = s.liftPause(ctx, tx, provider, by, reason)
		return err
	})
	last := uuid.Nil
	for err == nil && lifted {
		var more bool
		err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			last, more, err = s.requeuePending(ctx, tx, provider, last)
			return err
		})
		if !more {
			break
		}
	}
	return err
}

func (s *Store) liftPause(ctx context.Context, tx pgx.Tx, provider string, by Actor, reason string) (bool, error) {
	var was string
	err := tx.QueryRow(ctx, `
		UPDATE provider_state p SET charges_paused = false, paused_reason = '', paused_at = NULL
		FROM provider_state old WHERE p.provider = $1 AND p.charges_paused AND old.provider = p.provider
		RETURNING old.paused_reason`, provider).Scan(&was)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, wrap(err, "resume charges")
	}
	err = s.Audit(ctx, tx, by, "provider.resume", "provider:"+provider, reason,
		map[string]any{"charges_paused": true, "reason": was}, map[string]any{"charges_paused": false})
	if err != nil {
		return false, err
	}
	if err := s.requeueOperations(ctx, tx, provider); err != nil {
		return false, err
	}
	return true, Notify(ctx, tx, TopicProviders)
}

// resumeBatch is how many payments one transaction of ResumeCharges takes.
const resumeBatch = 200

// requeuePending pulls the charge jobs of a provider's pending payments after the
// given id forward.
func (s *Store) requeuePending(ctx context.Context, tx pgx.Tx, provider string, after uuid.UUID) (last uuid.UUID, more bool, err error) {
	rows, err := tx.Query(ctx, `
		UPDATE payments SET next_check_at = $2, next_check_why = $3
		WHERE id IN (SELECT id FROM payments WHERE provider = $1 AND status = 'pending' AND id > $4 ORDER BY id LIMIT $5 FOR UPDATE)
		RETURNING id`, provider, s.Now(), whyCharge, after, resumeBatch)
	if err != nil {
		return after, false, wrap(err, "requeue pending")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return after, false, wrap(err, "requeue pending")
	}
	last = after
	for _, id := range ids {
		if err := s.enqueuer().Charge(ctx, tx, id, provider, time.Time{}); err != nil {
			return after, false, err
		}
		if bytes.Compare(id[:], last[:]) > 0 { // RETURNING keeps no order
			last = id
		}
	}
	return last, len(ids) == resumeBatch, Notify(ctx, tx, TopicPayments)
}

func chargesPaused(ctx context.Context, tx pgx.Tx, provider string) (bool, error) {
	var paused bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM provider_state WHERE provider = $1 AND charges_paused)`, provider).Scan(&paused)
	return paused, wrap(err, "read pause")
}
