package store

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxNote is how long a note may be, in characters.
const MaxNote = 2000

// Kinds of what people add to a timeline without changing the payment.
const (
	kindNote     = "note"
	kindRevealed = "revealed"
)

// AddNote writes a person's note into a payment's timeline, once per action id; first is
// false on a repeat. Notes are never changed or taken away: a correction is another note.
// A note does not count as a change of the payment, so it stands in nobody's way.
// Errors: ErrNotFound, ErrNotAllowed (no text, or more than MaxNote characters).
func (s *Store) AddNote(ctx context.Context, actionID, paymentID uuid.UUID, text string, by Actor) (first bool, err error) {
	text = strings.TrimSpace(clean(text))
	if n := utf8.RuneCountInString(text); n == 0 || n > MaxNote {
		return false, ErrNotAllowed
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		first, err = s.claimBeside(ctx, tx, actionID, paymentID, "payment.note", by)
		if err != nil || !first {
			return err
		}
		return s.recordBeside(ctx, tx, paymentID, by, beside{kind: kindNote, action: "payment.note",
			evidence: map[string]any{"note": text}, after: map[string]any{"characters": utf8.RuneCountInString(text)}})
	})
	if err != nil {
		return false, fmt.Errorf("note on payment %s: %w", paymentID, err)
	}
	return first, nil
}

// NoteCounts counts the notes of payments; one without notes is not in the result.
func (s *Store) NoteCounts(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]int, error) {
	rows, err := s.pool.Query(ctx, `SELECT payment_id, count(*) FROM payment_events
		WHERE payment_id = ANY($1) AND kind = 'note' GROUP BY payment_id`, ids)
	if err != nil {
		return nil, wrap(err, "count notes")
	}
	out := map[uuid.UUID]int{}
	var id uuid.UUID
	var n int
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		out[id] = n
		return nil
	})
	return out, wrap(err, "count notes")
}

// claimBeside claims a one-time id for something beside the payment. A repeat counts as
// one only from the same person about the same payment; anybody else's is refused.
func (s *Store) claimBeside(ctx context.Context, tx pgx.Tx, actionID, paymentID uuid.UUID, action string, by Actor) (first bool, err error) {
	target := "payment:" + paymentID.String()
	first, _, err = s.ClaimAction(ctx, tx, actionID, by, action, target, "done")
	if err != nil || first {
		return first, err
	}
	var same bool
	err = tx.QueryRow(ctx, `SELECT actor = $2 AND action = $3 AND target = $4 FROM console_actions WHERE id = $1`,
		actionID, by.String(), action, target).Scan(&same)
	if err == nil && !same {
		err = ErrNotAllowed
	}
	return false, err
}

// beside is an event that moves nothing.
type beside struct {
	kind, action, reason string
	attempt              *uuid.UUID
	evidence, after      map[string]any
}

// recordBeside writes such an event and its audit row. ErrNotFound.
func (s *Store) recordBeside(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, by Actor, e beside) error {
	var status Status
	if err := tx.QueryRow(ctx, `SELECT status FROM payments WHERE id = $1`, paymentID).Scan(&status); err != nil {
		return notFound(err)
	}
	var b pgx.Batch
	queueEvent(&b, TimelineEvent{PaymentID: paymentID, At: s.Now(), Kind: e.kind, Source: "operator", Actor: by.String(),
		FromStatus: status, ToStatus: status, Reason: e.reason, AttemptID: e.attempt, Evidence: e.evidence})
	queueAudit(&b, s.Now(), by, e.action, "payment:"+paymentID.String(), e.reason, nil, e.after)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return wrap(err, "record "+e.kind)
	}
	return Notify(ctx, tx, TopicPayments)
}
