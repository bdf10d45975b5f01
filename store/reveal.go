package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// RevealParams of Reveal. Exactly one of AttemptID and ObjectID is set.
type RevealParams struct {
	ActionID  uuid.UUID // one-time id from the form; a repeat shows the same again
	PaymentID uuid.UUID
	AttemptID uuid.UUID // shows the answer to that attempt
	ObjectID  string    // shows the provider's object with that id
	Reason    string
	By        Actor
}

// Revealed is an answer as it was stored: without card numbers, tokens and secrets, which
// never reach the books.
type Revealed struct {
	Body        []byte
	ContentType string
}

// Reveal reads what a provider answered, as stored, and records in the timeline and the
// audit log who looked at it and why. Errors: ErrNotFound (no such answer),
// ErrNotAllowed (no reason).
func (s *Store) Reveal(ctx context.Context, r RevealParams) (Revealed, error) {
	var out Revealed
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		reason := strings.TrimSpace(clean(r.Reason))
		if reason == "" {
			return ErrNotAllowed
		}
		e := beside{kind: kindRevealed, action: "payment.reveal", reason: reason}
		var err error
		if r.ObjectID != "" {
			e.evidence = map[string]any{"object": r.ObjectID}
			err = tx.QueryRow(ctx, `SELECT raw FROM provider_objects WHERE payment_id = $1 AND object_id = $2 AND raw IS NOT NULL`,
				r.PaymentID, r.ObjectID).Scan(&out.Body)
			out.ContentType = "application/json"
		} else {
			e.evidence, e.attempt = map[string]any{"attempt": r.AttemptID.String()}, &r.AttemptID
			err = tx.QueryRow(ctx, `SELECT response_body, content_type FROM attempts WHERE payment_id = $1 AND id = $2 AND response_body IS NOT NULL`,
				r.PaymentID, r.AttemptID).Scan(&out.Body, &out.ContentType)
		}
		if err != nil {
			return notFound(err)
		}
		e.after = e.evidence
		first, err := s.claimBeside(ctx, tx, r.ActionID, r.PaymentID, e.action, r.By)
		if err != nil || !first {
			return err
		}
		return s.recordBeside(ctx, tx, r.PaymentID, r.By, e)
	})
	if err != nil {
		return Revealed{}, fmt.Errorf("reveal an answer of payment %s: %w", r.PaymentID, err)
	}
	return out, nil
}
