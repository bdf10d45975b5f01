package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reasons in payments.next_check_why that the store itself writes.
const (
	whyCharge    = "charge"    // the charge job is queued
	whyInFlight  = "in_flight" // an attempt is running
	whyRetry     = "retry"     // provably not executed; the job comes back
	whyThrottled = "throttled" // the provider asked us to come back later
	whyPaused    = "paused"    // charges of the provider are paused
	whyReconcile = "reconcile" // a lookup is queued
	whyRecharge  = "recharge"  // the same key and bytes go out again
	whyOperator  = "operator"  // a person asked for a lookup
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
// for it. Not paused: nothing. See PauseCharges.
func (s *Store) ResumeCharges(ctx context.Context, provider string, by Actor, reason string) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var was string
		err := tx.QueryRow(ctx, `
			UPDATE provider_state p SET charges_paused = false, paused_reason = '', paused_at = NULL
			FROM provider_state old WHERE p.provider = $1 AND p.charges_paused AND old.provider = p.provider
			RETURNING old.paused_reason`, provider).Scan(&was)
		if notFound(err) == ErrNotFound {
			return nil
		}
		if err != nil {
			return wrap(err, "resume charges")
		}
		err = s.Audit(ctx, tx, by, "provider.resume", "provider:"+provider, reason,
			map[string]any{"charges_paused": true, "reason": was}, map[string]any{"charges_paused": false})
		if err != nil {
			return err
		}
		if err := s.requeuePending(ctx, tx, provider); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicProviders)
	})
}

// requeuePending pulls the charge jobs of a provider's pending payments forward.
func (s *Store) requeuePending(ctx context.Context, tx pgx.Tx, provider string) error {
	rows, err := tx.Query(ctx, `
		UPDATE payments SET next_check_at = $2, next_check_why = $3
		WHERE id IN (SELECT id FROM payments WHERE provider = $1 AND status = 'pending' ORDER BY id FOR UPDATE)
		RETURNING id`, provider, s.Now(), whyCharge)
	if err != nil {
		return wrap(err, "requeue pending")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return wrap(err, "requeue pending")
	}
	for _, id := range ids {
		if err := s.enqueuer().Charge(ctx, tx, id, provider, time.Time{}); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return Notify(ctx, tx, TopicPayments)
}

func chargesPaused(ctx context.Context, tx pgx.Tx, provider string) (bool, error) {
	var paused bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM provider_state WHERE provider = $1 AND charges_paused)`, provider).Scan(&paused)
	return paused, wrap(err, "read pause")
}
