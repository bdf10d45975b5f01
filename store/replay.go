package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// ReplayPolicy is how an unknown payment's own key and bytes may go out again.
type ReplayPolicy struct {
	KeyLife  time.Duration // the provider's
	Apart    time.Duration // not sooner than this after the last attempt's mark: its call may still run over there
	AskAfter bool          // past the key's life there is still something to ask
	NextAt   time.Time     // when the payment is looked at again, should the resend's job be lost
}

// Replay queues the resend of an unknown payment's own key and bytes, in tx, at a
// provider that documents it as safe. It sends nothing: BeginAttempt with Replay decides
// again, by the rows of that moment.
//
// again is when to come back, because an attempt is in flight or too recent, or because
// the key is over and something else can be asked; zero when there is no more to do
// here. A payment that is not unknown any more stays as it is. Past the key's life, with
// nothing to ask, it waits for an event or a person.
func (s *Store) Replay(ctx context.Context, tx pgx.Tx, id uuid.UUID, pol ReplayPolicy) (again time.Time, err error) {
	p, err := lockPayment(ctx, tx, id)
	if err != nil || p.Status != Unknown {
		return time.Time{}, err
	}
	pr, err := priorAttempts(ctx, tx, id)
	if err != nil || pr.request == nil {
		return time.Time{}, err // without bytes there is nothing to repeat
	}
	if open := pr.open; open != nil {
		if s.Now().Before(open.Deadline) {
			return open.Deadline, nil
		}
		if p, err = s.abandon(ctx, tx, p, open.ID, System("reconcile"), "job"); err != nil {
			return time.Time{}, err
		}
	}
	if at := pr.lastMark.Add(pol.Apart); s.Now().Before(at) {
		return at, nil
	}
	if review := s.endOfReplays(pr, pol.KeyLife, p.NextCheckWhy); review != "" {
		if _, err = s.endReplays(ctx, tx, p, review, !pol.AskAfter); err != nil || !pol.AskAfter {
			return time.Time{}, err
		}
		return s.Now(), nil // to ask instead
	}
	_, _, err = s.apply(ctx, tx, p, change{
		next: next{at: pol.NextAt, why: whyRecharge},
		kind: "snoozed", source: "job", by: System("reconcile"), quiet: true,
	})
	if err != nil {
		return time.Time{}, err
	}
	return time.Time{}, s.enqueuer().Recharge(ctx, tx, p.ID, p.Provider)
}

// endOfReplays is the review with which the resends end; empty: another may go out. Past
// its life the key ends them for good. A rejection ends those by the clock: what is
// refused now will be refused again, and it does not tell what the first send did. A
// person may still order one.
func (s *Store) endOfReplays(pr prior, keyLife time.Duration, why string) string {
	switch {
	case pr.request == nil: // made elsewhere: there is nothing to repeat
		return ReviewNoStatusAPI
	case !s.keyAlive(pr, keyLife):
		return ReviewKeyExpired
	case pr.rejected && why != whyOperator:
		return ReviewContradiction
	}
	return ""
}

// replaysEnded is the change with which they end. last: a resend was the only way to ask,
// which only the key's end says by itself.
func replaysEnded(review string, last bool, kind string, by Actor) change {
	c := change{reason: review, add: []string{review}, kind: kind, source: "job", by: by, quiet: true}
	switch {
	case review == ReviewContradiction:
		c.reason = provider.ReasonReplayRejected
		if last {
			c.add = append(c.add, ReviewNoStatusAPI)
		}
	case review == ReviewNoStatusAPI && !last:
		c.reason, c.add = "", nil
	}
	return c
}

// endReplays ends all resends of a payment. last: a resend was the only way to ask, so
// nothing looks at the payment by the clock any more.
func (s *Store) endReplays(ctx context.Context, tx pgx.Tx, pay Payment, review string, last bool) (Payment, error) {
	c := replaysEnded(review, last, "review", System("charge"))
	if last {
		c.set = func(q *Payment) { q.NextCheckAt, q.NextCheckWhy = nil, "" }
	}
	pay, _, err := s.apply(ctx, tx, pay, c)
	return pay, err
}

// attemptKind is the timeline's word for an attempt that begins.
func attemptKind(again bool) string {
	if again {
		return "resend_started"
	}
	return "attempt_started"
}
