package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const alertColumns = `id, kind, severity, provider, title, detail, dedupe_key, payment_id, created_at, delivered_at,
	acknowledged_at, acknowledged_by, acknowledged_name, acknowledged_note, ` + alertOver + ` AS over`

// alertOver is true of an alert whose cause is known to be gone: the review it asks for is
// no longer asked for, the circuit has closed since, charges are not paused, the payment
// that ran out of time has an end. Of other alerts only people know. It is read with the
// alert and stored nowhere, so that it cannot be wrong about what has come back.
const alertOver = `CASE split_part(dedupe_key, ':', 1)
	WHEN 'review' THEN NOT EXISTS (SELECT FROM payments p WHERE p.id = payment_id
			AND p.id::text = split_part(dedupe_key, ':', 3) AND split_part(dedupe_key, ':', 2) = ANY (p.needs_review))
		AND NOT EXISTS (SELECT FROM operations o WHERE o.payment_id = alerts.payment_id
			AND o.id::text = split_part(dedupe_key, ':', 3) AND split_part(dedupe_key, ':', 2) = ANY (o.needs_review))
	WHEN 'circuit' THEN kind = 'circuit_opened' AND EXISTS (SELECT
		FROM (SELECT substr(dedupe_key, length('circuit:' || alerts.provider || '/') + 1) AS rest) k
		JOIN breaker_events o ON o.provider = alerts.provider AND o.class = split_part(k.rest, ':', 1) AND o.epoch = substr(k.rest, length(o.class) + 2)
		JOIN breaker_events c ON c.provider = o.provider AND c.class = o.class AND c.to_state = 'closed' AND c.at > o.at)
	WHEN 'config_alarm' THEN NOT EXISTS (SELECT FROM provider_state s WHERE s.provider = alerts.provider AND s.charges_paused)
	WHEN 'lapsing' THEN EXISTS (SELECT FROM payments p WHERE p.id = payment_id AND p.status IN ('succeeded', 'failed'))
	ELSE false END`

func scanAlert(row pgx.Row) (a Alert, err error) {
	var known Acknowledged
	var at *time.Time
	err = row.Scan(&a.ID, &a.Kind, &a.Severity, &a.Provider, &a.Title, &a.Detail, &a.DedupeKey, &a.PaymentID,
		&a.CreatedAt, &a.DeliveredAt, &at, &known.By, &known.Name, &known.Note, &a.Over)
	if at != nil {
		known.At = *at
		a.Known = &known
	}
	return a, err
}

// What the alert list can be narrowed to: nobody took notice, somebody did, and the cause
// is gone, whether or not somebody did.
const (
	AlertsOpen  = "open"
	AlertsKnown = "acknowledged"
	AlertsOver  = "over"
)

// AlertFilter narrows the alert list. Zero fields do not narrow.
type AlertFilter struct {
	Severity string
	Known    string // AlertsOpen, AlertsKnown or AlertsOver
}

// ListAlerts reads alerts, latest first, with ids below before (0: from the top).
func (s *Store) ListAlerts(ctx context.Context, f AlertFilter, before int64, limit int) (list []Alert, more bool, err error) {
	w := &where{}
	if f.Severity != "" {
		w.and("severity = ?", f.Severity)
	}
	switch f.Known {
	case AlertsOpen:
		w.and("acknowledged_at IS NULL")
	case AlertsKnown:
		w.and("acknowledged_at IS NOT NULL")
	case AlertsOver:
		w.and(alertOver)
	}
	if before > 0 {
		w.and("id < ?", before)
	}
	sql := fmt.Sprintf("SELECT %s FROM alerts %s ORDER BY id DESC LIMIT %s", alertColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.planned()...)
	if err != nil {
		return nil, false, fmt.Errorf("list alerts: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Alert, error) { return scanAlert(row) })
	if err != nil {
		return nil, false, fmt.Errorf("list alerts: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}
