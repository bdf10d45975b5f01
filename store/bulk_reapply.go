package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// errDryRun rolls a dry run back.
var errDryRun = errors.New("store: dry run")

// ParseEvents reads the events in a stored delivery; an adapter's Parse is one.
type ParseEvents func(raw []byte) ([]provider.Event, error)

// Reapplied says what processing an event again does, or would do.
type Reapplied struct {
	Outcome   string     `json:"outcome"` // OutcomeChanged, OutcomeSame, OutcomeUnreadable or OutcomeSkipped
	Before    string     `json:"before"`  // state of the inbox row
	After     string     `json:"after"`
	Reason    string     `json:"reason,omitempty"` // of the row afterwards
	PaymentID *uuid.UUID `json:"payment_id,omitempty"`
	Moves     []Move     `json:"moves,omitempty"` // what it moves on the payment's timeline
}

// Move is one step of a payment, or a word about it that moves nothing.
type Move struct {
	Kind   string   `json:"kind"`
	From   string   `json:"from"`
	To     string   `json:"to"`
	Review []string `json:"review,omitempty"` // reasons added
}

// Moved reports whether the payment's status or review reasons change.
func (r Reapplied) Moved() bool {
	return slices.ContainsFunc(r.Moves, func(m Move) bool { return m.From != m.To || len(m.Review) > 0 })
}

// DryRunWebhook does what processing an event again does, in a transaction that is
// rolled back: the same code, and nothing stays. It waits only briefly for whoever works
// on the payment. Errors: ErrNotFound, contention.
func (s *Store) DryRunWebhook(ctx context.Context, eventID int64, parse ParseEvents) (out Reapplied, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '500ms'`); err != nil {
			return wrap(err, "dry run")
		}
		if out, err = s.reapply(ctx, tx, eventID, parse); err != nil {
			return err
		}
		return errDryRun
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return out, wrap(err, "dry run of webhook "+strconv.FormatInt(eventID, 10))
}

// reapply applies an inbox row again, in tx, and says what that changed.
func (s *Store) reapply(ctx context.Context, tx pgx.Tx, eventID int64, parse ParseEvents) (Reapplied, error) {
	in, err := lockEntry(ctx, tx, eventID)
	if err != nil {
		return Reapplied{}, err
	}
	before, err := readInbox(ctx, tx, eventID)
	if err != nil {
		return Reapplied{}, err
	}
	r := Reapplied{Outcome: OutcomeSame, Before: in.state, After: in.state, Reason: before.StateReason, PaymentID: before.PaymentID}
	switch {
	case before.Hint():
		r.Outcome, r.Reason = OutcomeSkipped, SkipHint
		return r, nil
	case in.state == inboxRejected || in.state == inboxUnparsed:
		r.Outcome = OutcomeUnreadable
		return r, nil
	case in.state != inboxReceived && in.state != inboxUnmatched:
		return r, nil // its effect is in the books, once
	}
	if r.After, err = s.ApplyWebhook(ctx, tx, eventID, parse); err != nil {
		return r, err
	}
	after, err := readInbox(ctx, tx, eventID)
	if err != nil {
		return r, err
	}
	r.Reason, r.PaymentID = after.StateReason, after.PaymentID
	switch {
	case r.After == inboxUnparsed:
		r.Outcome = OutcomeUnreadable
	case r.After != r.Before:
		r.Outcome = OutcomeChanged
	}
	r.Moves, err = moves(ctx, tx, after)
	return r, err
}

func readInbox(ctx context.Context, tx pgx.Tx, id int64) (e InboxEvent, err error) {
	err = tx.QueryRow(ctx, "SELECT "+inboxColumns+" FROM webhook_events WHERE id = $1", id).Scan(e.fields()...)
	return e, wrap(notFound(err), "read inbox row")
}

// moves reads what an inbox row's application wrote on the timeline.
func moves(ctx context.Context, tx pgx.Tx, e InboxEvent) ([]Move, error) {
	if e.PaymentID == nil {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT kind, from_status, to_status,
			coalesce(ARRAY(SELECT jsonb_array_elements_text(CASE jsonb_typeof(evidence->'review_added') WHEN 'array' THEN evidence->'review_added' ELSE '[]' END)), '{}')
		FROM payment_events WHERE payment_id = $1 AND source = 'webhook' AND evidence->>'inbox_id' = $2 ORDER BY id`,
		*e.PaymentID, strconv.FormatInt(e.ID, 10))
	if err != nil {
		return nil, wrap(err, "read moves")
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Move, err error) {
		return m, row.Scan(&m.Kind, &m.From, &m.To, &m.Review)
	})
}

// ReapplyBulkItem processes an item's event again and writes what became of it, in one
// transaction.
func (s *Store) ReapplyBulkItem(ctx context.Context, it BulkItem, parse ParseEvents) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r, err := s.reapply(ctx, tx, it.EventID, parse)
		if errors.Is(err, ErrNotFound) {
			return s.FinishBulkItem(ctx, tx, it, OutcomeSkipped, SkipGone)
		}
		if err != nil {
			return err
		}
		return s.FinishBulkItem(ctx, tx, it, r.Outcome, r.words())
	})
}

// words is what the list of a bulk's items keeps of a result.
func (r Reapplied) words() string {
	switch r.Outcome {
	case OutcomeSkipped:
		return r.Reason
	case OutcomeChanged:
		text := r.Before + " → " + r.After
		for _, m := range r.Moves {
			if m.From != m.To {
				text += fmt.Sprintf(" · %s → %s", m.From, m.To)
			}
		}
		return text
	}
	return r.After
}

// CheckBulkItems dry-runs up to limit items of a bulk that is being checked and keeps
// what each would do. It returns how many are left; with none, the bulk becomes a draft
// that a person can confirm. parse returns nil for a provider that is not configured.
func (s *Store) CheckBulkItems(ctx context.Context, id uuid.UUID, parse func(providerName string) ParseEvents, limit int) (left int, err error) {
	rows, err := s.pool.Query(ctx, `SELECT seq, provider, event_id FROM bulk_items
		WHERE bulk_id = $1 AND expected = '' ORDER BY seq LIMIT $2`, id, limit)
	if err != nil {
		return 0, wrap(err, "read items to check")
	}
	items, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (it BulkItem, err error) {
		it.Bulk = id
		return it, row.Scan(&it.Seq, &it.Provider, &it.EventID)
	})
	if err != nil {
		return 0, wrap(err, "read items to check")
	}
	for _, it := range items {
		r := Reapplied{Outcome: OutcomeSkipped, Reason: SkipNoProvider}
		if fn := parse(it.Provider); fn != nil {
			r, err = s.DryRunWebhook(ctx, it.EventID, fn)
			if errors.Is(err, ErrNotFound) {
				r, err = Reapplied{Outcome: OutcomeSkipped, Reason: SkipGone}, nil
			}
			if err != nil {
				return 0, err
			}
		}
		_, err = s.pool.Exec(ctx, `UPDATE bulk_items SET expected = $3, expects = $4 WHERE bulk_id = $1 AND seq = $2`, id, it.Seq, r.Outcome, r)
		if err != nil {
			return 0, wrap(err, "keep expectation")
		}
	}
	return s.endCheck(ctx, id)
}

func (s *Store) endCheck(ctx context.Context, id uuid.UUID) (left int, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT count(*) FROM bulk_items WHERE bulk_id = $1 AND expected = ''`, id).Scan(&left)
		if err == nil && left == 0 {
			_, err = tx.Exec(ctx, `UPDATE bulks SET state = 'draft' WHERE id = $1 AND state = 'checking'`, id)
		}
		if err != nil {
			return wrap(err, "end check")
		}
		return Notify(ctx, tx, TopicBulks)
	})
	return left, err
}
