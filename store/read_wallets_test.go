package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWalletCheckGoesOnWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	id := db.SeedWallet(t, "acme", "EUR", 500, -200, 50, 7, 1)
	check := func() (before, entries, sum int64, partial, ok bool) {
		c, err := s.CheckWalletInSteps(t.Context(), id, 3, 2)
		require.NoError(t, err)
		if c.CheckedAt != nil {
			require.True(t, now.Equal(*c.CheckedAt))
		}
		return c.Before, c.Entries, c.Sum, c.Partial, c.Balances()
	}
	want := func(before, entries, sum int64, partial, ok bool) {
		t.Helper()
		b, e, got, p, balances := check()
		require.Equal(t, []any{before, entries, sum, partial, ok}, []any{b, e, got, p, balances})
	}
	want(0, 3, 350, true, true)
	want(3, 5, 358, false, true)
	want(5, 5, 358, false, true)

	db.Exec(t, `UPDATE wallets SET balance = 359 WHERE id = $1`, id)
	want(5, 5, 358, false, false)
	db.Exec(t, `UPDATE wallets SET balance = 368 WHERE id = $1`, id)
	db.Exec(t, `INSERT INTO wallet_entries (wallet_id, operation_id, amount, balance_after, kind, actor, created_at)
		VALUES ($1, 'late', 10, 999, 'credit', 'client:x', $2)`, id, now)
	want(5, 6, 368, false, false)
	db.Exec(t, `UPDATE wallet_entries SET balance_after = 368 WHERE operation_id = 'late'`)
	want(5, 6, 368, false, true)
}
