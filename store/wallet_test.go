package store_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
	"fusebox/store"
)

func TestWalletMovesOncePerOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	first, replayed, err := w.Move(ctx, wal.ID, "op_1", 5000, "gift", apiClient)
	require.NoError(t, err)
	require.False(t, replayed)
	require.Equal(t, int64(5000), first.BalanceAfter)
	again, replayed, err := w.Move(ctx, wal.ID, "op_1", 5000, "other words", apiClient)
	require.NoError(t, err)
	require.True(t, replayed)
	require.Equal(t, first, again)

	for name, move := range map[string]func() error{
		"another amount":  func() error { _, _, err := w.Move(ctx, wal.ID, "op_1", 5001, "", apiClient); return err },
		"another wallet":  func() error { _, _, err := w.Move(ctx, w.wallet().ID, "op_1", 5000, "", apiClient); return err },
		"a payment's own": func() error { _, _, err := w.Move(ctx, wal.ID, "payment:x:topup", 1, "", apiClient); return err },
	} {
		require.ErrorIs(t, move(), store.ErrOperationReused, name)
	}
	_, _, err = w.Move(ctx, wal.ID, "op_2", -5001, "", apiClient)
	require.ErrorIs(t, err, store.ErrInsufficient)
	_, _, err = w.Move(ctx, wal.ID, "op_2", math.MinInt64, "", apiClient)
	require.ErrorIs(t, err, store.ErrInsufficient)
	_, _, err = w.Move(ctx, wal.ID, "op_2", math.MaxInt64, "", apiClient)
	require.ErrorIs(t, err, store.ErrWalletFull)
	_, _, err = w.Move(ctx, uuid.New(), "op_2", 1, "", apiClient)
	require.ErrorIs(t, err, store.ErrWalletNotFound)
	debit, _, err := w.Move(ctx, wal.ID, "op_2", -5000, "", apiClient) // a refused id is still free
	require.NoError(t, err)
	require.Equal(t, "debit", debit.Kind)
	require.Zero(t, w.balance(wal.ID))

	list, err := w.WalletEntries(ctx, wal.ID, 0, 10)
	require.NoError(t, err)
	require.Equal(t, []string{"op_2", "op_1"}, []string{list[0].OperationID, list[1].OperationID})
	list, err = w.WalletEntries(ctx, wal.ID, list[0].ID, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestHeldMoneyCannotBeSpent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	_, _, err := w.Move(ctx, wal.ID, "in", 100, "", apiClient)
	require.NoError(t, err)
	_, err = w.db.Pool.Exec(ctx, `UPDATE wallets SET held = 60 WHERE id = $1`, wal.ID)
	require.NoError(t, err)
	_, _, err = w.Move(ctx, wal.ID, "out", -41, "", apiClient)
	require.ErrorIs(t, err, store.ErrInsufficient)
	_, _, err = w.Move(ctx, wal.ID, "out", -40, "", apiClient)
	require.NoError(t, err)
}

func TestOneWalletPerOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	ids, fresh := map[uuid.UUID]bool{}, 0
	w.parallel(8, func(int) error {
		wal, created, err := w.CreateWallet(ctx, "owner", "EUR", apiClient)
		mu.Lock()
		defer mu.Unlock()
		ids[wal.ID] = true
		if created {
			fresh++
		}
		return err
	})
	require.Len(t, ids, 1)
	require.Equal(t, 1, fresh)
	_, _, err := w.CreateWallet(ctx, "owner", "USD", apiClient)
	require.ErrorIs(t, err, store.ErrWalletCurrency)
	_, err = w.Wallet(ctx, uuid.New())
	require.ErrorIs(t, err, store.ErrWalletNotFound)
}

func TestL01_SettledTwiceWithinMilliseconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.unknown(func(n *store.NewPayment) { n.WalletID, n.Amount = &wal.ID, 5000 })
	o := object(p, "pay_1", provider.Succeeded)
	e := event("evt_1", o, w.Now())
	id := w.receive(e)
	w.parallel(10, func(i int) error {
		return w.tx(func(tx pgx.Tx) (err error) {
			if i%2 == 0 {
				_, err = w.ApplyWebhook(ctx, tx, id, func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
			} else {
				_, err = w.RecordLookup(ctx, tx, p.ID, foundBy(o), policy(w), store.System("reconcile"))
			}
			return err
		})
	})
	w.hook(e)
	require.Equal(t, int64(5000), w.balance(wal.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM wallet_entries`))
}

func TestL01_SameOperationWithAnotherAmountIsForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	_, err := w.db.Pool.Exec(ctx, `INSERT INTO wallet_entries (wallet_id, operation_id, amount, balance_after, kind, actor, created_at)
		VALUES ($1, $2, 1, 1, 'topup', 'system:test', now())`, wal.ID, "payment:"+p.ID.String()+":topup")
	require.NoError(t, err)
	o := object(p, "pay_1", provider.Succeeded)
	p = w.charge(p.ID, answered(provider.Succeeded, &o))
	require.Equal(t, store.Succeeded, p.Status, "the money is at the provider whatever the wallet says")
	require.Equal(t, []string{store.ReviewContradiction}, p.NeedsReview)
	require.Zero(t, w.balance(wal.ID))
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, books.WalletDrift, "and verify says so")
}

// Random movements, some repeated, from several goroutines: balance and entries agree,
// nothing is negative, and every operation id moved money once.
func TestWalletPropertyBalanceIsTheSumOfEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		wallets := []store.Wallet{w.wallet(), w.wallet()}
		prefix := uuid.NewString()
		type op struct {
			wallet, id int
			amount     int64
		}
		ops := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
			return op{rapid.IntRange(0, 1).Draw(rt, "wallet"), rapid.IntRange(0, 9).Draw(rt, "id"),
				rapid.SampledFrom([]int64{-50, -1, 1, 20, 100, math.MaxInt64}).Draw(rt, "amount")}
		}), 1, 16).Draw(rt, "operations")
		errs := make([]error, len(ops))
		var wg sync.WaitGroup
		for i, o := range ops {
			wg.Go(func() {
				_, _, errs[i] = w.Move(ctx, wallets[o.wallet].ID, fmt.Sprintf("%s-%d", prefix, o.id), o.amount, "", apiClient)
			})
		}
		wg.Wait()
		for _, err := range errs {
			known := err == nil || errors.Is(err, store.ErrInsufficient) || errors.Is(err, store.ErrOperationReused) || errors.Is(err, store.ErrWalletFull)
			require.True(rt, known, "%v", err)
		}
		for _, wal := range wallets {
			sum, err := w.CheckWallet(ctx, wal.ID)
			require.NoError(rt, err)
			require.True(rt, sum.Balances(), "%+v", sum)
			require.GreaterOrEqual(rt, sum.Balance, int64(0))
		}
	})
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
}
