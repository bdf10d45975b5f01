package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// BulkCounts is how far a bulk is. Every count is bounded by BulkMax.
type BulkCounts struct {
	Left     int            // items without an outcome
	Done     map[string]int // by outcome
	Skipped  map[string]int // by reason
	Expected map[string]int // by what the dry run said
}

// BulkProgress counts a bulk's items.
func (s *Store) BulkProgress(ctx context.Context, id uuid.UUID) (BulkCounts, error) {
	return bulkCounts(ctx, s.pool, id)
}

func bulkCounts(ctx context.Context, q querier, id uuid.UUID) (BulkCounts, error) {
	c := BulkCounts{Done: map[string]int{}, Skipped: map[string]int{}, Expected: map[string]int{}}
	rows, err := q.Query(ctx, `SELECT outcome, CASE outcome WHEN 'skipped' THEN detail ELSE '' END, expected, count(*)
		FROM bulk_items WHERE bulk_id = $1 GROUP BY 1, 2, 3`, id)
	if err != nil {
		return c, fmt.Errorf("bulk progress: %w", err)
	}
	var outcome, why, expected string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&outcome, &why, &expected, &n}, func() error {
		if outcome == "" {
			c.Left += n
		} else {
			c.Done[outcome] += n
		}
		if outcome == OutcomeSkipped {
			c.Skipped[why] += n
		}
		c.Expected[expected] += n
		return nil
	})
	return c, wrap(err, "bulk progress")
}

// BulkForecast is what a draft of payments is going to do at one provider.
type BulkForecast struct {
	Provider string
	Total    int
	Settled  int // nothing to ask
	Lately   int // asked within AskedLately
	Unsent   int
	WithID   int // of the rest, how many have the provider's id
	Rest     int // what is going to be asked about
}

// ForecastBulk says per provider what asking about a draft's payments means now.
func (s *Store) ForecastBulk(ctx context.Context, id uuid.UUID) ([]BulkForecast, error) {
	rows, err := s.pool.Query(ctx, `
		WITH item AS (
			SELECT p.provider, p.provider_payment_id,
				CASE WHEN p.status IN ('succeeded', 'failed') AND p.needs_review = '{}' THEN 'settled'
					WHEN p.status = 'pending' THEN 'unsent'
					WHEN EXISTS (SELECT 1 FROM (SELECT kind, at FROM payment_events e WHERE e.payment_id = p.id ORDER BY e.id DESC LIMIT 20) l
						WHERE l.kind = 'lookup' AND l.at > $2) THEN 'lately'
					ELSE 'rest' END AS what
			FROM bulk_items i JOIN payments p ON p.id = i.payment_id WHERE i.bulk_id = $1)
		SELECT provider, count(*), count(*) FILTER (WHERE what = 'settled'), count(*) FILTER (WHERE what = 'lately'),
			count(*) FILTER (WHERE what = 'unsent'), count(*) FILTER (WHERE what = 'rest' AND provider_payment_id IS NOT NULL),
			count(*) FILTER (WHERE what = 'rest')
		FROM item GROUP BY provider ORDER BY provider`, id, s.Now().Add(-AskedLately))
	if err != nil {
		return nil, fmt.Errorf("forecast bulk: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (f BulkForecast, err error) {
		return f, row.Scan(&f.Provider, &f.Total, &f.Settled, &f.Lately, &f.Unsent, &f.WithID, &f.Rest)
	})
}

// BulkLine is one item as a person reads it.
type BulkLine struct {
	Seq       int
	Provider  string
	PaymentID *uuid.UUID
	EventID   *int64
	Name      string // order reference, or the event's type
	Status    Status // of the payment now; empty on events
	State     string // of the event now; empty on payments
	Expected  string
	Expects   Reapplied
	Outcome   string
	Detail    string
	DoneAt    *time.Time
}

// BulkLines reads items from a place on, those with an outcome first asked for when
// only names one.
func (s *Store) BulkLines(ctx context.Context, id uuid.UUID, only string, after, limit int) (list []BulkLine, more bool, err error) {
	w := &where{}
	w.and("i.bulk_id = ?", id)
	w.and("i.seq > ?", after)
	switch only {
	case "":
	case "left":
		w.and("i.outcome = ''")
	default:
		w.and("(i.outcome = ? OR i.outcome = '' AND i.expected = ?)", only, only)
	}
	sql := fmt.Sprintf(`SELECT i.seq, i.provider, i.payment_id, i.event_id, coalesce(p.order_ref, e.event_type, ''), coalesce(p.status, ''),
			coalesce(e.state, ''), i.expected, i.expects, i.outcome, i.detail, i.done_at
		FROM bulk_items i LEFT JOIN payments p ON p.id = i.payment_id LEFT JOIN webhook_events e ON e.id = i.event_id
		%s ORDER BY i.seq LIMIT %s`, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("bulk items: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l BulkLine, err error) {
		return l, row.Scan(&l.Seq, &l.Provider, &l.PaymentID, &l.EventID, &l.Name, &l.Status, &l.State, &l.Expected,
			&l.Expects, &l.Outcome, &l.Detail, &l.DoneAt)
	})
	if err != nil {
		return nil, false, fmt.Errorf("bulk items: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}
