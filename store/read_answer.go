package store

import (
	"context"
	"fmt"
	"slices"
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
	// Proposed: a decision on it waits for a second person.
	Proposed bool
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
	list, err = s.waiting(ctx, payments, now)
	return list, total, err
}

// waiting adds to payments who is at work on them.
func (s *Store) waiting(ctx context.Context, payments []Payment, now time.Time) ([]Waiting, error) {
	subjects := make([]string, len(payments))
	for i, p := range payments {
		subjects[i] = subject(p.ID)
	}
	leases, err := s.leasesOf(ctx, subjects, now)
	if err != nil {
		return nil, err
	}
	proposed, err := s.proposedOf(ctx, payments, now)
	list := make([]Waiting, len(payments))
	for i, p := range payments {
		list[i] = Waiting{Payment: p, Since: waitingSince(p), Lease: leases[subjects[i]], Proposed: proposed[p.ID]}
	}
	return list, err
}

// proposedOf finds the payments on which a proposal stands.
func (s *Store) proposedOf(ctx context.Context, payments []Payment, now time.Time) (map[uuid.UUID]bool, error) {
	versions := make(map[uuid.UUID]int64, len(payments))
	ids := make([]uuid.UUID, len(payments))
	for i, p := range payments {
		ids[i], versions[p.ID] = p.ID, p.Version
	}
	rows, err := s.pool.Query(ctx, `SELECT payment_id, version FROM approvals WHERE payment_id = ANY($1) AND closed = '' AND expires_at > $2`, ids, now)
	if err != nil {
		return nil, wrap(err, "read proposals")
	}
	out := map[uuid.UUID]bool{}
	var id uuid.UUID
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&id, &version}, func() error {
		out[id] = versions[id] == version
		return nil
	})
	return out, wrap(err, "read proposals")
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

// StreamAnswers calls fn with everything in the work queue under the filter, the most
// urgent first. The order is the one of its beginning: what is answered meanwhile is left out.
func (s *Store) StreamAnswers(ctx context.Context, f AnswerFilter, fn func(Waiting) error) error {
	now := s.Now()
	w := f.where(now)
	rows, err := s.pool.Query(ctx, fmt.Sprintf("SELECT id FROM payments %s ORDER BY %s", w, answerOrder), w.planned()...)
	if err != nil {
		return fmt.Errorf("work queue: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("work queue: %w", err)
	}
	for part := range slices.Chunk(ids, 200) {
		rows, err := s.pool.Query(ctx, "SELECT "+paymentColumns+` FROM payments WHERE id = ANY($1)
			AND (status = 'unknown' OR needs_review <> '{}') ORDER BY array_position($1, id)`, part)
		if err != nil {
			return fmt.Errorf("work queue: %w", err)
		}
		payments, err := pgx.CollectRows(rows, rowToPayment)
		if err != nil {
			return fmt.Errorf("work queue: %w", err)
		}
		list, err := s.waiting(ctx, payments, now)
		if err != nil {
			return err
		}
		for _, w := range list {
			if err := fn(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// Asked is what is known about a payment beside its dossier, for whoever has to answer.
type Asked struct {
	Lease  *Lease         // live; nil: nobody's
	Lookup *TimelineEvent // the latest; nil: the provider was never asked
	Found  *RunItem       // what the latest reconciliation run that saw it found; nil: none saw it
}

// AskedAbout reads it.
func (s *Store) AskedAbout(ctx context.Context, paymentID uuid.UUID) (a Asked, err error) {
	var b pgx.Batch
	var lookups []TimelineEvent
	var items []RunItem
	var leases []Lease
	queue(&b, &leases, func(row pgx.CollectableRow) (l Lease, err error) {
		return l, row.Scan(&l.Holder, &l.Name, &l.TakenAt, &l.Until)
	}, `SELECT holder, holder_name, taken_at, until FROM leases WHERE subject = $1 AND until > $2`, subject(paymentID), s.Now())
	queue(&b, &lookups, scanTimeline, "SELECT "+timelineColumns+` FROM payment_events
		WHERE payment_id = $1 AND kind = 'lookup' ORDER BY id DESC LIMIT 1`, paymentID)
	queue(&b, &items, func(row pgx.CollectableRow) (i RunItem, err error) {
		return i, row.Scan(&i.Finding, &i.ObjectID, &i.Detail, &i.At)
	}, `SELECT finding, object_id, detail, at FROM reconciliation_items WHERE payment_id = $1 ORDER BY at DESC LIMIT 1`, paymentID)
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return a, fmt.Errorf("evidence beside payment %s: %w", paymentID, err)
	}
	if len(leases) > 0 {
		a.Lease = &leases[0]
	}
	if len(lookups) > 0 {
		a.Lookup = &lookups[0]
	}
	if len(items) > 0 {
		a.Found = &items[0]
	}
	return a, nil
}
