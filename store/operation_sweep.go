package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sweepOperations looks after operations as Sweep does after payments: attempts without
// outcome, lost jobs, long unknown ones, and running figures that differ.
func (s *Store) sweepOperations(ctx context.Context, p SweepParams, out *Swept) error {
	overdue, err1 := s.sweepOverdueOperations(ctx)
	requeued, err2 := s.sweepOpenOperations(ctx, p)
	aged, err3 := 0, error(nil)
	if p.UnknownAged > 0 {
		aged, err3 = s.sweepAgedOperations(ctx, p)
	}
	differ, err4 := s.sweepTotals(ctx)
	out.Overdue, out.Requeued, out.Aged, out.Differ = out.Overdue+overdue, out.Requeued+requeued, out.Aged+aged, differ
	return errors.Join(err1, err2, err3, err4)
}

// eachOperation runs fn on every operation whose id the query finds, locked, each in a
// transaction of its own, see eachPayment.
func (s *Store) eachOperation(ctx context.Context, query string, args []any, fn func(ctx context.Context, tx pgx.Tx, pay Payment, op Operation) (bool, error)) (int, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return 0, wrap(err, "sweep operations")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, wrap(err, "sweep operations")
	}
	count := 0
	var errs []error
	for _, id := range ids {
		did := false
		err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			pay, op, err := lockOperation(ctx, tx, id)
			if err != nil {
				return err
			}
			did, err = fn(ctx, tx, pay, op)
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

func (s *Store) sweepOverdueOperations(ctx context.Context) (int, error) {
	return s.eachOperation(ctx, `SELECT o.id FROM attempts a JOIN operations o ON o.payment_id = a.payment_id AND a.operation = o.kind || ':' || o.seq
			WHERE a.outcome IS NULL AND a.deadline < $1 ORDER BY a.deadline LIMIT $2`, []any{s.Now(), sweepBatch},
		func(ctx context.Context, tx pgx.Tx, pay Payment, op Operation) (bool, error) {
			pr, err := attemptsBefore(ctx, tx, op.PaymentID, op.AttemptName())
			if err != nil || pr.open == nil || s.Now().Before(pr.open.Deadline) {
				return false, err
			}
			_, err = s.abandonOperation(ctx, tx, pay, op, pr.open.ID, System("sweep"), "sweep")
			return true, err
		})
}

func (s *Store) sweepOpenOperations(ctx context.Context, p SweepParams) (int, error) {
	limit := s.Now().Add(-p.Grace)
	return s.eachOperation(ctx, `SELECT id FROM operations WHERE status IN ('pending', 'processing', 'unknown')
			AND (next_check_at < $1 OR next_check_at IS NULL AND NOT needs_review && '{no_status_api,key_expired}')
			ORDER BY next_check_at NULLS FIRST LIMIT $2`, []any{limit, sweepBatch},
		func(ctx context.Context, tx pgx.Tx, pay Payment, op Operation) (bool, error) {
			if op.Status.Final() || op.NextCheckAt != nil && !op.NextCheckAt.Before(limit) {
				return false, nil // somebody was faster
			}
			return true, s.requeueOperation(ctx, tx, pay, op, p)
		})
}

// requeueOperation gives an operation its work back, see requeue.
func (s *Store) requeueOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, p SweepParams) error {
	c := operationChange{change: change{kind: op.event("snoozed"), source: "sweep", by: System("sweep"), quiet: true,
		next: next{at: s.Now().Add(nextSweep), why: op.NextCheckWhy}}}
	if op.Status == Pending {
		paused, err := chargesPaused(ctx, tx, op.Provider)
		if err != nil {
			return err
		}
		if paused {
			c.next.why = whyPaused
		}
		if op, err = s.applyOperation(ctx, tx, pay, op, c); err != nil || paused {
			return err
		}
		return s.enqueuer().Operation(ctx, tx, op.ID, op.Provider, time.Time{})
	}
	can := p.AskOperationAt == nil || p.AskOperationAt(op.Provider, op.Kind)
	replay := op.Status == Unknown && op.Origin != OriginExternal && p.ReplayAt != nil && p.ReplayAt(op.Provider)
	if !can || !replay && !p.AskAt(op.Provider) {
		if op.Status == Unknown || s.Now().Sub(op.UpdatedAt) > eventWait {
			c.next, c.add = next{}, []string{ReviewNoStatusAPI}
			c.set = func(q *Operation) { q.NextCheckAt, q.NextCheckWhy = nil, "" }
		}
		_, err := s.applyOperation(ctx, tx, pay, op, c)
		return err
	}
	op, err := s.applyOperation(ctx, tx, pay, op, c)
	if err != nil {
		return err
	}
	return s.enqueuer().OperationLookup(ctx, tx, op.ID, op.Provider, time.Time{})
}

func (s *Store) sweepAgedOperations(ctx context.Context, p SweepParams) (int, error) {
	limit := s.Now().Add(-p.UnknownAged)
	return s.eachOperation(ctx, `SELECT id FROM operations WHERE status = 'unknown' AND unknown_since < $1
			AND NOT needs_review @> '{aged}' ORDER BY id LIMIT $2`, []any{limit, sweepBatch},
		func(ctx context.Context, tx pgx.Tx, pay Payment, op Operation) (bool, error) {
			if op.Status != Unknown || op.UnknownSince == nil || !op.UnknownSince.Before(limit) || slices.Contains(op.NeedsReview, ReviewAged) {
				return false, nil
			}
			_, err := s.applyOperation(ctx, tx, pay, op, operationChange{change: change{add: []string{ReviewAged},
				kind: op.event("review"), source: "sweep", by: System("sweep"), quiet: true}})
			return true, err
		})
}

// requeueOperations pulls the jobs of a provider's pending operations forward when its
// charges are resumed.
func (s *Store) requeueOperations(ctx context.Context, tx pgx.Tx, providerName string) error {
	rows, err := tx.Query(ctx, `SELECT id FROM operations WHERE provider = $1 AND status = 'pending' ORDER BY id LIMIT $2`, providerName, sweepBatch)
	if err != nil {
		return wrap(err, "requeue operations")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return wrap(err, "requeue operations")
	}
	for _, id := range ids {
		if err := s.enqueuer().Operation(ctx, tx, id, providerName, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}
