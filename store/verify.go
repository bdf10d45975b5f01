package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Books are the findings of an audit of our own rows; verify adds the providers' ledgers.
type Books struct {
	Payments        int
	ByStatus        map[string]int
	WalletDrift     []string // what is wrong, one line each, naming the wallet or payment
	Stuck           []string // not final and without a next step
	UnknownSeen     int      // payments that were unknown at any time
	UnknownResolved int      // of those, now final
	BreakerOpened   int
	BreakerClosed   int
	Webhooks        struct{ Received, Duplicates, Rejected, Applied, Unmatched int }
	MaxWireSends    int // of any attempt

	Operations         int            // refunds, and whatever else is done to charges
	OperationsByStatus map[string]int // of these
	Refunds            []string       // sums of refunds that cannot be, one line each
}

// stuckAfter: a next check this long past means that nobody is coming.
const stuckAfter = "5 minutes"

// Books audits our own rows, in one snapshot.
func (s *Store) Books(ctx context.Context) (Books, error) {
	b := Books{ByStatus: map[string]int{}, WalletDrift: []string{}, Stuck: []string{}, Refunds: []string{}}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, part := range []func(context.Context, pgx.Tx) error{b.statuses, b.counts, b.drift} {
			if err := part(ctx, tx); err != nil {
				return err
			}
		}
		if err := b.stuck(ctx, tx, s); err != nil {
			return err
		}
		return b.refunds(ctx, tx, s)
	})
	if err != nil {
		return Books{}, wrap(err, "audit the books")
	}
	return b, nil
}

func (b *Books) statuses(ctx context.Context, tx pgx.Tx) error {
	for _, st := range Statuses {
		b.ByStatus[string(st)] = 0
	}
	rows, err := tx.Query(ctx, `SELECT status, count(*), count(*) FILTER (WHERE unknown_seen),
		count(*) FILTER (WHERE unknown_seen AND status IN ('succeeded', 'failed')) FROM payments GROUP BY status`)
	if err != nil {
		return err
	}
	var status string
	var n, seen, resolved int
	_, err = pgx.ForEachRow(rows, []any{&status, &n, &seen, &resolved}, func() error {
		b.ByStatus[status] = n
		b.Payments += n
		b.UnknownSeen += seen
		b.UnknownResolved += resolved
		return nil
	})
	return err
}

func (b *Books) counts(ctx context.Context, tx pgx.Tx) error {
	err := tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state <> 'rejected'), coalesce(sum(duplicates), 0), count(*) FILTER (WHERE state = 'rejected'),
			count(*) FILTER (WHERE state = 'applied'), count(*) FILTER (WHERE state = 'unmatched') FROM webhook_events`).
		Scan(&b.Webhooks.Received, &b.Webhooks.Duplicates, &b.Webhooks.Rejected, &b.Webhooks.Applied, &b.Webhooks.Unmatched)
	if err != nil {
		return err
	}
	return tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM breaker_events WHERE to_state = 'open'), (SELECT count(*) FROM breaker_events WHERE to_state = 'closed'),
			(SELECT coalesce(max(wire_sends), 0) FROM attempts)`).Scan(&b.BreakerOpened, &b.BreakerClosed, &b.MaxWireSends)
}

// drift compares every wallet with its entries, and every top-up with its payment.
func (b *Books) drift(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT format('wallet %s: balance %s, entries %s', w.id, w.balance, coalesce(e.sum, 0))
		FROM wallets w LEFT JOIN (SELECT wallet_id, sum(amount) AS sum FROM wallet_entries GROUP BY wallet_id) e ON e.wallet_id = w.id
		WHERE w.balance <> coalesce(e.sum, 0)
		UNION ALL
		SELECT format('wallet %s: entry %s leaves %s, not %s', wallet_id, id, balance_after, running) FROM (
			SELECT wallet_id, id, balance_after, sum(amount) OVER (PARTITION BY wallet_id ORDER BY id) AS running FROM wallet_entries) r
		WHERE balance_after <> running
		UNION ALL
		SELECT format('payment %s: succeeded and its wallet was not credited', p.id)
		FROM payments p LEFT JOIN wallet_entries e ON e.operation_id = 'payment:' || p.id || ':topup'
		WHERE p.status = 'succeeded' AND p.wallet_id IS NOT NULL AND (e.id IS NULL OR e.amount <> p.captured_amount OR e.wallet_id <> p.wallet_id)
		UNION ALL
		SELECT format('payment %s: %s and its wallet was credited', p.id, p.status)
		FROM wallet_entries e JOIN payments p ON p.id = e.payment_id WHERE e.kind = 'topup' AND p.status <> 'succeeded'`)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.WalletDrift = append(b.WalletDrift, list...)
	return err
}

func (b *Books) stuck(ctx context.Context, tx pgx.Tx, s *Store) error {
	rows, err := tx.Query(ctx, `
		SELECT format('payment %s: %s, next check %s', id, status, coalesce(next_check_at::text, 'never'))
		FROM payments WHERE status IN ('pending', 'processing', 'requires_action', 'unknown') AND needs_review = '{}'
		AND (next_check_at IS NULL OR next_check_at < $1::timestamptz - $2::interval) ORDER BY id`, s.Now(), stuckAfter)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.Stuck = append(b.Stuck, list...)
	return err
}

// paymentPage is how many payments EachPayment reads at once.
const paymentPage = 500

// EachPayment calls fn with every payment, in id order, in keyset pages. It holds no
// connection while fn runs.
func (s *Store) EachPayment(ctx context.Context, fn func(Payment) error) error {
	last := uuid.Nil
	for {
		rows, err := s.pool.Query(ctx, `SELECT `+paymentColumns+` FROM payments WHERE id > $1 ORDER BY id LIMIT $2`, last, paymentPage)
		if err != nil {
			return wrap(err, "read payments")
		}
		page, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Payment, error) { return scanPayment(r) })
		if err != nil {
			return wrap(err, "read payments")
		}
		for _, p := range page {
			if err := fn(p); err != nil {
				return fmt.Errorf("payment %s: %w", p.ID, err)
			}
		}
		if len(page) < paymentPage {
			return nil
		}
		last = page[len(page)-1].ID
	}
}
