package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// APIFilter narrows the API's payment list by exact values. Zero fields do not narrow.
type APIFilter struct {
	Status   Status
	Provider string
	OrderRef string
	From     time.Time // created at or after
	To       time.Time // created before
}

func (f APIFilter) where() *where {
	w := &where{}
	if f.Status != "" {
		w.and("status = ?", f.Status)
	}
	if f.Provider != "" {
		w.and("provider = ?", f.Provider)
	}
	if f.OrderRef != "" {
		w.and(`lower(order_ref) COLLATE "C" = lower(?) COLLATE "C" AND order_ref = ?`, f.OrderRef, f.OrderRef)
	}
	if !f.From.IsZero() {
		w.and("created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.and("created_at < ?", f.To)
	}
	return w
}

// APIPayments reads up to limit payments older than after (zero: from the newest) and
// says whether there are more. Ids are time-ordered, so a page's last id is its cursor.
func (s *Store) APIPayments(ctx context.Context, f APIFilter, after uuid.UUID, limit int) (list []Payment, more bool, err error) {
	w := f.where()
	if after != uuid.Nil {
		w.and("id < ?", after)
	}
	sql := fmt.Sprintf("SELECT %s FROM payments %s ORDER BY id DESC LIMIT %s", paymentColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("list payments: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Payment, error) { return scanPayment(r) })
	if err != nil {
		return nil, false, fmt.Errorf("list payments: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}

// Timeline reads a payment's events, oldest first. ErrNotFound when there is no such
// payment; a payment always has at least its created event.
func (s *Store) Timeline(ctx context.Context, id uuid.UUID) ([]TimelineEvent, error) {
	var events []TimelineEvent
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var one int
		if err := tx.QueryRow(ctx, `SELECT 1 FROM payments WHERE id = $1`, id).Scan(&one); err != nil {
			return notFound(err)
		}
		var err error
		events, err = timelineOf(ctx, tx, id)
		return err
	})
	return events, err
}

// WalletByOwner reads the wallet of an owner. ErrWalletNotFound.
func (s *Store) WalletByOwner(ctx context.Context, ownerRef string) (Wallet, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+walletColumns+` FROM wallets WHERE owner_ref = $1`, ownerRef)
	if err != nil {
		return Wallet{}, err
	}
	w, err := pgx.CollectExactlyOneRow(rows, rowToWallet)
	if errors.Is(err, pgx.ErrNoRows) {
		return Wallet{}, ErrWalletNotFound
	}
	return w, err
}

// Gauge is the number of rows that share some facts.
type Gauge struct {
	Provider string
	Name     string // status or inbox state
	Count    int64
	Oldest   time.Time // of the unknown ones: since when; zero elsewhere
}

// Gauges are the numbers for monitoring. Each query walks a partial index of rows
// that need something or of the last hour, so the cost follows the work at hand and
// not the size of the books.
type Gauges struct {
	Open    []Gauge // payments that are not final, by provider and status
	Settled []Gauge // payments that became final within the last hour
	Inbox   []Gauge // webhook rows that wait, by provider and state
	Review  int64   // payments that need a person
}

// Gauges reads the numbers for monitoring.
func (s *Store) Gauges(ctx context.Context) (Gauges, error) {
	var g Gauges
	var err error
	if g.Open, err = s.gauges(ctx, `
		SELECT provider, status, count(*), min(unknown_since) FILTER (WHERE status = 'unknown')
		FROM payments WHERE status IN ('pending','processing','requires_action','unknown') GROUP BY 1, 2`); err != nil {
		return g, err
	}
	if g.Settled, err = s.gauges(ctx, `
		SELECT provider, status, count(*), NULL::timestamptz
		FROM payments WHERE settled_at > $1 AND settled_at IS NOT NULL AND status IN ('succeeded','failed') GROUP BY 1, 2`,
		s.Now().Add(-time.Hour)); err != nil {
		return g, err
	}
	if g.Inbox, err = s.gauges(ctx, `
		SELECT provider, state, count(*), NULL::timestamptz
		FROM webhook_events WHERE state IN ('received','unmatched') GROUP BY 1, 2`); err != nil {
		return g, err
	}
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM payments WHERE needs_review <> '{}'`).Scan(&g.Review)
	return g, err
}

func (s *Store) gauges(ctx context.Context, sql string, args ...any) ([]Gauge, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (g Gauge, err error) {
		var oldest *time.Time
		err = r.Scan(&g.Provider, &g.Name, &g.Count, &oldest)
		if oldest != nil {
			g.Oldest = *oldest
		}
		return g, err
	})
}

// Ready reports whether Postgres answers and has our schema.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `SELECT 1 FROM payments LIMIT 1`)
	return err
}
