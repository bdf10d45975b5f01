package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	if !s.keyAlive(pr, pol.KeyLife) {
		if _, err = s.expireKey(ctx, tx, p, !pol.AskAfter); err != nil || !pol.AskAfter {
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

// expireKey ends all resends of a payment. last: a resend was the only way to ask, so
// nothing looks at the payment by the clock any more.
func (s *Store) expireKey(ctx context.Context, tx pgx.Tx, pay Payment, last bool) (Payment, error) {
	c := change{
		reason: ReviewKeyExpired, add: []string{ReviewKeyExpired},
		kind: "review", source: "job", by: System("charge"), quiet: true,
	}
	if last {
		c.set = func(q *Payment) { q.NextCheckAt, q.NextCheckWhy = nil, "" }
	}
	pay, _, err := s.apply(ctx, tx, pay, c)
	return pay, err
}

// attemptKind is the timeline's word for an attempt that begins.
func attemptKind(p BeginParams) string {
	if p.Recharge || p.Replay {
		return "resend_started"
	}
	return "attempt_started"
}
