package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Alert is one stored alert.
type Alert struct {
	ID          int64
	Kind        string // circuit_opened, config_alarm, paid_after_failed, a review reason, ...
	Severity    string // info, warning, critical
	Provider    string // may be empty
	Title       string
	Detail      string
	DedupeKey   string // names the fact; one alert per key
	PaymentID   *uuid.UUID
	CreatedAt   time.Time
	DeliveredAt *time.Time    // nil until every sink took it
	Known       *Acknowledged // nil: nobody took notice yet
	Over        bool          // its cause is known to be gone; see alertOver
}

// RaiseAlert stores an alert once per dedupe key and enqueues its delivery, in tx.
func (s *Store) RaiseAlert(ctx context.Context, tx pgx.Tx, a Alert) (raised bool, err error) {
	var id int64
	err = tx.QueryRow(ctx, `
		INSERT INTO alerts (kind, severity, provider, title, detail, dedupe_key, payment_id, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (dedupe_key) DO NOTHING RETURNING id`,
		a.Kind, a.Severity, a.Provider, clean(a.Title), clean(a.Detail), factKey(a.DedupeKey), a.PaymentID, s.Now()).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, wrap(err, "raise alert")
	}
	if err := Notify(ctx, tx, TopicAlerts); err != nil {
		return false, err
	}
	return true, s.enqueuer().Alert(ctx, tx, id)
}

// factKey makes a dedupe key that can be indexed, however long the fact is.
func factKey(key string) string {
	if key = clean(key); len(key) <= maxIdent {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return strings.ToValidUTF8(key[:64], "") + hex.EncodeToString(sum[:])
}

// Alert reads one. ErrNotFound.
func (s *Store) Alert(ctx context.Context, id int64) (Alert, error) {
	a, err := scanAlert(s.pool.QueryRow(ctx, "SELECT "+alertColumns+" FROM alerts WHERE id = $1", id))
	if err != nil {
		return Alert{}, wrap(notFound(err), "read alert")
	}
	return a, nil
}

// AlertDelivered records one sink's delivery; done marks the alert delivered.
// ErrNotFound.
func (s *Store) AlertDelivered(ctx context.Context, id int64, sink string, ok bool, detail string, done bool) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now := s.Now()
		row := []map[string]any{{"sink": sink, "at": now, "ok": ok, "detail": clean(detail)}}
		tag, err := tx.Exec(ctx, `
			UPDATE alerts SET deliveries = deliveries || $2::jsonb,
				delivered_at = CASE WHEN $3 THEN coalesce(delivered_at, $4) ELSE delivered_at END
			WHERE id = $1`, id, row, done, now)
		if err != nil {
			return wrap(err, "record delivery")
		}
		if tag.RowsAffected() == 0 {
			return wrap(ErrNotFound, "record delivery")
		}
		return Notify(ctx, tx, TopicAlerts)
	})
}
