package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	Type       string // event type, whole
	Text       string // event key, provider object id or our reference, whole
	// Known providers: an event key is looked up at each of them.
	Known []string
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
	if f.Type != "" {
		w.and("event_type = ?", f.Type)
	}
	f.whereText(w)
	return w
}

// whereText finds rows by an id in full. Each meaning of the text is a probe of an index;
// what belongs to a payment is found through the payment.
func (f InboxFilter) whereText(w *where) {
	if f.Text == "" {
		return
	}
	// The provider is part of every key; with the known ones named, each is one probe.
	of, args := "", []any{}
	if len(f.Known) > 0 {
		of, args = "provider = ANY(?) AND ", []any{f.Known}
	}
	arms := []string{"SELECT id FROM webhook_events WHERE " + of + "event_key = ?",
		"SELECT id FROM webhook_events WHERE payment_id IS NULL AND provider_object_id <> '' AND provider_object_id = ?",
		"SELECT id FROM webhook_events WHERE state = 'unmatched' AND reference = ?",
		"SELECT id FROM webhook_events WHERE payment_id = ANY(ARRAY(SELECT id FROM payments WHERE " + of + "provider_payment_id = ?))"}
	all := append(slices.Clone(args), f.Text, f.Text, f.Text)
	all = append(append(all, args...), f.Text)
	if id, err := uuid.Parse(f.Text); err == nil {
		arms, all = append(arms, "SELECT id FROM webhook_events WHERE payment_id = ?"), append(all, id)
	}
	w.and("id IN ("+strings.Join(arms, " UNION ALL ")+")", all...)
}

// ListWebhooks reads inbox rows newest first, older than before (0: from the top).
func (s *Store) ListWebhooks(ctx context.Context, f InboxFilter, before int64, limit int) (list []InboxEvent, more bool, err error) {
	w := f.where()
	if before > 0 {
		w.and("id < ?", before)
	}
	sql := fmt.Sprintf("SELECT %s FROM webhook_events %s ORDER BY id DESC LIMIT %s", inboxColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.planned()...)
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

// InboxCounts holds bounded counts of the log's tabs.
type InboxCounts struct {
	ByState map[string]int // "" holds all; nil when counting took too long
	AtLeast bool           // only the newest CountCap rows were looked at; see PaymentCounts
}

// CountWebhooks counts inbox rows by state under the filter, ignoring its state. Its
// cost is bounded as that of CountPayments.
func (s *Store) CountWebhooks(ctx context.Context, f InboxFilter) (c InboxCounts, err error) {
	f.State = ""
	plain := f
	plain.Provider, plain.Known = "", nil
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, "SET LOCAL statement_timeout = '"+countPatience+"'"); err != nil {
			return err
		}
		if len(plain.where().conds) == 0 {
			c, err = countEachState(ctx, tx, f)
		} else {
			c, err = countNewestStates(ctx, tx, f)
		}
		return err
	})
	if sqlState(err) == codeCancelled && ctx.Err() == nil {
		return InboxCounts{}, nil
	}
	if err != nil {
		return InboxCounts{}, fmt.Errorf("count webhooks: %w", err)
	}
	return c, nil
}

func countEachState(ctx context.Context, tx pgx.Tx, f InboxFilter) (InboxCounts, error) {
	c := InboxCounts{ByState: make(map[string]int, len(InboxStates)+1)}
	states := append([]string{""}, InboxStates...)
	w := f.where()
	parts, counts, dest := make([]string, len(states)), make([]int, len(states)), make([]any, len(states))
	for i, state := range states {
		one := where{conds: w.conds}
		if state != "" {
			one.conds = append(slices.Clone(w.conds), "state = '"+state+"'")
		}
		parts[i] = fmt.Sprintf("(SELECT count(*) FROM (SELECT 1 FROM webhook_events %s LIMIT %d) x)", one.String(), CountCap+1)
		dest[i] = &counts[i]
	}
	if err := tx.QueryRow(ctx, "SELECT "+strings.Join(parts, ", "), w.args...).Scan(dest...); err != nil {
		return c, err
	}
	for i, state := range states {
		c.ByState[state] = counts[i]
	}
	return c, nil
}

func countNewestStates(ctx context.Context, tx pgx.Tx, f InboxFilter) (InboxCounts, error) {
	w := f.where()
	c := InboxCounts{ByState: make(map[string]int, len(InboxStates)+1)}
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT state, count(*) FROM
		(SELECT state FROM webhook_events %s ORDER BY id DESC LIMIT %d) newest GROUP BY 1`, w, CountCap+1), w.planned()...)
	if err != nil {
		return c, err
	}
	var state string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		c.ByState[state] = n
		c.ByState[""] += n
		return nil
	})
	c.AtLeast = c.ByState[""] > CountCap
	return c, err
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

// Silence is a provider that used to send events, takes charges and sends none.
type Silence struct {
	Provider string
	Last     time.Time // its last event
}

// WebhookSilences reads which providers are silent now: those whose alarm was raised
// about the last event they sent.
func (s *Store) WebhookSilences(ctx context.Context) ([]Silence, error) {
	rows, err := s.pool.Query(ctx, `SELECT p.provider, p.last_webhook_at FROM provider_state p
		JOIN alerts a ON a.dedupe_key = 'webhook_silence:' || p.provider || ':' || (extract(epoch FROM p.last_webhook_at) * 1000000)::bigint
		WHERE p.last_webhook_at IS NOT NULL ORDER BY p.provider`)
	if err != nil {
		return nil, fmt.Errorf("webhook silences: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (x Silence, err error) { return x, row.Scan(&x.Provider, &x.Last) })
}

// RelatedWebhooks reads other deliveries about the same thing: of the same payment, or,
// while nothing is linked, of the same object at the provider. Newest first.
func (s *Store) RelatedWebhooks(ctx context.Context, e InboxEvent, limit int) ([]InboxEvent, error) {
	sql := "SELECT " + inboxColumns + ` FROM webhook_events
		WHERE payment_id IS NULL AND provider_object_id <> '' AND provider_object_id = $1 AND provider = $4 AND id <> $2 ORDER BY id DESC LIMIT $3`
	args := []any{e.ObjectID, e.ID, limit, e.Provider}
	if e.PaymentID != nil {
		sql = "SELECT " + inboxColumns + ` FROM webhook_events WHERE payment_id = $1 AND id <> $2 ORDER BY id DESC LIMIT $3`
		args = []any{*e.PaymentID, e.ID, limit}
	} else if e.ObjectID == "" {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("related webhooks: %w", err)
	}
	return pgx.CollectRows(rows, scanInbox)
}
