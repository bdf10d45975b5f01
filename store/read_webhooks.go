package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// InboxStates lists the states of an inbox row in the order screens show them.
var InboxStates = []string{"received", "applied", "ignored", "unmatched", "unparsed", "rejected"}

// InboxEvent is one row of the webhook inbox. Raw and Headers are filled by
// InboxEvent (the reader) only; lists leave them nil.
type InboxEvent struct {
	ID             int64
	Provider       string
	EventKey       string // empty on rejected and unparsed rows
	EventType      string
	Reference      string
	ObjectID       string
	Signature      string // valid, invalid, missing, too_old, in_future
	SecretLabel    string
	State          string
	StateReason    string
	PaymentID      *uuid.UUID
	Duplicates     int // further deliveries of the same event
	Tries          int
	OccurredAt     *time.Time // by the provider's clock
	ReceivedAt     time.Time
	AppliedAt      *time.Time
	LastDeliveryAt time.Time
	Raw            []byte
	Headers        map[string]any
}

// Latency is the time from receipt to application; false while not applied.
func (e InboxEvent) Latency() (time.Duration, bool) {
	if e.AppliedAt == nil {
		return 0, false
	}
	return e.AppliedAt.Sub(e.ReceivedAt), true
}

const inboxColumns = `id, provider, coalesce(event_key, ''), event_type, reference, provider_object_id, signature,
	secret_label, state, state_reason, payment_id, duplicates, tries, occurred_at, received_at, applied_at, last_delivery_at`

func (e *InboxEvent) fields() []any {
	return []any{&e.ID, &e.Provider, &e.EventKey, &e.EventType, &e.Reference, &e.ObjectID, &e.Signature,
		&e.SecretLabel, &e.State, &e.StateReason, &e.PaymentID, &e.Duplicates, &e.Tries, &e.OccurredAt,
		&e.ReceivedAt, &e.AppliedAt, &e.LastDeliveryAt}
}

func scanInbox(row pgx.CollectableRow) (e InboxEvent, err error) {
	err = row.Scan(e.fields()...)
	return e, err
}

// InboxFilter narrows the webhook log. Zero fields do not narrow.
type InboxFilter struct {
	State      string
	Provider   string
	Signature  string
	Duplicated bool   // only events delivered more than once
	Text       string // event key, provider object id or our reference, whole
}

func (f InboxFilter) where() *where {
	w := &where{}
	if f.State != "" {
		w.and("state = ?", f.State)
	}
	if f.Provider != "" {
		w.and("provider = ?", f.Provider)
	}
	if f.Signature != "" {
		w.and("signature = ?", f.Signature)
	}
	if f.Duplicated {
		w.and("duplicates > 0")
	}
	if f.Text != "" {
		w.and("(event_key = ? OR provider_object_id = ? OR reference = ? OR event_type = ?)", f.Text, f.Text, f.Text, f.Text)
	}
	return w
}

// ListWebhooks reads inbox rows newest first, older than before (0: from the top).
func (s *Store) ListWebhooks(ctx context.Context, f InboxFilter, before int64, limit int) (list []InboxEvent, more bool, err error) {
	w := f.where()
	if before > 0 {
		w.and("id < ?", before)
	}
	sql := fmt.Sprintf("SELECT %s FROM webhook_events %s ORDER BY id DESC LIMIT %s", inboxColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("list webhooks: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanInbox)
	if err != nil {
		return nil, false, fmt.Errorf("list webhooks: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}

// CountWebhooks counts inbox rows by state under the filter, ignoring its state, each
// bounded by CountCap+1; the key "" holds all of them.
func (s *Store) CountWebhooks(ctx context.Context, f InboxFilter) (map[string]int, error) {
	counts := make(map[string]int, len(InboxStates)+1)
	for _, state := range append([]string{""}, InboxStates...) {
		f.State = state
		w := f.where()
		sql := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM webhook_events %s LIMIT %d) x", w, CountCap+1)
		var n int
		if err := s.pool.QueryRow(ctx, sql, w.args...).Scan(&n); err != nil {
			return nil, fmt.Errorf("count webhooks: %w", err)
		}
		counts[state] = n
	}
	return counts, nil
}

// InboxEvent reads one inbox row with its raw body and headers. ErrNotFound.
func (s *Store) InboxEvent(ctx context.Context, id int64) (InboxEvent, error) {
	var e InboxEvent
	err := s.pool.QueryRow(ctx, "SELECT "+inboxColumns+", raw, headers FROM webhook_events WHERE id = $1", id).
		Scan(append(e.fields(), &e.Raw, &e.Headers)...)
	if err != nil {
		return InboxEvent{}, fmt.Errorf("webhook %d: %w", id, notFound(err))
	}
	return e, nil
}

// WebhookEffects reads the timeline entries an inbox row's application wrote: its
// effect on state.
func (s *Store) WebhookEffects(ctx context.Context, e InboxEvent) ([]TimelineEvent, error) {
	if e.PaymentID == nil {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, `SELECT id, payment_id, at, kind, source, actor, from_status, to_status, reason,
		attempt_id, evidence FROM payment_events
		WHERE payment_id = $1 AND source = 'webhook' AND evidence->>'inbox_id' = $2 ORDER BY id`,
		*e.PaymentID, strconv.FormatInt(e.ID, 10))
	if err != nil {
		return nil, fmt.Errorf("webhook effects: %w", err)
	}
	return pgx.CollectRows(rows, scanTimeline)
}
