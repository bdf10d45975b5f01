package store

import (
	"context"
	"fmt"

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

// WalletSum is the proof of one wallet's balance, read in one statement.
type WalletSum struct {
	Balance int64 // as stored on the wallet
	Sum     int64 // of its entries
	Entries int64
	// Broken counts entries whose balance_after is not the running sum up to them.
	Broken int64
}

// Balances reports whether the books of the wallet agree with themselves.
func (w WalletSum) Balances() bool { return w.Balance == w.Sum && w.Broken == 0 }

// CheckWallet adds a wallet's entries up again and compares. ErrWalletNotFound.
func (s *Store) CheckWallet(ctx context.Context, id uuid.UUID) (WalletSum, error) {
	var c WalletSum
	err := s.pool.QueryRow(ctx, `
		WITH e AS (SELECT amount, balance_after, sum(amount) OVER (ORDER BY id) AS running
			FROM wallet_entries WHERE wallet_id = $1)
		SELECT w.balance, coalesce(sum(e.amount), 0)::bigint, count(e.amount),
			count(*) FILTER (WHERE e.balance_after <> e.running)
		FROM wallets w LEFT JOIN e ON true WHERE w.id = $1 GROUP BY w.balance`, id).
		Scan(&c.Balance, &c.Sum, &c.Entries, &c.Broken)
	if err != nil {
		if notFound(err) == ErrNotFound {
			err = ErrWalletNotFound
		}
		return c, fmt.Errorf("check wallet %s: %w", id, err)
	}
	return c, nil
}
