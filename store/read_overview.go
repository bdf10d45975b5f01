package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sparkline buckets of Overview: the last hour in steps, aligned to the clock so
// that bars do not crawl between two readings.
const (
	OverviewStep    = 2 * time.Minute
	OverviewBuckets = 30
)

// CurrencySum is a number of payments and their amount in minor units of one
// currency. Sums of different currencies are never added.
type CurrencySum struct {
	Currency string
	Payments int
	Amount   int64
}

// HourSeries counts settled payments of one status.
type HourSeries struct {
	Total      int // in the last 60 minutes
	WeekBefore int // in the same 60 minutes a week before
	Now        []int64
	Before     []int64 // the same buckets a week before
}

// Overview is what the first page shows, read in one transaction.
type Overview struct {
	At             time.Time
	Start          time.Time // of the first bucket
	Unknown        []CurrencySum
	OldestUnknown  *time.Time
	AgedUnknown    int // unknown longer than the limit asked for
	Processing     int // processing or requires_action, as the counts below each bounded by CountCap+1
	RequiresAction int // of those, waiting for the customer
	Pending        int
	OldestPending  *time.Time
	NeedsReview    int // of the final ones; unknown ones count as unknown
	Succeeded      HourSeries
	Failed         HourSeries
	WebhookDay     WebhookDay
	LastRuns       []Run // the latest of each provider
	Alerts         []Alert
}

// WebhookDay counts what went wrong with webhooks in the last 24 hours, each up to
// CountCap+1; Unmatched counts all that still wait for a payment.
type WebhookDay struct {
	Rejected, Unparsed, Unmatched int
	LastReceived                  *time.Time
}

// UnknownCount is how many payments are unknown.
func (o Overview) UnknownCount() (n int) {
	for _, c := range o.Unknown {
		n += c.Payments
	}
	return n
}

// Overview reads the first page. aged is the age after which an unknown payment is
// everybody's business.
func (s *Store) Overview(ctx context.Context, aged time.Duration) (Overview, error) {
	o := Overview{At: s.Now()}
	o.Start = o.At.Truncate(OverviewStep).Add(OverviewStep - OverviewBuckets*OverviewStep)
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, read := range []func(context.Context, pgx.Tx) error{
			func(ctx context.Context, tx pgx.Tx) error { return o.readUnknown(ctx, tx, o.At.Add(-aged)) },
			o.readOpen, o.readHour, o.readWebhooks, o.readRuns,
		} {
			if err := read(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Overview{}, fmt.Errorf("overview: %w", err)
	}
	if o.Alerts, _, err = s.ListAlerts(ctx, AlertFilter{}, 0, 5); err != nil {
		return Overview{}, err
	}
	return o, nil
}

func (o *Overview) readUnknown(ctx context.Context, tx pgx.Tx, agedBefore time.Time) error {
	rows, err := tx.Query(ctx, `SELECT currency, count(*), sum(amount)::bigint, min(unknown_since),
			count(*) FILTER (WHERE unknown_since < $1)
		FROM payments WHERE status = 'unknown' GROUP BY currency ORDER BY count(*) DESC, currency`, agedBefore)
	if err != nil {
		return err
	}
	var (
		c      CurrencySum
		oldest *time.Time
		aged   int
	)
	_, err = pgx.ForEachRow(rows, []any{&c.Currency, &c.Payments, &c.Amount, &oldest, &aged}, func() error {
		o.Unknown = append(o.Unknown, c)
		o.AgedUnknown += aged
		o.OldestUnknown = earlier(o.OldestUnknown, oldest)
		return nil
	})
	return err
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || (b != nil && b.Before(*a)) {
		return b
	}
	return a
}

// readOpen counts along the indexes, each status up to CountCap+1. Ids grow with time,
// so the oldest pending payment is the one with the lowest id.
func (o *Overview) readOpen(ctx context.Context, tx pgx.Tx) error {
	var processing int
	err := tx.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM (SELECT 1 FROM payments WHERE status = 'processing' LIMIT $1) x),
			(SELECT count(*) FROM (SELECT 1 FROM payments WHERE status = 'requires_action' LIMIT $1) x),
			(SELECT count(*) FROM (SELECT 1 FROM payments WHERE status = 'pending' LIMIT $1) x),
			(SELECT created_at FROM payments WHERE status = 'pending' ORDER BY id LIMIT 1),
			(SELECT count(*) FROM (SELECT 1 FROM payments WHERE needs_review <> '{}' AND status IN ('succeeded', 'failed') LIMIT $1) x)`,
		CountCap+1).Scan(&processing, &o.RequiresAction, &o.Pending, &o.OldestPending, &o.NeedsReview)
	o.Processing = processing + o.RequiresAction
	return err
}

// readHour fills the series of this hour and of the same hour a week before.
func (o *Overview) readHour(ctx context.Context, tx pgx.Tx) error {
	for _, s := range []*HourSeries{&o.Succeeded, &o.Failed} {
		s.Now, s.Before = make([]int64, OverviewBuckets), make([]int64, OverviewBuckets)
	}
	const week = 7 * 24 * time.Hour
	hourAgo := o.At.Add(-time.Hour)
	for _, w := range []struct {
		start, from time.Time
		before      bool
	}{{o.Start, hourAgo, false}, {o.Start.Add(-week), hourAgo.Add(-week), true}} {
		rows, err := tx.Query(ctx, `SELECT status, floor(extract(epoch FROM settled_at - $1::timestamptz) / $3)::int AS bucket,
				count(*), count(*) FILTER (WHERE settled_at > $4)
			FROM payments
			WHERE settled_at >= least($1::timestamptz, $4::timestamptz) AND settled_at < $2 AND status IN ('succeeded', 'failed')
			GROUP BY 1, 2`,
			w.start, w.from.Add(time.Hour), OverviewStep.Seconds(), w.from)
		if err != nil {
			return err
		}
		if err := o.addBuckets(rows, w.before); err != nil {
			return err
		}
	}
	return nil
}

func (o *Overview) addBuckets(rows pgx.Rows, before bool) error {
	var (
		status      Status
		bucket      int
		n, lastHour int64
	)
	_, err := pgx.ForEachRow(rows, []any{&status, &bucket, &n, &lastHour}, func() error {
		s := &o.Failed
		if status == Succeeded {
			s = &o.Succeeded
		}
		series, total := s.Now, &s.Total
		if before {
			series, total = s.Before, &s.WeekBefore
		}
		*total += int(lastHour)
		if bucket >= 0 && bucket < len(series) {
			series[bucket] += n
		}
		return nil
	})
	return err
}

func (o *Overview) readWebhooks(ctx context.Context, tx pgx.Tx) error {
	day := o.At.Add(-24 * time.Hour)
	return tx.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM (SELECT 1 FROM webhook_events WHERE state = 'rejected' AND last_delivery_at > $1 LIMIT $2) x),
			(SELECT count(*) FROM (SELECT 1 FROM webhook_events WHERE state = 'unparsed' AND last_delivery_at > $1 LIMIT $2) x),
			(SELECT count(*) FROM (SELECT 1 FROM webhook_events WHERE state = 'unmatched' LIMIT $2) x),
			(SELECT max(last_webhook_at) FROM provider_state)`, day, CountCap+1).
		Scan(&o.WebhookDay.Rejected, &o.WebhookDay.Unparsed, &o.WebhookDay.Unmatched, &o.WebhookDay.LastReceived)
}

// readRuns reads each provider's latest run with one probe of the index per provider.
func (o *Overview) readRuns(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `WITH RECURSIVE known AS (
			(SELECT provider AS name FROM reconciliation_runs ORDER BY provider LIMIT 1)
			UNION ALL
			SELECT (SELECT min(provider) FROM reconciliation_runs WHERE provider > known.name) FROM known WHERE known.name IS NOT NULL
		)
		SELECT run.* FROM known CROSS JOIN LATERAL (SELECT `+runColumns+` FROM reconciliation_runs
			WHERE provider = known.name ORDER BY started_at DESC, id DESC LIMIT 1) run ORDER BY known.name`)
	if err != nil {
		return err
	}
	o.LastRuns, err = pgx.CollectRows(rows, rowToRun)
	return err
}
