package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LeaseFor is how long a payment stays with whoever took it. Each thing they do about it
// begins it anew.
const LeaseFor = 10 * time.Minute

// Lease says who is at work on a payment. It keeps people from doing the same work
// twice, and never holds back evidence.
type Lease struct {
	Holder  uuid.UUID
	Name    string // for people
	TakenAt time.Time
	Until   time.Time
}

// Live reports whether the lease still counts.
func (l Lease) Live(now time.Time) bool { return l.Until.After(now) }

// HeldError: somebody else is at work on it (409). Nothing was changed.
type HeldError struct{ Lease Lease }

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("store: held by %s until %s", e.Lease.Name, e.Lease.Until.Format(time.RFC3339))
}

// waits reports whether a payment needs a person's answer: it is in the work queue.
func (p Payment) waits() bool { return p.Status == Unknown || len(p.NeedsReview) > 0 }

// Take gives a payment that needs an answer to a person, once per action id; who has it
// already has it longer. Errors: *HeldError, ErrNotFound, ErrNotAllowed (nothing to
// answer, or not a person).
func (s *Store) Take(ctx context.Context, actionID, paymentID uuid.UUID, by Actor) (Lease, error) {
	return s.take(ctx, actionID, paymentID, uuid.Nil, "payment.take", by)
}

// TakeOver is Take that also takes from somebody: from is the holder the person was shown
// and means to replace. If it is somebody else by now: *HeldError.
func (s *Store) TakeOver(ctx context.Context, actionID, paymentID, from uuid.UUID, by Actor) (Lease, error) {
	return s.take(ctx, actionID, paymentID, from, "payment.takeover", by)
}

func (s *Store) take(ctx context.Context, actionID, paymentID, from uuid.UUID, action string, by Actor) (got Lease, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// The lock makes taking and deciding take turns.
		p, err := lockPayment(ctx, tx, paymentID)
		if err != nil {
			return err
		}
		first, err := s.claimBeside(ctx, tx, actionID, paymentID, action, by)
		if err != nil {
			return err
		}
		if !first {
			got, err = leaseOf(ctx, tx, paymentID)
			return err
		}
		if !p.waits() {
			return ErrNotAllowed
		}
		got, err = s.grant(ctx, tx, paymentID, from, by)
		return err
	})
	if err != nil {
		return Lease{}, fmt.Errorf("take payment %s: %w", paymentID, err)
	}
	return got, nil
}

// grant writes the lease, unless a live one is somebody's other than from's, with its
// audit row. Two at once take turns at the row, so one of them is refused.
func (s *Store) grant(ctx context.Context, tx pgx.Tx, paymentID, from uuid.UUID, by Actor) (Lease, error) {
	me, err := person(by)
	if err != nil {
		return Lease{}, err
	}
	before, err := leaseOf(ctx, tx, paymentID)
	if err != nil {
		return Lease{}, err
	}
	now := s.Now()
	got := Lease{Holder: me, Name: clean(by.Name), TakenAt: now, Until: now.Add(LeaseFor)}
	err = tx.QueryRow(ctx, `INSERT INTO leases AS l (subject, holder, holder_name, taken_at, until) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (subject) DO UPDATE SET holder = excluded.holder, holder_name = excluded.holder_name, until = excluded.until,
			taken_at = CASE WHEN l.holder = excluded.holder AND l.until > excluded.taken_at THEN l.taken_at ELSE excluded.taken_at END
		WHERE l.until <= excluded.taken_at OR l.holder IN (excluded.holder, $6)
		RETURNING taken_at`, subject(paymentID), me, got.Name, now, got.Until, from).Scan(&got.TakenAt)
	if errors.Is(err, pgx.ErrNoRows) {
		held, err := leaseOf(ctx, tx, paymentID)
		if err != nil {
			return Lease{}, err
		}
		return Lease{}, &HeldError{held}
	}
	if err != nil {
		return Lease{}, wrap(err, "take lease")
	}
	action, was := "payment.take", map[string]any(nil)
	switch {
	case !before.Live(now):
	case before.Holder == me:
		return got, Notify(ctx, tx, TopicPayments) // longer, no news
	default:
		action, was = "payment.takeover", before.audit()
	}
	if err := s.Audit(ctx, tx, by, action, subject(paymentID), "", was, got.audit()); err != nil {
		return Lease{}, err
	}
	if err := forgetLeases(ctx, tx, now.Add(-leaseKept)); err != nil {
		return Lease{}, err
	}
	return got, Notify(ctx, tx, TopicPayments)
}

func (l Lease) audit() map[string]any {
	return map[string]any{"holder": l.Name, "until": l.Until.UTC().Format(time.RFC3339)}
}

// leaseKept is how long a lease that ran out stays on file.
const leaseKept = 24 * time.Hour

// forgetLeases clears a few old ones; those that somebody else clears are left to them.
func forgetLeases(ctx context.Context, tx pgx.Tx, before time.Time) error {
	_, err := tx.Exec(ctx, `DELETE FROM leases WHERE subject IN
		(SELECT subject FROM leases WHERE until < $1 ORDER BY until LIMIT 20 FOR UPDATE SKIP LOCKED)`, before)
	return wrap(err, "forget leases")
}

// takeTries bounds how often TakeNext meets somebody who was quicker. Each time the other
// one has got a payment, so it ends sooner in practice.
const takeTries = 50

// TakeNext gives a person the most urgent payment of the queue that nobody holds, once
// per action id: a repeat answers the first one's. However many ask at once, each gets
// another. ErrNotFound: there is none.
func (s *Store) TakeNext(ctx context.Context, actionID uuid.UUID, providerName string, by Actor) (id uuid.UUID, err error) {
	for range takeTries {
		id, err = s.takeNext(ctx, actionID, providerName, by)
		if held := (*HeldError)(nil); !errors.As(err, &held) {
			break
		}
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("take next: %w", err)
	}
	return id, nil
}

func (s *Store) takeNext(ctx context.Context, actionID uuid.UUID, providerName string, by Actor) (id uuid.UUID, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		id, err = s.freeAnswer(ctx, tx, providerName)
		none := errors.Is(err, pgx.ErrNoRows)
		if err != nil && !none {
			return wrap(err, "next payment")
		}
		result := ""
		if !none {
			result = id.String()
		}
		first, earlier, err := s.ClaimAction(ctx, tx, actionID, by, "payment.take", "queue", result)
		switch {
		case err != nil:
			return err
		case !first:
			if id, err = uuid.Parse(earlier); err != nil {
				return ErrNotFound
			}
			return nil
		case none:
			return ErrNotFound
		}
		_, err = s.grant(ctx, tx, id, uuid.Nil, by)
		return err
	})
	return id, err
}

// freeAnswer locks the most urgent payment that nobody holds. What is locked is being
// worked on this very moment and is passed over; only if there is nothing else is it
// waited for, as a lock may end without a lease.
func (s *Store) freeAnswer(ctx context.Context, tx pgx.Tx, providerName string) (id uuid.UUID, err error) {
	for _, locked := range []string{"SKIP LOCKED", ""} {
		w := AnswerFilter{Provider: providerName, Lease: LeaseNone}.where(s.Now())
		err = tx.QueryRow(ctx, fmt.Sprintf("SELECT id FROM payments %s ORDER BY %s LIMIT 1 FOR UPDATE %s", w, answerOrder, locked),
			w.planned()...).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			break
		}
	}
	return id, err
}

// Release gives a payment back to the queue, once per action id. Errors: *HeldError
// (it is somebody else's), ErrNotFound.
func (s *Store) Release(ctx context.Context, actionID, paymentID uuid.UUID, by Actor) error {
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := lockPayment(ctx, tx, paymentID); err != nil {
			return err
		}
		first, err := s.claimBeside(ctx, tx, actionID, paymentID, "payment.release", by)
		if err != nil || !first {
			return err
		}
		me, err := person(by)
		if err != nil {
			return err
		}
		l, err := leaseOf(ctx, tx, paymentID)
		switch {
		case err != nil:
			return err
		case !l.Live(s.Now()):
			return nil // it is free already
		case l.Holder != me:
			return &HeldError{l}
		}
		if err := endLease(ctx, tx, paymentID); err != nil {
			return err
		}
		if err := s.Audit(ctx, tx, by, "payment.release", subject(paymentID), "", l.audit(), nil); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicPayments)
	})
	if err != nil {
		return fmt.Errorf("release payment %s: %w", paymentID, err)
	}
	return nil
}

// Renew begins the person's own live lease anew: they are at work. Without one, nothing.
func (s *Store) Renew(ctx context.Context, paymentID uuid.UUID, by Actor) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.renew(ctx, tx, paymentID, by) })
}

func (s *Store) renew(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, by Actor) error {
	me, err := person(by)
	if err != nil {
		return nil // jobs and programs hold no leases
	}
	now := s.Now()
	_, err = tx.Exec(ctx, `UPDATE leases SET until = $3 WHERE subject = $1 AND holder = $2 AND until > $4`,
		subject(paymentID), me, now.Add(LeaseFor), now)
	return wrap(err, "renew lease")
}

// heldByOther is a *HeldError while somebody else is at work on the payment.
func (s *Store) heldByOther(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, by Actor) error {
	l, err := leaseOf(ctx, tx, paymentID)
	if err != nil || !l.Live(s.Now()) {
		return err
	}
	if me, err := person(by); err == nil && me == l.Holder {
		return nil
	}
	return &HeldError{l}
}

func endLease(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID) error {
	_, err := tx.Exec(ctx, `DELETE FROM leases WHERE subject = $1`, subject(paymentID))
	return wrap(err, "end lease")
}

// LeaseOf reads who is at work on a payment; ok is false when nobody is.
func (s *Store) LeaseOf(ctx context.Context, paymentID uuid.UUID) (l Lease, ok bool, err error) {
	l, err = leaseOf(ctx, s.pool, paymentID)
	return l, l.Live(s.Now()), err
}

// leaseOf reads the lease, live or not; without one it is zero.
func leaseOf(ctx context.Context, q reader, paymentID uuid.UUID) (l Lease, err error) {
	err = q.QueryRow(ctx, `SELECT holder, holder_name, taken_at, until FROM leases WHERE subject = $1`, subject(paymentID)).
		Scan(&l.Holder, &l.Name, &l.TakenAt, &l.Until)
	if errors.Is(err, pgx.ErrNoRows) {
		return Lease{}, nil
	}
	return l, wrap(err, "read lease")
}

func subject(paymentID uuid.UUID) string { return "payment:" + paymentID.String() }

// person is the user behind an action. ErrNotAllowed: it was no person.
func person(by Actor) (uuid.UUID, error) {
	id, err := uuid.Parse(by.ID)
	if by.Kind != "user" || err != nil {
		return uuid.Nil, ErrNotAllowed
	}
	return id, nil
}
