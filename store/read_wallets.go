package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// rowToWallet adapts readWallet to pgx.CollectRows.
func rowToWallet(row pgx.CollectableRow) (Wallet, error) { return readWallet(row) }

// ListWallets reads wallets by owner, after the given owner reference ("" from the
// top); prefix narrows to owners beginning with it.
func (s *Store) ListWallets(ctx context.Context, prefix, after string, limit int) (list []Wallet, more bool, err error) {
	w := &where{}
	if prefix != "" {
		w.and("owner_ref ILIKE ?", likePrefix(prefix))
	}
	if after != "" {
		w.and("owner_ref > ?", after)
	}
	sql := fmt.Sprintf("SELECT %s FROM wallets %s ORDER BY owner_ref LIMIT %s", walletColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("list wallets: %w", err)
	}
	all, err := pgx.CollectRows(rows, rowToWallet)
	if err != nil {
		return nil, false, fmt.Errorf("list wallets: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}

// A check adds at most walletCheckStep entries per look, so that its cost does not grow
// with the wallet, and keeps its result once that saves the next look walletCheckKeep.
const (
	walletCheckStep = 20_000
	walletCheckKeep = 500
)

// WalletSum is the proof of one wallet's balance, read in one statement.
type WalletSum struct {
	Balance int64 // as stored on the wallet
	Sum     int64 // of its entries
	Entries int64
	// Broken counts entries whose balance_after is not the running sum up to them.
	Broken int64
	// Before counts the entries an earlier check added up, at CheckedAt; the others were
	// added up now.
	Before    int64
	CheckedAt *time.Time
	// Partial: more entries are left than one look adds up, so Sum is not theirs yet.
	Partial bool
}

// Balances reports whether the books of the wallet agree with themselves, as far as they
// were added up.
func (w WalletSum) Balances() bool { return w.Broken == 0 && (w.Partial || w.Balance == w.Sum) }

// CheckWallet adds up a wallet's entries and compares: the ones of the last check that
// was kept count with its sum, the ones after it are read. What changed before that
// point is found by Verify, which reads everything. ErrWalletNotFound.
func (s *Store) CheckWallet(ctx context.Context, id uuid.UUID) (WalletSum, error) {
	return s.checkWallet(ctx, id, walletCheckStep, walletCheckKeep)
}

func (s *Store) checkWallet(ctx context.Context, id uuid.UUID, step, keep int64) (WalletSum, error) {
	var (
		c          WalletSum
		sum, added int64
		last       int64
	)
	err := s.pool.QueryRow(ctx, `
		WITH c AS (SELECT entry_id, sum, entries, checked_at FROM wallet_checks WHERE wallet_id = $1),
		n AS (SELECT id, amount, balance_after FROM wallet_entries
			WHERE wallet_id = $1 AND id > coalesce((SELECT entry_id FROM c), 0) ORDER BY id LIMIT $2),
		e AS (SELECT id, amount, balance_after, sum(amount) OVER (ORDER BY id) AS running FROM n)
		SELECT w.balance, coalesce(c.sum, 0), coalesce(c.entries, 0), c.checked_at,
			coalesce(sum(e.amount), 0)::bigint, count(e.amount), coalesce(max(e.id), 0),
			count(*) FILTER (WHERE e.balance_after <> coalesce(c.sum, 0) + e.running)
		FROM wallets w LEFT JOIN c ON true LEFT JOIN e ON true
		WHERE w.id = $1 GROUP BY w.balance, c.sum, c.entries, c.checked_at`, id, step).
		Scan(&c.Balance, &c.Sum, &c.Before, &c.CheckedAt, &sum, &added, &last, &c.Broken)
	if err != nil {
		if notFound(err) == ErrNotFound {
			err = ErrWalletNotFound
		}
		return c, fmt.Errorf("check wallet %s: %w", id, err)
	}
	c.Sum, c.Entries, c.Partial = c.Sum+sum, c.Before+added, added == step
	if !c.Balances() || (added < keep && !c.Partial) {
		return c, nil
	}
	// Two looks at once keep the one that came further.
	_, err = s.pool.Exec(ctx, `INSERT INTO wallet_checks AS k (wallet_id, entry_id, sum, entries, checked_at)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (wallet_id) DO UPDATE
		SET entry_id = excluded.entry_id, sum = excluded.sum, entries = excluded.entries, checked_at = excluded.checked_at
		WHERE k.entry_id < excluded.entry_id`, id, last, c.Sum, c.Entries, s.Now())
	if err != nil {
		return c, fmt.Errorf("keep check of wallet %s: %w", id, err)
	}
	return c, nil
}
