package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Waiting is a payment that needs a person's answer, with the age the work queue
// orders by and who is at work on it.
type Waiting struct {
	Payment Payment
	Since   time.Time // unknown since, or created when only the review reasons wait
	Lease   *Lease    // live; nil: nobody's
}

// What a work queue can be narrowed to by who is at work.
const (
	LeaseMine = "mine"
	LeaseNone = "untaken"
)

// AnswerFilter narrows the work queue. Zero fields do not narrow.
type AnswerFilter struct {
	Provider string
	Reason   string // a review reason, or "unknown" for payments of that status
	Lease    string // LeaseMine, LeaseNone or all
	Me       uuid.UUID
	Aged     bool // past the age limit
}

// answerOrder is urgency: past the age limit first, then the larger amounts, each in
// major units of its own currency, then the oldest. The index payments_answer is it.
const answerOrder = "(needs_review @> '{aged}') DESC, major_size(amount, currency) DESC, coalesce(unknown_since, created_at), id"

func (f AnswerFilter) where(now time.Time) *where {
	w := &where{}
	w.and("(status = 'unknown' OR needs_review <> '{}')")
	if f.Provider != "" {
		w.and("provider = ?", f.Provider)
	}
	switch f.Reason {
	case "":
	case string(Unknown):
		w.and("status = 'unknown'")
	default:
		w.and("? = ANY(needs_review)", f.Reason)
	}
	if f.Aged {
		w.and("needs_review @> '{aged}'")
	}
	const held = "EXISTS (SELECT FROM leases l WHERE l.subject = 'payment:' || payments.id AND l.until > ?"
	switch f.Lease {
	case LeaseNone:
		w.and("NOT "+held+")", now)
	case LeaseMine:
		w.and(held+" AND l.holder = ?)", now, f.Me)
	}
	return w
}

// WorkQueue lists payments that need an answer, the most urgent first, with who is at
// work on each. total is bounded by CountCap+1.
func (s *Store) WorkQueue(ctx context.Context, f AnswerFilter, limit int) (list []Waiting, total int, err error) {
	now := s.Now()
	w := f.where(now)
	count := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x", w, CountCap+1)
	if err := s.pool.QueryRow(ctx, count, w.planned()...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("work queue: %w", err)
	}
	sql := fmt.Sprintf("SELECT %s FROM payments %s ORDER BY %s LIMIT %s", paymentColumns, w, answerOrder, w.arg(limit))
	rows, err := s.pool.Query(ctx, sql, w.planned()...)
	if err != nil {
		return nil, 0, fmt.Errorf("work queue: %w", err)
	}
	payments, err := pgx.CollectRows(rows, rowToPayment)
	if err != nil {
		return nil, 0, fmt.Errorf("work queue: %w", err)
	}
	subjects := make([]string, len(payments))
	for i, p := range payments {
		subjects[i] = subject(p.ID)
		list = append(list, Waiting{Payment: p, Since: waitingSince(p)})
	}
	leases, err := s.leasesOf(ctx, subjects, now)
	for i := range list {
		list[i].Lease = leases[subjects[i]]
	}
	return list, total, err
}

// leasesOf reads the live leases of some subjects.
func (s *Store) leasesOf(ctx context.Context, subjects []string, now time.Time) (map[string]*Lease, error) {
	rows, err := s.pool.Query(ctx, `SELECT subject, holder, holder_name, taken_at, until FROM leases WHERE subject = ANY($1) AND until > $2`,
		subjects, now)
	if err != nil {
		return nil, wrap(err, "read leases")
	}
	out := map[string]*Lease{}
	var of string
	var l Lease
	_, err = pgx.ForEachRow(rows, []any{&of, &l.Holder, &l.Name, &l.TakenAt, &l.Until}, func() error {
		own := l
		out[of] = &own
		return nil
	})
	return out, wrap(err, "read leases")
}

func waitingSince(p Payment) time.Time {
	if p.UnknownSince != nil {
		return *p.UnknownSince
	}
	return p.CreatedAt
}
