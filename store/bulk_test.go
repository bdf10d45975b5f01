package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

var operator = store.Actor{Kind: "user", ID: "7f7c7d1e-0000-7000-8000-000000000001", Name: "Olena"}

// unknowns makes n unknown payments at a provider.
func (w *world) unknowns(n int, providerName string) (ids []uuid.UUID) {
	for range n {
		p := w.db.SeedPayment(w.t, func(p *store.Payment) { p.Provider = providerName })
		ids = append(ids, p.ID)
	}
	return ids
}

func (w *world) freeze(set store.BulkSet) store.Bulk {
	w.t.Helper()
	b, err := w.FreezeBulk(ctx, set, operator)
	require.NoError(w.t, err)
	return b
}

func (w *world) start(b store.Bulk) store.Bulk {
	w.t.Helper()
	b, err := w.StartBulk(ctx, uuid.New(), b.ID, b.Version, operator)
	require.NoError(w.t, err)
	return b
}

// workAll claims and finishes items until none is left, and returns what was worked.
func (w *world) workAll(b store.Bulk) (worked []uuid.UUID) {
	w.t.Helper()
	for {
		it, err := w.ClaimBulkItem(ctx, b.ID, "")
		if err != nil {
			require.ErrorIs(w.t, err, store.ErrNotFound)
			return worked
		}
		worked = append(worked, it.PaymentID)
		require.NoError(w.t, w.tx(func(tx pgx.Tx) error { return w.FinishBulkItem(ctx, tx, it, store.OutcomePaid, "") }))
	}
}

// A payment that matches the filter a moment later is not in the set, and one that has
// stopped matching still is: exactly what the person saw is worked.
func TestBulkWorksTheFrozenFilterAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := w.unknowns(3, "atlas")
	b := w.freeze(store.BulkSet{Filter: &store.PaymentFilter{Status: store.Unknown}, Address: "status=unknown"})
	w.unknowns(2, "atlas") // arrive while the confirm page is open
	b = w.start(b)
	w.unknowns(2, "atlas") // arrive while it runs
	w.db.Exec(t, `UPDATE payments SET needs_review = '{aged}' WHERE id = $1`, want[0])
	require.Equal(t, want, w.workAll(b), "oldest first")
	more, err := w.EndBulk(ctx, b.ID, "")
	require.NoError(t, err)
	require.False(t, more)
	b, err = w.Bulk(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BulkDone, b.State)
}

// sidekiq #3243: "delete all" ignored the filter and took everything. Ours takes what
// the filter matched, for every kind of filter, and the audit row lists it.
func TestSidekiq3243DeleteAllIgnoredTheFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atlas, borealis := w.unknowns(2, "atlas"), w.unknowns(3, "borealis")
	paid := w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.Provider = store.Succeeded, "borealis" })
	for name, c := range map[string]struct {
		set  store.BulkSet
		want []uuid.UUID
	}{
		"provider":          {store.BulkSet{Filter: &store.PaymentFilter{Provider: "atlas"}}, atlas},
		"provider, status":  {store.BulkSet{Filter: &store.PaymentFilter{Provider: "borealis", Status: store.Unknown}}, borealis},
		"selection":         {store.BulkSet{Payments: []uuid.UUID{paid.ID, atlas[1]}}, []uuid.UUID{atlas[1], paid.ID}},
		"no filter, really": {store.BulkSet{Filter: &store.PaymentFilter{}}, append(append(append([]uuid.UUID{}, atlas...), borealis...), paid.ID)},
	} {
		c.set.Address = name
		b := w.start(w.freeze(c.set))
		require.Equal(t, c.want, w.workAll(b), name)
		require.Equal(t, len(c.want), w.count(`SELECT jsonb_array_length(after->'ids') FROM audit_log WHERE target = $1`, "bulk:"+b.ID.String()), name)
		require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE target = $1 AND after->>'filter' = $2 AND actor LIKE 'user:%'`, "bulk:"+b.ID.String(), name), "one action, one row")
	}
	_, err := w.FreezeBulk(ctx, store.BulkSet{Filter: &store.PaymentFilter{Provider: "cobalt"}}, operator)
	require.ErrorIs(t, err, store.ErrBulkEmpty)
}

func TestBulkRefusesMoreThanItsLimitAndCutsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(t, `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency, status, created_at, updated_at)
		SELECT gen_random_uuid(), 'test', 'k' || n, '', 'o' || n, 'atlas', 100, 'EUR', 'unknown', now(), now() FROM generate_series(1, $1) n`, store.BulkMax+1)
	_, err := w.FreezeBulk(ctx, store.BulkSet{Filter: &store.PaymentFilter{}}, operator)
	require.ErrorIs(t, err, store.ErrBulkTooLarge)
	require.Zero(t, w.count(`SELECT count(*) FROM bulks`))
	require.Zero(t, w.count(`SELECT count(*) FROM bulk_items`))
}

// Two tabs confirm the same draft at once, one of them twice: it starts once, and the
// one that was late hears who was first.
func TestBulkStartsOnceFromTwoTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.unknowns(2, "atlas")
	w.unknowns(1, "borealis")
	b := w.freeze(store.BulkSet{Filter: &store.PaymentFilter{}})
	actions := []uuid.UUID{uuid.New(), uuid.New()}
	var mu sync.Mutex
	var conflicts int
	var wg sync.WaitGroup
	for _, action := range append(actions, actions...) {
		wg.Go(func() {
			_, err := w.StartBulk(ctx, action, b.ID, b.Version, operator)
			if err != nil {
				var conflict *store.BulkConflictError
				assert.ErrorAs(t, err, &conflict)
				assert.Equal(t, store.BulkRunning, conflict.State)
				mu.Lock()
				conflicts++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2, conflicts, "the other tab, both times")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'bulk.reconcile'`))
	require.Equal(t, 1, w.jobs.Asked(t, "bulk", b.ID.String()+" atlas"))
	require.Equal(t, 1, w.jobs.Asked(t, "bulk", b.ID.String()+" borealis"))
}

// Cancel stops before the next item: the one under way finishes, what is done stays, and
// nothing else is ever given out.
func TestBulkCancelStopsAtTheNextItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.unknowns(4, "atlas")
	b := w.start(w.freeze(store.BulkSet{Filter: &store.PaymentFilter{}}))
	first, err := w.ClaimBulkItem(ctx, b.ID, "atlas")
	require.NoError(t, err)
	require.NoError(t, w.tx(func(tx pgx.Tx) error { return w.FinishBulkItem(ctx, tx, first, store.OutcomePaid, "") }))
	second, err := w.ClaimBulkItem(ctx, b.ID, "atlas")
	require.NoError(t, err)

	action := uuid.New()
	_, err = w.CancelBulk(ctx, action, b.ID, operator)
	require.NoError(t, err)
	_, err = w.CancelBulk(ctx, action, b.ID, operator)
	require.NoError(t, err, "a double click")
	_, err = w.ClaimBulkItem(ctx, b.ID, "atlas")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, w.tx(func(tx pgx.Tx) error { return w.FinishBulkItem(ctx, tx, second, store.OutcomeFailed, "") }))

	counts, err := w.BulkProgress(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]int{store.OutcomePaid: 1, store.OutcomeFailed: 1}, counts.Done)
	require.Equal(t, 2, counts.Left)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'bulk.cancel'`))
	var conflict *store.BulkConflictError
	_, err = w.CancelBulk(ctx, uuid.New(), b.ID, operator)
	require.ErrorAs(t, err, &conflict)
	_, err = w.StartBulk(ctx, uuid.New(), b.ID, b.Version, operator)
	require.ErrorAs(t, err, &conflict, "a cancelled one never starts again")
}

// A worker killed with an item in hand loses nothing: its claim ends, and only that
// item is given out again.
func TestBulkItemOfAKilledWorkerIsGivenOutAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.unknowns(2, "atlas")
	b := w.start(w.freeze(store.BulkSet{Filter: &store.PaymentFilter{}}))
	held, err := w.ClaimBulkItem(ctx, b.ID, "atlas")
	require.NoError(t, err)
	require.Equal(t, ids[0], held.PaymentID)
	require.Equal(t, ids[1:], w.workAll(b), "what somebody has in hand is not given out twice")
	more, err := w.EndBulk(ctx, b.ID, "atlas")
	require.NoError(t, err)
	require.True(t, more, "one is still out")
	w.jobs.Clear(t)
	require.NoError(t, w.SweepBulks(ctx))
	require.Equal(t, 1, w.jobs.Asked(t, "bulk", b.ID.String()+" atlas"))
	w.clock.add(3 * time.Minute)
	require.Equal(t, ids[:1], w.workAll(b))
	require.NoError(t, w.SweepBulks(ctx))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM bulks WHERE state = 'done'`), "the sweep says the last word when nobody else did")
}

// books counts the rows of every table that applying an event can write.
func (w *world) books() map[string]int {
	out := map[string]int{}
	for _, table := range []string{"payments", "attempts", "payment_events", "provider_objects", "webhook_events", "wallet_entries",
		"audit_log", "alerts", "console_actions", "operations", "operation_objects", "disputes", "test_jobs", "call_outcomes"} {
		out[table] = w.count("SELECT count(*) FROM " + table)
	}
	return out
}

// A dry run does what the real run does, by the same code, and leaves nothing behind.
func TestDryRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	w.begin(p.ID)
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())
	id := w.receive(e)
	parse := func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil }
	before, row := w.books(), w.rowOf(id)
	var want store.Reapplied
	for range 3 {
		var err error
		want, err = w.DryRunWebhook(ctx, id, parse)
		require.NoError(t, err)
	}
	require.Equal(t, store.OutcomeChanged, want.Outcome)
	require.Equal(t, "received", want.Before)
	require.Equal(t, "applied", want.After)
	require.True(t, want.Moved())
	require.Equal(t, before, w.books())
	require.Equal(t, row, w.rowOf(id))
	require.Equal(t, store.Pending, w.get(p.ID).Status)
	require.Equal(t, p.Version, w.get(p.ID).Version)
	require.Zero(t, w.balance(wal.ID))

	require.Equal(t, "applied", w.applyRow(id, e))
	require.Equal(t, store.Succeeded, w.get(p.ID).Status, "as foretold")
	again, err := w.DryRunWebhook(ctx, id, parse)
	require.NoError(t, err)
	require.Equal(t, store.OutcomeSame, again.Outcome, "applied already")
	require.Empty(t, again.Moves)
}

// rowOf is an inbox row in full, as text.
func (w *world) rowOf(id int64) (row string) {
	require.NoError(w.t, w.db.Pool.QueryRow(context.Background(), `SELECT w::text FROM webhook_events w WHERE id = $1`, id).Scan(&row))
	return row
}

// A bulk over events is checked before anybody can confirm it, and then does what the
// check said.
func TestBulkReapplyIsCheckedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.begin(p.ID)
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())
	changes := w.receive(e)
	applied := w.db.SeedWebhook(t, nil)
	rejected := w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.State, e.EventKey, e.Signature = "rejected", "", "invalid" })
	strange := w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.State, e.Provider = "received", "gone" })
	b := w.freeze(store.BulkSet{Events: []int64{changes, applied, rejected, strange}})
	require.Equal(t, store.BulkChecking, b.State)
	_, err := w.StartBulk(ctx, uuid.New(), b.ID, b.Version, operator)
	require.Error(t, err, "not before the check")

	parse := func(name string) store.ParseEvents {
		if name == "gone" {
			return nil
		}
		return func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil }
	}
	before := w.books()
	left, err := w.CheckBulkItems(ctx, b.ID, parse, 3)
	require.NoError(t, err)
	require.Equal(t, 1, left)
	left, err = w.CheckBulkItems(ctx, b.ID, parse, 3)
	require.NoError(t, err)
	require.Zero(t, left)
	require.Equal(t, before, w.books())
	counts, err := w.BulkProgress(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"changed": 1, "same": 1, "unreadable": 1, "skipped": 1}, counts.Expected)

	b, err = w.Bulk(ctx, b.ID)
	require.NoError(t, err)
	b = w.start(b)
	for range 3 {
		it, err := w.ClaimBulkItem(ctx, b.ID, "")
		require.NoError(t, err)
		require.NoError(t, w.ReapplyBulkItem(ctx, it, parse("atlas")))
	}
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	counts, err = w.BulkProgress(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"changed": 1, "same": 1, "unreadable": 1}, counts.Done)
}
