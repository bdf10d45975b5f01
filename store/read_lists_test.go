package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

func TestWebhookLogFiltersAndCounts(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	r.db.SeedWebhook(t, func(e *store.InboxEvent) { e.EventKey = "evt_a"; e.Duplicates = 2 })
	r.db.SeedWebhook(t, func(e *store.InboxEvent) {
		e.EventKey, e.Provider, e.State, e.AppliedAt, e.Reference = "evt_b", "borealis", "unmatched", nil, "ref-9"
	})
	rejected := r.db.SeedWebhook(t, func(e *store.InboxEvent) {
		e.EventKey, e.State, e.Signature, e.AppliedAt = "", "rejected", "invalid", nil
	})

	for name, c := range map[string]struct {
		f    store.InboxFilter
		want int
	}{
		"all":        {store.InboxFilter{}, 3},
		"state":      {store.InboxFilter{State: "rejected"}, 1},
		"provider":   {store.InboxFilter{Provider: "borealis"}, 1},
		"signature":  {store.InboxFilter{Signature: "invalid"}, 1},
		"duplicates": {store.InboxFilter{Duplicated: true}, 1},
		"event key":  {store.InboxFilter{Text: "evt_a"}, 1},
		"reference":  {store.InboxFilter{Text: "ref-9"}, 1},
		"nothing":    {store.InboxFilter{Text: "evt_"}, 0},
	} {
		list, more, err := r.ListWebhooks(ctx, c.f, 0, 10)
		require.NoError(t, err, name)
		require.False(t, more, name)
		require.Len(t, list, c.want, name)
	}

	first, more, err := r.ListWebhooks(ctx, store.InboxFilter{}, 0, 2)
	require.NoError(t, err)
	require.True(t, more)
	rest, more, err := r.ListWebhooks(ctx, store.InboxFilter{}, first[1].ID, 2)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, rest, 1)

	counts, err := r.CountWebhooks(ctx, store.InboxFilter{State: "applied"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"": 3, "received": 0, "applied": 1, "ignored": 0, "unmatched": 1, "unparsed": 0, "rejected": 1}, counts.ByState)

	e, err := r.InboxEvent(ctx, rejected)
	require.NoError(t, err)
	require.NotEmpty(t, e.Raw)
	require.Contains(t, e.Headers, "Content-Type")
	_, applied := e.Latency()
	require.False(t, applied)
	_, err = r.InboxEvent(ctx, 999_999)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestWebhookEffectsAreTheTimelineOfItsApplication(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	p := r.db.SeedPayment(t, nil)
	id := r.db.SeedWebhook(t, func(e *store.InboxEvent) { e.PaymentID = &p.ID })
	event := func(inbox int64, to store.Status) {
		r.db.SeedEvent(t, p, store.TimelineEvent{Kind: "webhook", Source: "webhook", Actor: "system:webhook",
			FromStatus: store.Unknown, ToStatus: to, Evidence: map[string]any{"inbox_id": inbox}})
	}
	event(id, store.Succeeded)
	event(id+1, store.Failed)
	r.db.SeedEvent(t, p, store.TimelineEvent{Kind: "lookup", Source: "job", Actor: "system:reconcile"})
	e, err := r.InboxEvent(ctx, id)
	require.NoError(t, err)
	effects, err := r.WebhookEffects(ctx, e)
	require.NoError(t, err)
	require.Len(t, effects, 1)
	require.Equal(t, store.Succeeded, effects[0].ToStatus)
}

func TestQueuesCountByState(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	now := r.Now()
	job := func(queue, state string, created time.Duration, finalized *time.Time, by ...string) {
		r.db.Exec(t, `INSERT INTO river_job (state, max_attempts, kind, queue, args, created_at, scheduled_at, finalized_at, attempted_by)
			VALUES ($1::text::river_job_state, 5, 'charge', $2, '{}', $3, $3, $4, $5)`, state, queue, now.Add(-created), finalized, by)
	}
	recent, stale := now.Add(-time.Minute), now.Add(-time.Hour)
	job("charge_atlas", "available", 2*time.Minute, nil)
	job("charge_atlas", "available", 30*time.Second, nil)
	job("charge_atlas", "running", time.Minute, nil, "w0", "w1")
	job("charge_atlas", "running", time.Minute, nil, "w2")
	job("charge_atlas", "scheduled", time.Hour, nil)
	job("charge_atlas", "completed", time.Minute, &recent)
	job("charge_atlas", "completed", time.Hour, &stale)
	job("status_atlas", "discarded", time.Hour, &stale)
	r.db.Exec(t, `INSERT INTO river_queue (name, updated_at, paused_at) VALUES ('status_idle', now(), now())`)

	list, err := r.Queues(ctx)
	require.NoError(t, err)
	require.Len(t, list, 3)
	q := list[0]
	require.Equal(t, "charge_atlas", q.Queue)
	require.Equal(t, []int{2, 2, 1, 0, 1}, []int{q.Available, q.Running, q.Scheduled, q.Retryable, q.Completed})
	require.Equal(t, 2, q.Workers)
	require.Equal(t, 3, q.Depth())
	require.Equal(t, 5, q.Arrived, "the five created within the window, finished or not")
	require.True(t, q.Oldest.Equal(now.Add(-2*time.Minute)))
	drain, known := q.Drain()
	require.True(t, known)
	require.Equal(t, 10*time.Minute, drain, "one per five minutes, two waiting")
	require.Equal(t, 1, list[1].Discarded)
	require.NotNil(t, list[2].PausedAt)
}

func TestDrainSaysNothingWithoutARate(t *testing.T) {
	t.Parallel()
	_, known := store.QueueDepth{Available: 3}.Drain()
	require.False(t, known)
	d, known := store.QueueDepth{}.Drain()
	require.True(t, known)
	require.Zero(t, d)
}

func TestWaitReasonsReadThePayments(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	soon, later := storetest.Epoch.Add(time.Minute), storetest.Epoch.Add(time.Hour)
	for _, at := range []*time.Time{&later, &soon} {
		r.db.SeedPayment(t, func(p *store.Payment) {
			p.Status, p.NextCheckAt, p.NextCheckWhy = store.Pending, at, "circuit_open"
		})
	}
	r.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Succeeded })
	r.db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('atlas', true, '401', now()), ('b', false, '', null)`)

	list, err := r.WaitReasons(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 2, list[0].Payments)
	require.Equal(t, "circuit_open", list[0].Why)
	require.True(t, list[0].Next.Equal(soon))
	paused, err := r.PausedProviders(ctx)
	require.NoError(t, err)
	require.Len(t, paused, 1)
	require.Equal(t, "401", paused[0].Reason)
}

func TestRunsAndTheirItems(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	old := r.db.SeedRun(t, func(r *store.Run) { r.StartedAt = storetest.Epoch.Add(-time.Hour) })
	run := r.db.SeedRun(t, func(r *store.Run) { r.Matched, r.TheirsOnly = 1, 1 })
	r.db.SeedRun(t, func(r *store.Run) { r.Provider = "borealis" })
	r.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, at)
		VALUES ($1, 'matched', $2, 'pay_1', $3), ($1, 'theirs_only', NULL, 'pay_2', $3)`, run.ID, uuid.New(), storetest.Epoch)

	list, more, err := r.ListRuns(ctx, "atlas", time.Time{}, 1)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, run.ID, list[0].ID)
	list, _, err = r.ListRuns(ctx, "atlas", list[0].StartedAt, 1)
	require.NoError(t, err)
	require.Equal(t, old.ID, list[0].ID)

	got, err := r.ReconciliationRun(ctx, run.ID)
	require.NoError(t, err)
	require.Equal(t, 1, got.TheirsOnly)
	_, err = r.ReconciliationRun(ctx, uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestEstimateSyncCountsTheWindow(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	r.db.SeedPayment(t, nil)
	r.db.SeedPayment(t, func(p *store.Payment) { p.CreatedAt = storetest.Epoch.Add(-2 * time.Hour) })
	e, err := r.EstimateSync(ctx, "atlas", 10*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 2, e.Payments, "without a watermark a run begins at the first payment")
	r.db.Exec(t, `INSERT INTO provider_state (provider, sync_watermark) VALUES ('atlas', $1)`, storetest.Epoch.Add(5*time.Minute))
	r.db.SeedRun(t, func(r *store.Run) { r.State, r.FinishedAt = "running", nil })
	e, err = r.EstimateSync(ctx, "atlas", 10*time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, e.Payments)
	require.NotNil(t, e.Open)
}

func TestSearchFindsByEveryIdentifier(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	p := r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.ProviderPaymentID = "ORD-77", "pay_own" })
	r.db.SeedAttempt(t, p, func(a *store.Attempt) { a.ProviderRequestID = "req_5" })
	r.db.SeedObject(t, p, func(o *store.ProviderObject) { o.ObjectID = "pay_twin" })
	r.db.SeedWebhook(t, func(e *store.InboxEvent) { e.EventKey = "evt_5" })
	wallet := r.db.SeedWallet(t, "acme", "EUR", 500)
	run := r.db.SeedRun(t, nil)

	for _, q := range []string{p.ID.String(), "ORD-77", "ord-7", "pay_own", "pay_twin", "charge-" + p.ID.String(), "req_5", p.ID.String()[:13], p.IdempotencyKey} {
		f, err := r.Search(ctx, q, nil)
		require.NoError(t, err, q)
		require.Len(t, f.Payments, 1, q)
		require.Equal(t, 1, f.Total(), q)
	}
	f, err := r.Search(ctx, "evt_5", nil)
	require.NoError(t, err)
	require.Len(t, f.Webhooks, 1)
	for _, q := range []string{"acme", wallet.String()} {
		f, err = r.Search(ctx, q, nil)
		require.NoError(t, err)
		require.Len(t, f.Wallets, 1, q)
	}
	f, err = r.Search(ctx, run.ID.String(), nil)
	require.NoError(t, err)
	require.Len(t, f.Runs, 1)
	f, err = r.Search(ctx, "49.00", []provider.Money{{Amount: 4900, Currency: "EUR"}})
	require.NoError(t, err)
	require.Len(t, f.Payments, 1)
	for _, q := range []string{"", "%", "nothing of the kind", "-1"} {
		f, err = r.Search(ctx, q, nil)
		require.NoError(t, err, q)
		require.Zero(t, f.Total(), q)
	}
}

func TestCheckWalletAddsTheEntriesUpAgain(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	id := r.db.SeedWallet(t, "acme", "EUR", 500, -200, 50)
	c, err := r.CheckWallet(ctx, id)
	require.NoError(t, err)
	require.Equal(t, store.WalletSum{Balance: 350, Sum: 350, Entries: 3}, c)
	require.True(t, c.Balances())

	r.db.Exec(t, `UPDATE wallets SET balance = 351 WHERE id = $1`, id)
	c, err = r.CheckWallet(ctx, id)
	require.NoError(t, err)
	require.False(t, c.Balances())
	r.db.Exec(t, `UPDATE wallets SET balance = 350 WHERE id = $1`, id)
	r.db.Exec(t, `UPDATE wallet_entries SET balance_after = 1 WHERE wallet_id = $1 AND amount = -200`, id)
	c, err = r.CheckWallet(ctx, id)
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Broken)

	empty := r.db.SeedWallet(t, "empty", "EUR")
	c, err = r.CheckWallet(ctx, empty)
	require.NoError(t, err)
	require.True(t, c.Balances())
	_, err = r.CheckWallet(ctx, uuid.New())
	require.ErrorIs(t, err, store.ErrWalletNotFound)
}

func TestListWalletsAndAudit(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	for _, o := range []string{"acme", "beta", "Acme-2"} {
		r.db.SeedWallet(t, o, "EUR")
	}
	list, more, err := r.ListWallets(ctx, "acme", "", 1)
	require.NoError(t, err)
	require.True(t, more)
	list, more, err = r.ListWallets(ctx, "acme", list[0].OwnerRef, 5)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, list, 1)

	user := uuid.New()
	r.db.Exec(t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1,'o@example.org','Olena','operator','x',now())`, user)
	for _, action := range []string{"payment.resolve", "circuit.reset"} {
		r.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target, after, reason) VALUES (now(), $1, $2, 'payment:1', '{"status":"failed"}', 'why')`,
			"user:"+user.String(), action)
	}
	rows, more, err := r.ListAudit(ctx, store.AuditFilter{Action: "payment.resolve", Actor: "user:" + user.String()}, 0, 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, rows, 1)
	require.Equal(t, "Olena", rows[0].ActorName)
	require.Equal(t, "failed", rows[0].After["status"])
	r.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target) VALUES (now(), 'system:charge', 'payment.status', 'payment:1')`)
	rows, _, err = r.ListAudit(ctx, store.AuditFilter{}, 0, 10)
	require.NoError(t, err)
	require.Len(t, rows, 3)
	rows, more, err = r.ListAudit(ctx, store.AuditFilter{Whose: "people"}, 0, 1)
	require.NoError(t, err)
	require.True(t, more)
	rows, _, err = r.ListAudit(ctx, store.AuditFilter{}, rows[0].ID, 1)
	require.NoError(t, err)
	require.Equal(t, "payment.resolve", rows[0].Action)
}
