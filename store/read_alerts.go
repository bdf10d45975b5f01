package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const consoleAlertColumns = `id, kind, severity, provider, title, detail, dedupe_key, payment_id, created_at, delivered_at`

// ListAlerts reads alerts, latest first, with ids below before (0: from the top), of
// one severity or all (empty).
func (s *Store) ListAlerts(ctx context.Context, severity string, before int64, limit int) (list []Alert, more bool, err error) {
	w := &where{}
	if severity != "" {
		w.and("severity = ?", severity)
	}
	if before > 0 {
		w.and("id < ?", before)
	}
	sql := fmt.Sprintf("SELECT %s FROM alerts %s ORDER BY id DESC LIMIT %s", consoleAlertColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("list alerts: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Alert, err error) {
		err = row.Scan(&a.ID, &a.Kind, &a.Severity, &a.Provider, &a.Title, &a.Detail, &a.DedupeKey, &a.PaymentID,
			&a.CreatedAt, &a.DeliveredAt)
		return a, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list alerts: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}
