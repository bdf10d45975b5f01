package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// BulkItem is one row of a bulk's frozen set.
type BulkItem struct {
	Bulk      uuid.UUID
	Seq       int
	Provider  string
	PaymentID uuid.UUID // of a reconcile
	EventID   int64     // of a reapply
}

// ClaimBulkItem takes the next item that nobody works on, of one provider (empty: of
// any). ErrNotFound: none is free, or the bulk does not run. A claim whose worker died
// is free again after claimLife; nothing is lost, and only what had no answer yet is
// asked a second time.
func (s *Store) ClaimBulkItem(ctx context.Context, bulk uuid.UUID, providerName string) (it BulkItem, err error) {
	now := s.Now()
	it.Bulk = bulk
	var payment *uuid.UUID
	var event *int64
	err = s.pool.QueryRow(ctx, `
		UPDATE bulk_items SET claimed_at = $3 WHERE bulk_id = $1 AND outcome = '' AND seq = (
			SELECT seq FROM bulk_items
			WHERE bulk_id = $1 AND outcome = '' AND ($2 = '' OR provider = $2) AND (claimed_at IS NULL OR claimed_at < $4)
				AND EXISTS (SELECT 1 FROM bulks WHERE id = $1 AND state = 'running')
			ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING seq, provider, payment_id, event_id`, bulk, providerName, now, now.Add(-claimLife)).
		Scan(&it.Seq, &it.Provider, &payment, &event)
	if payment != nil {
		it.PaymentID = *payment
	}
	if event != nil {
		it.EventID = *event
	}
	return it, wrap(notFound(err), "claim bulk item")
}

// ReleaseBulkItem gives a claimed item back: it was not worked. until says from when
// its provider may be asked again; zero: nothing is in the way.
func (s *Store) ReleaseBulkItem(ctx context.Context, it BulkItem, until time.Time) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE bulk_items SET claimed_at = NULL WHERE bulk_id = $1 AND seq = $2 AND outcome = ''`, it.Bulk, it.Seq)
		if err != nil || until.IsZero() {
			return wrap(err, "release bulk item")
		}
		_, err = tx.Exec(ctx, `UPDATE bulks SET waits = waits || jsonb_build_object($2::text, $3::timestamptz) WHERE id = $1 AND state = 'running'`,
			it.Bulk, it.Provider, until.UTC())
		if err != nil {
			return wrap(err, "note bulk wait")
		}
		return Notify(ctx, tx, TopicBulks)
	})
}

// FinishBulkItem writes what became of an item, in the transaction of its effect. The
// first word stays.
func (s *Store) FinishBulkItem(ctx context.Context, tx pgx.Tx, it BulkItem, outcome, detail string) error {
	_, err := tx.Exec(ctx, `UPDATE bulk_items SET outcome = $3, detail = $4, done_at = $5 WHERE bulk_id = $1 AND seq = $2 AND outcome = ''`,
		it.Bulk, it.Seq, outcome, clean(detail), s.Now())
	if err != nil {
		return wrap(err, "finish bulk item")
	}
	_, err = tx.Exec(ctx, `UPDATE bulks SET waits = waits - $2 WHERE id = $1 AND waits ? $2`, it.Bulk, it.Provider)
	if err != nil {
		return wrap(err, "end bulk wait")
	}
	return Notify(ctx, tx, TopicBulks)
}

// EndBulk marks a running bulk done when no item is left. It reports whether there is
// more to do for the provider (empty: any).
func (s *Store) EndBulk(ctx context.Context, id uuid.UUID, providerName string) (more bool, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b, err := scanBulk(tx.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulks WHERE id = $1 FOR UPDATE`, id))
		if more = false; err != nil || b.State != BulkRunning {
			return wrap(err, "end bulk")
		}
		var anything bool
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM bulk_items WHERE bulk_id = $1 AND outcome = ''),
			EXISTS (SELECT 1 FROM bulk_items WHERE bulk_id = $1 AND outcome = '' AND ($2 = '' OR provider = $2))`, id, providerName).Scan(&anything, &more)
		if err != nil || anything {
			return wrap(err, "end bulk")
		}
		_, err = tx.Exec(ctx, `UPDATE bulks SET state = 'done', ended_at = $2, waits = '{}', version = version + 1 WHERE id = $1`, id, s.Now())
		if err != nil {
			return wrap(err, "end bulk")
		}
		return Notify(ctx, tx, TopicBulks)
	})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return more, err
}

// SweepBulks gives bulks whose job was lost their jobs back, and ends those whose last
// word was lost. Live jobs are left alone.
func (s *Store) SweepBulks(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `SELECT `+bulkColumns+` FROM bulks WHERE state IN ('checking', 'running') ORDER BY created_at LIMIT 100`)
	if err != nil {
		return wrap(err, "sweep bulks")
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Bulk, error) { return scanBulk(row) })
	errs := []error{wrap(err, "sweep bulks")}
	for _, b := range list {
		if b.State == BulkRunning {
			if _, err := s.EndBulk(ctx, b.ID, ""); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if b.State == BulkChecking {
				return s.enqueuer().Bulk(ctx, tx, b.ID, "")
			}
			return s.enqueueBulk(ctx, tx, b)
		}))
	}
	return errors.Join(errs...)
}

// AskedSince reports whether the provider answered a question about the payment, or was
// asked one, since a moment. It looks at the end of the timeline only.
func (s *Store) AskedSince(ctx context.Context, id uuid.UUID, since time.Time) (asked bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM (
		SELECT kind, at FROM payment_events WHERE payment_id = $1 ORDER BY id DESC LIMIT 20) e WHERE kind = 'lookup' AND at > $2)`, id, since).Scan(&asked)
	return asked, wrap(err, "read last lookup")
}
