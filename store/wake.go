package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// whyCircuitOpen is what jobs note on a payment whose job waits for an open circuit.
const whyCircuitOpen = "circuit_open"

// waiting is what work of a provider waits for: its next_check_why is one of these, and its
// status has this reason, if there is one.
type waiting struct {
	whys   []string
	reason string
}

var (
	forCircuit = waiting{whys: []string{whyCircuitOpen}}
	// A charge that did not go out for want of a token comes back by itself, late perhaps.
	forToken = waiting{whys: []string{whyRetry, whyThrottled}, reason: provider.ReasonNoToken}
)

// WakePace is how many waiting payments a second come back when a circuit is closed,
// unless Options.WakeAt says otherwise: a provider that has just recovered is not flooded.
const WakePace = 10

// WakeSpan is how long it takes until the last of n payments that waited for a
// provider's circuit has come back: charges, or lookups.
func (s *Store) WakeSpan(name string, charges bool, n int) time.Duration {
	return s.wakeAt(name, charges, max(n-1, 0))
}

// evenly is the pace of a store that was given none.
func evenly(_ string, _ bool, i int) time.Duration { return time.Duration(i) * time.Second / WakePace }

// WakeWaiting brings the payments, and then the operations, that wait for a provider's open circuit forward, at
// the pace of Options.WakeAt: charges of pending payments with charges true, lookups of
// the others with it false. Without it, work that went to sleep for the open time would
// sleep on after a person closed the circuit. It works in batches; a crash in between
// leaves the rest to their own times, and nothing is ever put off by it.
func (s *Store) WakeWaiting(ctx context.Context, name string, charges bool) (woken int, err error) {
	return s.wakeAll(ctx, name, charges, forCircuit)
}

// WakeTokenless brings the charges and operations forward that did not go out for want of
// the token their requests carry, as WakeWaiting does: there is one to be had again.
func (s *Store) WakeTokenless(ctx context.Context, name string) (woken int, err error) {
	return s.wakeAll(ctx, name, true, forToken)
}

func (s *Store) wakeAll(ctx context.Context, name string, charges bool, what waiting) (woken int, err error) {
	start, last := s.Now(), uuid.Nil
	for {
		var ids []uuid.UUID
		err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			ids, err = s.wakeBatch(ctx, tx, name, charges, what, last, start, woken, resumeBatch)
			return err
		})
		if err != nil {
			return woken, err
		}
		woken += len(ids)
		if len(ids) < resumeBatch {
			break
		}
		last = ids[len(ids)-1]
	}
	for {
		var n int
		err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			n, err = s.wakeOperations(ctx, tx, name, charges, what, start, woken, resumeBatch)
			return err
		})
		woken += n
		if err != nil || n < resumeBatch {
			return woken, err
		}
	}
}

// WakeProbes brings the n payments (then operations) that have waited longest forward: enough for the
// probes of a half-open circuit, while the rest sleeps on. See WakeWaiting.
func (s *Store) WakeProbes(ctx context.Context, name string, charges bool, n int) (woken int, err error) {
	return s.wakeSome(ctx, name, charges, forCircuit, n)
}

// WakeTokenProbes is WakeProbes for the circuit of a provider's tokens.
func (s *Store) WakeTokenProbes(ctx context.Context, name string, n int) (woken int, err error) {
	return s.wakeSome(ctx, name, true, forToken, n)
}

func (s *Store) wakeSome(ctx context.Context, name string, charges bool, what waiting, n int) (woken int, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		ids, err := s.wakeBatch(ctx, tx, name, charges, what, uuid.Nil, s.Now(), 0, n)
		if woken = len(ids); err != nil || woken >= n {
			return err
		}
		more, err := s.wakeOperations(ctx, tx, name, charges, what, s.Now(), woken, n-woken)
		woken += more
		return err
	})
	return woken, err
}

// wakeBatch takes the next batch, in id order: the oldest payment comes first.
func (s *Store) wakeBatch(ctx context.Context, tx pgx.Tx, name string, charges bool, what waiting, after uuid.UUID, start time.Time, before, limit int) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, `
		SELECT id FROM payments
		WHERE provider = $1 AND next_check_why = ANY($2) AND (status = 'pending') = $3
			AND status IN ('pending', 'processing', 'requires_action', 'unknown') AND id > $4 AND $6 IN ('', status_reason)
		ORDER BY id LIMIT $5 FOR UPDATE`, name, what.whys, charges, after, limit, what.reason)
	if err != nil {
		return nil, wrap(err, "wake waiting")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, wrap(err, "wake waiting")
	}
	for i, id := range ids {
		at := start.Add(s.wakeAt(name, charges, before+i))
		if err := s.wake(ctx, tx, id, name, charges, at); err != nil {
			return nil, err
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return ids, Notify(ctx, tx, TopicPayments)
}

func (s *Store) wake(ctx context.Context, tx pgx.Tx, id uuid.UUID, name string, charges bool, at time.Time) error {
	why := whyReconcile
	if charges {
		why = whyCharge
	}
	if _, err := tx.Exec(ctx, `UPDATE payments SET next_check_at = least(next_check_at, $2), next_check_why = $3 WHERE id = $1`, id, at, why); err != nil {
		return wrap(err, "wake payment")
	}
	if charges {
		return s.enqueuer().Charge(ctx, tx, id, name, at)
	}
	return s.enqueuer().Reconcile(ctx, tx, id, name, at)
}
