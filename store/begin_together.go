package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// begunAttempt is what BeginAttempt returns.
type begunAttempt struct {
	attempt Attempt
	payment Payment
}

// beginTogether marks the first attempts of pending payments that nobody else holds and
// whose provider is not paused. Everything else has to be looked at alone.
func (s *Store) beginTogether(ctx context.Context, list []BeginParams) (out []begunAttempt, did []bool, err error) {
	out, did = make([]begunAttempt, len(list)), make([]bool, len(list))
	seen := make([]Seen, len(list))
	for i, p := range list {
		seen[i] = p.Seen.of(p.PaymentID)
	}
	err = s.inExchange(ctx, func(ctx context.Context, x *exchange) error {
		clear(did)
		free, err := firstAttempts(ctx, x, seen)
		if err != nil {
			return err
		}
		var moves []move
		var attempts []Attempt
		for i, p := range list {
			pay, ok := free[p.PaymentID]
			if !ok || pay.Status != Pending || p.Recharge || p.Replay || len(p.Body) == 0 {
				continue
			}
			delete(free, p.PaymentID) // a second call for it goes alone
			a, err := s.nextAttempt(prior{}, chargeAttempt(pay.ID, p), p.KeyLife, p.Deadline)
			if err != nil {
				return err
			}
			c := s.markChange(a, p)
			// The attempt says that it runs and until when, and the sweep reads it there: the
			// payment's own row, with its many indexes, is left alone.
			if pay.NextCheckWhy == whyCharge { // else it tells what is over
				c.next, c.set = next{}, nil
			}
			m, ok := s.plainly(pay, c)
			if !ok {
				continue
			}
			moves, attempts = append(moves, m), append(attempts, a)
			out[i], did[i] = begunAttempt{a, m.after}, true
		}
		if len(moves) == 0 {
			return nil
		}
		var b pgx.Batch
		queueAttempts(&b, attempts)
		s.queueMoves(&b, moves)
		return wrap(x.commit(ctx, &b, TopicPayments), "begin attempts")
	})
	return out, did, err
}

// firstAttempts locks the payments that nobody holds and returns those of them without
// an attempt, at providers whose charges are not paused.
func firstAttempts(ctx context.Context, x *exchange, seen []Seen) (map[uuid.UUID]Payment, error) {
	var b pgx.Batch
	settings(&b)
	ids, locked := queueSeenLocks(&b, seen)
	tried, paused := map[uuid.UUID]bool{}, map[string]bool{}
	b.Queue(`SELECT DISTINCT payment_id FROM attempts WHERE payment_id = ANY($1)`, ids).Query(intoSet(tried))
	b.Queue(`SELECT provider FROM provider_state WHERE charges_paused`).Query(intoSet(paused))
	if err := x.send(ctx, &b); err != nil {
		return nil, wrap(err, "lock payments to charge")
	}
	free, err := readLocked(ctx, x, seen, locked)
	if err != nil {
		return nil, err
	}
	for id, p := range free {
		if tried[id] || paused[p.Provider] {
			delete(free, id)
		}
	}
	return free, nil
}

// queueLocks locks those payments that no other transaction holds, in the order of their
// ids; the map is filled when the batch has run.
func queueLocks(b *pgx.Batch, ids []uuid.UUID) map[uuid.UUID]Payment {
	locked := map[uuid.UUID]Payment{}
	b.Queue(`SELECT `+paymentColumns+` FROM payments WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED`, ids).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Payment, error) { return scanPayment(r) })
		for _, p := range list {
			locked[p.ID] = p
		}
		return err
	})
	return locked
}

// queueSeenLocks is queueLocks for payments that were read before; the map of the versions
// of their rows is filled when the batch has run.
func queueSeenLocks(b *pgx.Batch, seen []Seen) (ids []uuid.UUID, locked map[uuid.UUID]uint32) {
	ids, locked = make([]uuid.UUID, len(seen)), make(map[uuid.UUID]uint32, len(seen))
	for i, s := range seen {
		ids[i] = s.Payment.ID
	}
	b.Queue(`SELECT id, xmin FROM payments WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED`, ids).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var row uint32
		_, err := pgx.ForEachRow(rows, []any{&id, &row}, func() error { locked[id] = row; return nil })
		return err
	})
	return ids, locked
}

// readLocked returns the payments that are locked as they are now. Those that were seen in
// this version are known; the others are read.
func readLocked(ctx context.Context, x *exchange, seen []Seen, locked map[uuid.UUID]uint32) (map[uuid.UUID]Payment, error) {
	now := make(map[uuid.UUID]Payment, len(locked))
	for _, s := range seen {
		if row, ok := locked[s.Payment.ID]; ok && s.row != 0 && s.row == row {
			now[s.Payment.ID] = s.Payment
		}
	}
	var changed []uuid.UUID
	for id := range locked {
		if _, ok := now[id]; !ok {
			changed = append(changed, id)
		}
	}
	if len(changed) == 0 {
		return now, nil
	}
	rows, err := x.Query(ctx, `SELECT `+paymentColumns+` FROM payments WHERE id = ANY($1)`, changed)
	if err != nil {
		return nil, wrap(err, "read locked payments")
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Payment, error) { return scanPayment(r) })
	for _, p := range list {
		now[p.ID] = p
	}
	return now, wrap(err, "read locked payments")
}

// intoSet collects a column of values.
func intoSet[T comparable](set map[T]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var v T
		_, err := pgx.ForEachRow(rows, []any{&v}, func() error { set[v] = true; return nil })
		return err
	}
}

// chargeAttempt is an attempt of a payment's charge before it has a number.
func chargeAttempt(paymentID uuid.UUID, p BeginParams) Attempt {
	return Attempt{PaymentID: paymentID, Operation: operationCharge, OperationKey: operationKey(paymentID, operationCharge),
		Request: p.Body, Worker: p.Worker}
}

// nextAttempt completes an attempt of an operation: with the bytes frozen at its first,
// else with a's.
func (s *Store) nextAttempt(pr prior, a Attempt, keyLife, deadline time.Duration) (Attempt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Attempt{}, err
	}
	now := s.Now()
	a.ID, a.Seq, a.Worker = id, pr.seq+1, clean(a.Worker)
	a.MarkedAt, a.FirstSentAt, a.ReplayUntil, a.Deadline = now, pr.firstSent, pr.replayUntil, now.Add(deadline)
	if pr.request != nil {
		a.Request = pr.request
	}
	if a.FirstSentAt.IsZero() {
		a.FirstSentAt, a.ReplayUntil = now, now.Add(keyLife)
	}
	return a, nil
}

// queueAttempts inserts attempts: from the commit on their operations count as maybe sent.
func queueAttempts(b *pgx.Batch, list []Attempt) {
	var c struct {
		id, payment                         []uuid.UUID
		operation, key, worker              []string
		seq                                 []int
		request, hash                       [][]byte
		marked, sent, replayUntil, deadline []time.Time
	}
	for _, a := range list {
		hash := sha256.Sum256(a.Request)
		c.id, c.payment, c.seq = append(c.id, a.ID), append(c.payment, a.PaymentID), append(c.seq, a.Seq)
		c.operation, c.key, c.worker = append(c.operation, a.Operation), append(c.key, a.OperationKey), append(c.worker, a.Worker)
		c.request, c.hash = append(c.request, a.Request), append(c.hash, hash[:])
		c.marked, c.sent = append(c.marked, a.MarkedAt), append(c.sent, a.FirstSentAt)
		c.replayUntil, c.deadline = append(c.replayUntil, a.ReplayUntil), append(c.deadline, a.Deadline)
	}
	b.Queue(`INSERT INTO attempts (id, payment_id, operation, seq, operation_key, request, request_hash, worker,
			marked_at, first_sent_at, replay_until, deadline)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::bytea[], $7::bytea[], $8::text[],
			$9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[])`,
		c.id, c.payment, c.operation, c.seq, c.key, c.request, c.hash, c.worker, c.marked, c.sent, c.replayUntil, c.deadline)
}
