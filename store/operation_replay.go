package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// ReplayOperation queues the resend of an unknown operation's own key and bytes, in tx,
// as Replay does a charge's. It sends nothing: BeginOperation with Replay decides again,
// by the rows of that moment. again is when to come back, because an attempt is in flight
// or too recent. ask: no replay goes out any more, and something else can be asked.
// Neither: there is no more to do here.
func (s *Store) ReplayOperation(ctx context.Context, tx pgx.Tx, id uuid.UUID, pol ReplayPolicy) (again time.Time, ask bool, err error) {
	pay, op, err := lockOperation(ctx, tx, id)
	if err != nil || op.Status != Unknown {
		return time.Time{}, false, err
	}
	pr, err := attemptsBefore(ctx, tx, op.PaymentID, op.AttemptName())
	if err != nil {
		return time.Time{}, false, err
	}
	if open := pr.open; open != nil {
		if s.Now().Before(open.Deadline) {
			return open.Deadline, false, nil
		}
		if op, err = s.abandonOperation(ctx, tx, pay, op, open.ID, System("operation_lookup"), "job"); err != nil {
			return time.Time{}, false, err
		}
	}
	if at := pr.lastMark.Add(pol.Apart); pr.request != nil && s.Now().Before(at) {
		return at, false, nil
	}
	if review := s.endOfReplays(pr, pol.KeyLife, op.NextCheckWhy); review != "" {
		_, err = s.endOperationReplays(ctx, tx, pay, op, review, !pol.AskAfter)
		return time.Time{}, pol.AskAfter, err
	}
	_, err = s.applyOperation(ctx, tx, pay, op, operationChange{change: change{
		next: next{at: pol.NextAt, why: whyRecharge},
		kind: op.event("snoozed"), source: "job", by: System("operation_lookup"), quiet: true,
	}})
	if err != nil {
		return time.Time{}, false, err
	}
	return time.Time{}, false, s.enqueuer().ReplayOperation(ctx, tx, op.ID, op.Provider)
}

// endOperationReplays ends all resends of an operation, see endReplays.
func (s *Store) endOperationReplays(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, review string, last bool) (Operation, error) {
	c := operationChange{change: replaysEnded(review, last, op.event("review"), System("operation"))}
	if last {
		c.set = func(q *Operation) { q.NextCheckAt, q.NextCheckWhy = nil, "" }
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}

// mayReplayOperation decides whether an unknown operation's own key and bytes may go out.
func (s *Store) mayReplayOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, pr prior, p BeginOperationParams) (after Operation, refusal, err error) {
	switch {
	case pr.request == nil:
		return op, ErrSettled, nil // without bytes there is nothing to repeat
	case !s.keyAlive(pr, p.KeyLife):
		op, err = s.endOperationReplays(ctx, tx, pay, op, ReviewKeyExpired, !p.AskAfter)
		return op, ErrKeyExpired, err
	}
	return op, nil, nil
}

// undecided is what an answer that decides nothing adds to the reviews of what has a
// status: nothing it could not read once better evidence settled it, and no doubt from a
// rejected replay about anything but what is unknown.
func undecided(add []string, status Status, o provider.Charged) []string {
	if status.Final() {
		add = without(add, ReviewUnmapped)
	}
	if status != Unknown && o.Reason == provider.ReasonReplayRejected {
		add = without(add, ReviewContradiction)
	}
	return add
}
