package store_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestCreateStoresPaymentEventAndJobTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create(func(n *store.NewPayment) { n.Metadata = map[string]string{"cart": "7"} })
	require.Equal(t, store.Pending, p.Status)
	require.Equal(t, int64(1), p.Version)
	require.Equal(t, w.Now(), *p.NextCheckAt)
	require.Equal(t, p, w.get(p.ID))
	require.Equal(t, 1, w.jobs.Asked(t, "charge", p.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = 'created'`, p.ID))
}

// The answer to COMMIT was lost: the payment is there, and is what the caller gets.
func TestCreateFindsWhatItMadeWithoutKnowing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.LoseCreations()
	c, err := w.CreatePayment(ctx, newPayment(), apiClient)
	require.NoError(t, err)
	require.True(t, c.Replayed)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payments WHERE id = $1`, c.Payment.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payments`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events`))
	require.Equal(t, 1, w.jobs.Live(t, "charge"))
}

func TestTwentyIdenticalCreatesAreOnePaymentAndOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := newPayment()
	var wg sync.WaitGroup
	results := make([]store.Created, 20)
	errs := make([]error, 20)
	for i := range results {
		wg.Go(func() { results[i], errs[i] = w.CreatePayment(ctx, n, apiClient) })
	}
	wg.Wait()
	fresh := 0
	for i, r := range results {
		require.NoError(t, errs[i])
		require.Equal(t, results[0].Payment.ID, r.Payment.ID)
		if !r.Replayed {
			fresh++
		}
	}
	require.Equal(t, 1, fresh)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payments`))
	require.Equal(t, 1, w.jobs.Asked(t, "charge", results[0].Payment.ID))
}

func TestC11_SameKeyWithOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := newPayment()
	n.Metadata = map[string]string{"a": "1", "b": "2"}
	first, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)

	for name, change := range map[string]func(*store.NewPayment){
		"amount":   func(n *store.NewPayment) { n.Amount++ },
		"currency": func(n *store.NewPayment) { n.Currency = "USD" },
		"order":    func(n *store.NewPayment) { n.OrderRef += "x" },
		"provider": func(n *store.NewPayment) { n.Provider = "borealis" },
		"metadata": func(n *store.NewPayment) { n.Metadata = map[string]string{"a": "1"} },
		"customer": func(n *store.NewPayment) { n.CustomerName = "x" },
	} {
		other := n
		change(&other)
		_, err := w.CreatePayment(ctx, other, apiClient)
		require.ErrorIs(t, err, store.ErrKeyReused, name)
	}

	n.Metadata = map[string]string{"b": "2", "a": "1"} // another order, the same content
	again, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Payment, again.Payment)

	n.ClientID = "key-2" // keys are scoped to the client
	other, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	require.NotEqual(t, first.Payment.ID, other.Payment.ID)
}

func TestC14_OrderWithOpenMoneyRefusesAnotherPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy := func(p store.Payment, want store.Status) {
		t.Helper()
		n := newPayment()
		n.OrderRef = p.OrderRef
		n.Provider = "borealis" // another provider is no way round
		_, err := w.CreatePayment(ctx, n, apiClient)
		var ob *store.OrderBusyError
		require.ErrorAs(t, err, &ob)
		require.Equal(t, store.OrderBusyError{PaymentID: p.ID, Status: want}, *ob)
		require.Zero(t, w.count(`SELECT count(*) FROM payments WHERE idempotency_key = $1`, n.IdempotencyKey), "nothing is stored")
		n.AllowConcurrent = true
		_, err = w.CreatePayment(ctx, n, apiClient)
		require.NoError(t, err)
	}
	free := func(p store.Payment) {
		t.Helper()
		w.create(func(n *store.NewPayment) { n.OrderRef = p.OrderRef })
	}

	p := w.create()
	free(p) // pending with nothing sent: provably no money moves
	a := w.begin(p.ID)
	busy(p, store.Pending) // an attempt is on the wire
	p = w.finish(a, timedOut())
	busy(p, store.Unknown)
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Processing)))
	busy(p, store.Processing)
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	free(p)
}

func TestC14_ReplayIsNotOrderBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := newPayment()
	c, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	w.charge(c.Payment.ID, timedOut())
	again, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, store.Unknown, again.Payment.Status)
}

// Two creates for one order, each with its own key, while a third payment of it
// turns unknown: the check and the insert may not interleave.
func TestC14_ParallelCreatesForOneOrderTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	order := "o-" + uuid.NewString()
	unknown := w.create(func(n *store.NewPayment) { n.OrderRef = order })
	w.charge(unknown.ID, timedOut())
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			n := newPayment()
			n.OrderRef = order
			_, errs[i] = w.CreatePayment(ctx, n, apiClient)
		})
	}
	wg.Wait()
	for _, err := range errs {
		var ob *store.OrderBusyError
		require.ErrorAs(t, err, &ob)
	}
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payments WHERE order_ref = $1`, order))
}

func TestCreateChecksTheWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })

	n := newPayment()
	nobody := uuid.New()
	n.WalletID = &nobody
	_, err := w.CreatePayment(ctx, n, apiClient)
	require.ErrorIs(t, err, store.ErrWalletNotFound)

	n.WalletID, n.Currency = &wal.ID, "USD"
	_, err = w.CreatePayment(ctx, n, apiClient)
	require.ErrorIs(t, err, store.ErrWalletCurrency)

	n.Currency = "EUR" // a refused request stored nothing, so the key is still free
	c, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	require.False(t, c.Replayed)
}

// the job is in the transaction of the row, so a rollback takes both.
func TestQ03_JobAndRowCommitTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := newPayment()
	wal := uuid.New()
	n.WalletID = &wal
	_, err := w.CreatePayment(ctx, n, apiClient)
	require.ErrorIs(t, err, store.ErrWalletNotFound)
	require.Zero(t, w.jobs.Live(t, "charge"))

	reader := store.New(w.db.Pool, store.Options{})
	_, err = reader.CreatePayment(ctx, newPayment(), apiClient)
	require.ErrorContains(t, err, "enqueuer", "a store that cannot enqueue does not write")
	require.Zero(t, w.count(`SELECT count(*) FROM payments`))
}

// a row whose job was lost is picked up by the sweep.
func TestQ03_SweepRequeuesPendingWithoutJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.jobs.Clear(t)
	swept, err := w.Sweep(ctx, store.SweepParams{})
	require.NoError(t, err)
	require.Zero(t, swept.Requeued, "within its grace it may just be queued")
	w.clock.add(31e9)
	swept, err = w.Sweep(ctx, store.SweepParams{})
	require.NoError(t, err)
	require.Equal(t, 1, swept.Requeued)
	require.Equal(t, 1, w.jobs.Asked(t, "charge", p.ID))
	swept, err = w.Sweep(ctx, store.SweepParams{})
	require.NoError(t, err)
	require.Zero(t, swept.Requeued, "it has a next check again")
	require.Equal(t, store.Pending, w.get(p.ID).Status)
}
