package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// PaymentFilter narrows the payments list. Zero fields do not narrow.
type PaymentFilter struct {
	Status   Status
	Review   string // a review reason, or "any"
	Provider string
	Currency string
	From     time.Time // created at or after
	To       time.Time // created before
	// Text is the beginning of an order reference, customer name or e-mail address,
	// or a whole payment id or provider id.
	Text string
	// Amounts: any of these exact amounts. One typed number can mean several, as
	// currencies differ in decimals.
	Amounts []provider.Money
}

// Keyset is a place in a list ordered newest first: rows older than After, or newer
// than Before. Both zero: the top.
type Keyset struct {
	After  uuid.UUID
	Before uuid.UUID
	Top    uuid.UUID // nothing newer than this row: the top of a list that stays still while it is read
	Limit  int       // rows per page, 1–200 (default 50)
}

func (k Keyset) limit() int {
	if k.Limit < 1 || k.Limit > 200 {
		return 50
	}
	return k.Limit
}

// PaymentPage is one page of payments, newest first.
type PaymentPage struct {
	Payments []Payment
	Older    bool // there are rows after the last one
	Newer    bool // there are rows before the first one
}

func (f PaymentFilter) where() *where {
	w := &where{}
	if f.Status != "" {
		w.and("status = ?", f.Status)
	}
	switch f.Review {
	case "":
	case "any":
		w.and("needs_review <> '{}'")
	default:
		w.and("needs_review <> '{}' AND ? = ANY(needs_review)", f.Review)
	}
	if f.Provider != "" {
		w.and("provider = ?", f.Provider)
	}
	if f.Currency != "" {
		w.and("currency = ?", f.Currency)
	}
	if !f.From.IsZero() {
		w.and("created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.and("created_at < ?", f.To)
	}
	f.whereText(w)
	if len(f.Amounts) > 0 {
		amounts, currencies := splitMoney(f.Amounts)
		w.and("(amount, currency) IN (SELECT * FROM unnest(?::bigint[], ?::text[]))", amounts, currencies)
	}
	return w
}

func (f PaymentFilter) whereText(w *where) {
	if f.Text == "" {
		return
	}
	if id, err := uuid.Parse(f.Text); err == nil {
		w.and("id = ?", id)
		return
	}
	p := likePrefix(f.Text)
	w.and("(order_ref ILIKE ? OR customer_email ILIKE ? OR customer_name ILIKE ? OR provider_payment_id = ?)", p, p, p, f.Text)
}

func splitMoney(ms []provider.Money) (amounts []int64, currencies []string) {
	for _, m := range ms {
		amounts, currencies = append(amounts, m.Amount), append(currencies, m.Currency)
	}
	return amounts, currencies
}

// ListPayments reads one page, newest first.
func (s *Store) ListPayments(ctx context.Context, f PaymentFilter, k Keyset) (PaymentPage, error) {
	w, back := f.where(), k.Before != uuid.Nil
	order := "DESC"
	switch {
	case back:
		w.and("id > ?", k.Before)
		order = "ASC" // nearest newer rows first; turned round below
	case k.After != uuid.Nil:
		w.and("id < ?", k.After)
	case k.Top != uuid.Nil:
		w.and("id <= ?", k.Top)
	}
	sql := fmt.Sprintf("SELECT %s FROM payments %s ORDER BY id %s LIMIT %s",
		paymentColumns, w, order, w.arg(k.limit()+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return PaymentPage{}, fmt.Errorf("list payments: %w", err)
	}
	all, err := pgx.CollectRows(rows, rowToPayment)
	if err != nil {
		return PaymentPage{}, fmt.Errorf("list payments: %w", err)
	}
	list, more := pageOf(all, k.limit())
	if back {
		slices.Reverse(list)
		return PaymentPage{Payments: list, Newer: more, Older: true}, nil
	}
	return PaymentPage{Payments: list, Older: more, Newer: k.After != uuid.Nil}, nil
}

// PaymentCounts holds bounded counts by tab, each at most CountCap+1, which means
// "more than CountCap".
type PaymentCounts struct {
	All      int
	Review   int // any review reason, whatever the status
	ByStatus map[Status]int
}

// CountPayments counts the list's tabs under the filter, ignoring its status and review.
func (s *Store) CountPayments(ctx context.Context, f PaymentFilter) (PaymentCounts, error) {
	f.Status, f.Review = "", ""
	w := f.where()
	capped := func(cond string) string {
		c := where{conds: append(slices.Clone(w.conds), cond)}
		return fmt.Sprintf("(SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x)", c.String(), CountCap+1)
	}
	sql := "SELECT " + capped("true") + ", " + capped("needs_review <> '{}'")
	for _, st := range Statuses {
		sql += ", " + capped("status = '"+string(st)+"'")
	}
	c := PaymentCounts{ByStatus: make(map[Status]int, len(Statuses))}
	counts := make([]int, len(Statuses))
	dest := []any{&c.All, &c.Review}
	for i := range counts {
		dest = append(dest, &counts[i])
	}
	if err := s.pool.QueryRow(ctx, sql, w.args...).Scan(dest...); err != nil {
		return c, fmt.Errorf("count payments: %w", err)
	}
	for i, st := range Statuses {
		c.ByStatus[st] = counts[i]
	}
	return c, nil
}

// CountNewer counts the payments under the filter that are newer than top, bounded by
// CountCap+1.
func (s *Store) CountNewer(ctx context.Context, f PaymentFilter, top uuid.UUID) (n int, err error) {
	w := f.where()
	w.and("id > ?", top)
	sql := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x", w, CountCap+1)
	if err := s.pool.QueryRow(ctx, sql, w.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count newer payments: %w", err)
	}
	return n, nil
}

// Currencies lists the currencies of recent payments, for the filter's choices.
func (s *Store) Currencies(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT currency FROM
		(SELECT currency FROM payments ORDER BY id DESC LIMIT 2000) recent ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("currencies: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// StreamPayments calls fn with every payment under the filter, newest first, in keyset
// pages: no transaction is held open for a slow reader, and memory stays flat.
func (s *Store) StreamPayments(ctx context.Context, f PaymentFilter, fn func(Payment) error) error {
	k := Keyset{Limit: 200}
	for {
		page, err := s.ListPayments(ctx, f, k)
		if err != nil {
			return err
		}
		for _, p := range page.Payments {
			if err := fn(p); err != nil {
				return err
			}
		}
		if !page.Older {
			return nil
		}
		k.After = page.Payments[len(page.Payments)-1].ID
	}
}

// Waiting is a payment that needs a person's answer, with the age the work queue
// orders by.
type Waiting struct {
	Payment Payment
	Since   time.Time // unknown since, or created when only the review reasons wait
}

// WorkQueue lists unknown and needs-review payments, oldest first. total is bounded
// by CountCap+1.
func (s *Store) WorkQueue(ctx context.Context, providerName string, limit int) (list []Waiting, total int, err error) {
	w := &where{}
	w.and("(status = 'unknown' OR needs_review <> '{}')")
	if providerName != "" {
		w.and("provider = ?", providerName)
	}
	count := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x", w, CountCap+1)
	if err := s.pool.QueryRow(ctx, count, w.args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("work queue: %w", err)
	}
	sql := fmt.Sprintf("SELECT %s FROM payments %s ORDER BY coalesce(unknown_since, created_at), id LIMIT %s",
		paymentColumns, w, w.arg(limit))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, 0, fmt.Errorf("work queue: %w", err)
	}
	payments, err := pgx.CollectRows(rows, rowToPayment)
	if err != nil {
		return nil, 0, fmt.Errorf("work queue: %w", err)
	}
	for _, p := range payments {
		list = append(list, Waiting{Payment: p, Since: waitingSince(p)})
	}
	return list, total, nil
}

func waitingSince(p Payment) time.Time {
	if p.UnknownSince != nil {
		return *p.UnknownSince
	}
	return p.CreatedAt
}

// rowToPayment adapts scanPayment to pgx.CollectRows.
func rowToPayment(row pgx.CollectableRow) (Payment, error) { return scanPayment(row) }
