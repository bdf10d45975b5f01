package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/store"
)

// history is what earlier attempts of a payment's charge, or of an operation on it, left behind.
type history struct {
	attempts int    // sends intended so far, whatever became of them
	notSent  int    // of these, provably not sent; these use up the tries
	key      string // operation key, empty before the first attempt
	// first and last are when attempts were marked as maybe sent; zero before the first.
	first, last time.Time
}

// historyOf is the history of a payment's charge.
func historyOf(c store.Chargeable) history {
	return history{attempts: c.Attempts, notSent: c.NotSent, key: c.Key, first: c.First, last: c.Last}
}

// readAttempts reads what is left of a payment's attempts of one operation on it.
func (r *Runner) readAttempts(ctx context.Context, id uuid.UUID, operation string) (history, error) {
	const q = `
		SELECT count(*), count(*) FILTER (WHERE outcome = 'not_sent'),
		       coalesce(min(operation_key), ''), min(marked_at), max(marked_at)
		FROM attempts WHERE payment_id = $1 AND operation = $2`
	var h history
	var first, last *time.Time
	err := r.cfg.Store.Pool().QueryRow(ctx, q, id, operation).Scan(&h.attempts, &h.notSent, &h.key, &first, &last)
	if err != nil {
		return history{}, fmt.Errorf("jobs: attempts of %s: %w", id, err)
	}
	if first != nil && last != nil {
		h.first, h.last = *first, *last
	}
	return h, nil
}

// lockPayment reads a payment's status and review reasons under its row lock.
func lockPayment(ctx context.Context, tx pgx.Tx, id uuid.UUID) (store.Payment, error) {
	p := store.Payment{ID: id}
	err := tx.QueryRow(ctx, `SELECT status, needs_review FROM payments WHERE id = $1 FOR UPDATE`, id).
		Scan(&p.Status, &p.NeedsReview)
	if err != nil {
		return store.Payment{}, fmt.Errorf("jobs: lock payment %s: %w", id, err)
	}
	return p, nil
}
