package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const alertColumns = `id, kind, severity, provider, title, detail, dedupe_key, payment_id, created_at, delivered_at,
	acknowledged_at, acknowledged_by, acknowledged_name, acknowledged_note`

func scanAlert(row pgx.Row) (a Alert, err error) {
	var known Acknowledged
	var at *time.Time
	err = row.Scan(&a.ID, &a.Kind, &a.Severity, &a.Provider, &a.Title, &a.Detail, &a.DedupeKey, &a.PaymentID,
		&a.CreatedAt, &a.DeliveredAt, &at, &known.By, &known.Name, &known.Note)
	if at != nil {
		known.At = *at
		a.Known = &known
	}
	return a, err
}

// What the alert list can be narrowed to by whether somebody took notice.
const (
	AlertsOpen  = "open"
	AlertsKnown = "acknowledged"
)

// AlertFilter narrows the alert list. Zero fields do not narrow.
type AlertFilter struct {
	Severity string
	Known    string // AlertsOpen or AlertsKnown
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
