package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// SweepParams of Sweep.
type SweepParams struct {
	Grace       time.Duration              // how long past its time a payment may be before it is picked up (default 30 s)
	UnknownAged time.Duration              // unknown longer than this gets review reason aged and an alert (0: never)
	AskAt       func(provider string) bool // false: the provider has no status API (nil: all have one)
	// AskOperationAt is the same of what was done to a charge (nil: as AskAt).
	AskOperationAt func(provider string, kind provider.OperationKind) bool
	ReplayAt       func(provider string) bool // true: the key and bytes of what is unknown may go out again instead (nil: nowhere)
}

// Swept counts what a sweep found.
type Swept struct {
	Overdue  int // attempts past their deadline without outcome, now unknown
	Requeued int // payments and operations past their next check without live work
	Webhooks int // inbox rows received but not applied, or unmatched
	Aged     int
	Differ   int // payments whose refunds are not what the provider says
}

const (
	sweepBatch   = 500 // rows of a kind one sweep takes; the next one takes the rest
	defaultGrace = 30 * time.Second
	nextSweep    = time.Minute // a swept payment is looked at again after this, whatever its job does
	// eventWait is how long a payment the provider acknowledged may wait for its event
	// when nobody can be asked.
	eventWait = time.Hour
)

// Sweep trusts rows, not the queue; see design.md, Jobs. Each payment has a transaction
// of its own, so one that fails does not keep the others from being looked at. It never
// decides anything: time passing is no evidence.
func (s *Store) Sweep(ctx context.Context, p SweepParams) (Swept, error) {
	if p.Grace <= 0 {
		p.Grace = defaultGrace
	}
	if p.AskAt == nil {
		p.AskAt = func(string) bool { return true }
	}
	var out Swept
	var errs [5]error
	out.Overdue, errs[0] = s.sweepOverdue(ctx)
	out.Requeued, errs[1] = s.sweepPayments(ctx, p)
	out.Webhooks, errs[2] = s.sweepInbox(ctx, p)
	if p.UnknownAged > 0 {
		out.Aged, errs[3] = s.sweepAged(ctx, p)
	}
	errs[4] = s.sweepOperations(ctx, p, &out)
	return out, errors.Join(errs[:]...)
}

// eachPayment runs fn on every payment whose id the query finds, locked, each in a
// transaction of its own, and counts those for which fn did something.
func (s *Store) eachPayment(ctx context.Context, query string, args []any, fn func(ctx context.Context, tx pgx.Tx, p Payment) (bool, error)) (int, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return 0, wrap(err, "sweep")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, wrap(err, "sweep")
	}
	count := 0
	var errs []error
	for _, id := range ids {
		did := false
		err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			p, err := lockPayment(ctx, tx, id)
			if err != nil {
				return err
			}
			did, err = fn(ctx, tx, p)
			return err
		})
		if err != nil {
			errs = append(errs, err)
		} else if did {
			count++
		}
	}
	return count, errors.Join(errs...)
}

func (s *Store) sweepOverdue(ctx context.Context) (int, error) {
	return s.eachPayment(ctx, `SELECT payment_id FROM attempts WHERE outcome IS NULL AND operation = 'charge' AND deadline < $1 ORDER BY deadline LIMIT $2`,
		[]any{s.Now(), sweepBatch}, func(ctx context.Context, tx pgx.Tx, p Payment) (bool, error) {
			pr, err := priorAttempts(ctx, tx, p.ID)
			if err != nil || pr.open == nil || s.Now().Before(pr.open.Deadline) {
				return false, err
			}
			_, err = s.abandon(ctx, tx, p, pr.open.ID, System("sweep"), "sweep")
			return true, err
		})
}

// overdue: not final, and its next look is past or was never planned. Payments a
// person has to decide and nobody can be asked about have none, rightly.
const overdueQuery = `
	SELECT id FROM payments
	WHERE status IN ('pending', 'processing', 'requires_action', 'unknown')
	AND (next_check_at < $1 OR next_check_at IS NULL AND NOT needs_review && '{no_status_api,key_expired}')
	ORDER BY next_check_at NULLS FIRST LIMIT $2`

func (s *Store) sweepPayments(ctx context.Context, p SweepParams) (int, error) {
	limit := s.Now().Add(-p.Grace)
	return s.eachPayment(ctx, overdueQuery, []any{limit, sweepBatch}, func(ctx context.Context, tx pgx.Tx, pay Payment) (bool, error) {
		if pay.Status.Final() || (pay.NextCheckAt != nil && !pay.NextCheckAt.Before(limit)) {
			return false, nil // somebody was faster
		}
		return true, s.requeue(ctx, tx, pay, p)
	})
}

// requeue gives a payment its work back. The enqueuer does nothing for live work, so
// this repairs a lost job and leaves a slow one alone.
func (s *Store) requeue(ctx context.Context, tx pgx.Tx, pay Payment, p SweepParams) error {
	c := change{kind: "snoozed", source: "sweep", by: System("sweep"), quiet: true,
		next: next{at: s.Now().Add(nextSweep), why: pay.NextCheckWhy}}
	if pay.Status == Pending {
		paused, err := chargesPaused(ctx, tx, pay.Provider)
		if err != nil {
			return err
		}
		if paused {
			c.next.why = whyPaused
		}
		if _, _, err = s.apply(ctx, tx, pay, c); err != nil || paused {
			return err
		}
		return s.enqueuer().Charge(ctx, tx, pay.ID, pay.Provider, time.Time{})
	}
	replay := pay.Status == Unknown && p.ReplayAt != nil && p.ReplayAt(pay.Provider)
	if !replay && !p.AskAt(pay.Provider) {
		if pay.Status == Unknown || !pay.Authorised() && s.Now().Sub(pay.UpdatedAt) > eventWait {
			c.next, c.add = next{}, []string{ReviewNoStatusAPI}
			c.set = func(q *Payment) { q.NextCheckAt, q.NextCheckWhy = nil, "" }
		}
		_, _, err := s.apply(ctx, tx, pay, c)
		return err
	}
	if _, _, err := s.apply(ctx, tx, pay, c); err != nil {
		return err
	}
	return s.enqueuer().Reconcile(ctx, tx, pay.ID, pay.Provider, time.Time{})
}

// sweepInbox enqueues rows whose work was lost, and unmatched ones that have a payment
// by now.
func (s *Store) sweepInbox(ctx context.Context, p SweepParams) (count int, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			(SELECT id FROM webhook_events WHERE state = 'received' AND last_delivery_at < $1 ORDER BY id LIMIT $2)
			UNION
			(SELECT w.id FROM webhook_events w JOIN payments p ON p.provider = w.provider
				AND p.id = CASE WHEN w.reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN w.reference::uuid END
				WHERE w.state = 'unmatched' LIMIT $2)
			UNION
			(SELECT w.id FROM webhook_events w JOIN payments p ON p.provider = w.provider AND p.provider_payment_id = w.provider_object_id
				WHERE w.state = 'unmatched' LIMIT $2)
			UNION
			(SELECT w.id FROM webhook_events w JOIN provider_objects o ON o.provider = w.provider AND o.object_id = w.charge_id AND o.payment_id IS NOT NULL
				WHERE w.state = 'unmatched' AND w.charge_id <> '' LIMIT $2)`, s.Now().Add(-p.Grace), sweepBatch)
		if err != nil {
			return wrap(err, "sweep inbox")
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return wrap(err, "sweep inbox")
		}
		slices.Sort(ids)
		for _, id := range ids {
			if err := s.enqueuer().Webhook(ctx, tx, id); err != nil {
				return err
			}
		}
		count = len(ids)
		return nil
	})
	return count, err
}

func (s *Store) sweepAged(ctx context.Context, p SweepParams) (int, error) {
	limit := s.Now().Add(-p.UnknownAged)
	return s.eachPayment(ctx, `SELECT id FROM payments WHERE status = 'unknown' AND unknown_since < $1
			AND NOT needs_review @> '{aged}' ORDER BY id LIMIT $2`, []any{limit, sweepBatch},
		func(ctx context.Context, tx pgx.Tx, pay Payment) (bool, error) {
			if pay.Status != Unknown || pay.UnknownSince == nil || !pay.UnknownSince.Before(limit) {
				return false, nil
			}
			_, _, err := s.apply(ctx, tx, pay, change{add: []string{ReviewAged},
				kind: "review", source: "sweep", by: System("sweep"), quiet: true})
			return true, err
		})
}
