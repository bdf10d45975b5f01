package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

func TestAlertOncePerFact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	raise := func(key string) (raised bool) {
		require.NoError(t, w.tx(func(tx pgx.Tx) (err error) {
			raised, err = w.RaiseAlert(ctx, tx, store.Alert{Kind: "k", Severity: "info", Title: "t\x00", DedupeKey: key, PaymentID: &p.ID})
			return err
		}))
		return raised
	}
	require.True(t, raise("a"))
	require.False(t, raise("a"))
	long := strings.Repeat("x", 5000)
	require.True(t, raise(long+"1"))
	require.True(t, raise(long+"2"))
	require.False(t, raise(long+"2"))
	require.Equal(t, 3, w.jobs.Live(t, "alert"))

	id := int64(w.count(`SELECT id FROM alerts WHERE dedupe_key = 'a'`))
	require.NoError(t, w.AlertDelivered(ctx, id, "slack", false, "503", false))
	a, err := w.Alert(ctx, id)
	require.NoError(t, err)
	require.Nil(t, a.DeliveredAt)
	require.Equal(t, p.ID, *a.PaymentID)
	require.NoError(t, w.AlertDelivered(ctx, id, "slack", true, "", true))
	a, err = w.Alert(ctx, id)
	require.NoError(t, err)
	require.Equal(t, w.Now(), *a.DeliveredAt)
	require.Equal(t, 2, w.count(`SELECT jsonb_array_length(deliveries) FROM alerts WHERE id = $1`, id))
	_, err = w.Alert(ctx, 999)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, w.AlertDelivered(ctx, 999, "x", true, "", true), store.ErrNotFound)
}

func TestOneTransitionOneAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := store.BreakerEvent{Provider: "atlas", Class: "charge", Epoch: "1790000000000000", From: "closed", To: "open", Reason: "5 failures in a row", At: w.Now()}
	stored := make([]bool, 10)
	w.parallel(len(stored), func(i int) (err error) { stored[i], err = w.RecordBreakerEvent(ctx, e); return err })
	first := 0
	for _, s := range stored {
		if s {
			first++
		}
	}
	require.Equal(t, 1, first)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened' AND severity = 'critical'`))
	e.Epoch, e.From, e.To = "1790000000000001", "open", "half_open"
	_, err := w.RecordBreakerEvent(ctx, e)
	require.NoError(t, err)
	e.Epoch, e.From, e.To = "1790000000000002", "half_open", "closed"
	_, err = w.RecordBreakerEvent(ctx, e)
	require.NoError(t, err)
	e.Epoch, e.From = "1790000000000003", "closed" // an override: the state stays
	_, err = w.RecordBreakerEvent(ctx, e)
	require.NoError(t, err)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_closed'`))
	require.Equal(t, 2, w.count(`SELECT count(*) FROM alerts`), "half-open is no news")
}

func TestRecordCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	c := store.CallOutcome{Provider: "atlas", Class: "charge", Verdict: "ok", Outcome: "succeeded", Latency: 1500 * time.Microsecond, PaymentID: &p.ID}
	require.NoError(t, w.RecordCall(ctx, nil, c))
	c.Latency = -time.Second
	require.NoError(t, w.tx(func(tx pgx.Tx) error { return w.RecordCall(ctx, tx, c) }))
	require.Equal(t, 2, w.count(`SELECT count(*) FROM call_outcomes WHERE at = $1`, w.Now()))
	require.Equal(t, 1500, w.count(`SELECT sum(latency_us)::int FROM call_outcomes`))
}

func TestTimelineAndAuditAreAppendOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.unknown()
	for _, q := range []string{`UPDATE payment_events SET reason = 'x'`, `DELETE FROM payment_events`, `UPDATE audit_log SET reason = 'x'`, `DELETE FROM audit_log`} {
		_, err := w.db.Pool.Exec(ctx, q)
		require.ErrorContains(t, err, "append-only", q)
	}
}

func TestInTxRollsBackOnACancelledContextAndOnPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, cancel := context.WithCancel(ctx)
	err := w.InTx(c, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO provider_state (provider) VALUES ('x')`)
		require.NoError(t, err)
		cancel()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Panics(t, func() { _ = w.tx(func(pgx.Tx) error { panic("boom") }) })
	require.Zero(t, w.count(`SELECT count(*) FROM provider_state`))
	require.Zero(t, w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`))
	boom := errors.New("boom")
	tries := 0
	require.ErrorIs(t, w.tx(func(pgx.Tx) error { tries++; return boom }), boom)
	require.Equal(t, 1, tries, "only contention is retried")
}

func TestDetachedOutlivesItsParent(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(ctx)
	cancel()
	c, done := store.Detached(parent)
	defer done()
	require.NoError(t, c.Err())
	at, ok := c.Deadline()
	require.True(t, ok)
	require.WithinDuration(t, time.Now().Add(10*time.Second), at, time.Second)
}

func TestWritesNotifyTheirTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := pgx.Connect(ctx, w.db.DSN)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `LISTEN fusebox`)
	require.NoError(t, err)
	hear := func(topic string) {
		c, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		for {
			n, err := conn.WaitForNotification(c)
			require.NoError(t, err, topic)
			if n.Payload == topic {
				return
			}
		}
	}
	for topic, act := range map[string]func(){
		store.TopicPayments: func() { w.create() },
		store.TopicWallets:  func() { w.wallet() },
		store.TopicWebhooks: func() { w.receive(event("evt", object(store.Payment{ID: uuid.New()}, "pay_x", "failed"), w.Now())) },
		store.TopicRuns:     func() { w.openRun() },
		store.TopicProviders: func() {
			require.NoError(t, w.RecordCall(ctx, nil, store.CallOutcome{Provider: "atlas", Class: "charge"}))
		},
		store.TopicAlerts: func() {
			require.NoError(t, w.tx(func(tx pgx.Tx) error {
				_, err := w.RaiseAlert(ctx, tx, store.Alert{Kind: "k", Severity: "info", DedupeKey: "n"})
				return err
			}))
		},
	} {
		act()
		hear(topic)
	}
	tx, err := w.db.Pool.Begin(ctx) // a transaction that is not InTx's
	require.NoError(t, err)
	require.NoError(t, store.Notify(ctx, tx, "foreign"))
	require.NoError(t, tx.Commit(ctx))
	hear("foreign")

	boom := errors.New("rolled back")
	require.ErrorIs(t, w.tx(func(tx pgx.Tx) error {
		require.NoError(t, store.Notify(ctx, tx, "never"))
		return boom
	}), boom)
	require.NoError(t, w.tx(func(tx pgx.Tx) error { return store.Notify(ctx, tx, "end") }))
	c, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(c)
		require.NoError(t, err)
		require.NotEqual(t, "never", n.Payload, "what was rolled back is not told")
		if n.Payload == "end" {
			return
		}
	}
}

func TestOpenSetsTheLimitsOfEveryConnection(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	for name, want := range map[string]string{"application_name": "fusebox-test", "statement_timeout": "15s", "lock_timeout": "5s",
		"idle_in_transaction_session_timeout": "15s", "TimeZone": "UTC"} {
		var got string
		require.NoError(t, db.Pool.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&got))
		require.Equal(t, want, got, name)
	}
	var at time.Time
	require.NoError(t, db.Pool.QueryRow(ctx, `SELECT now()`).Scan(&at))
	require.Equal(t, time.UTC, at.Location())
	_, err := store.Open(ctx, "not a dsn ::", "x", 1)
	require.ErrorContains(t, err, "database URL")
	_, err = store.Open(ctx, "postgres://127.0.0.1:1/x?connect_timeout=1", "x", 1)
	require.ErrorContains(t, err, "does not answer")
}

func TestMigrationsGoUpAndDownAndUp(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	require.NoError(t, store.CheckSchema(ctx, db.Pool))
	ms, err := store.MigrationStatus(ctx, db.Pool)
	require.NoError(t, err)
	ours := 0
	sets := map[string]bool{}
	for _, m := range ms {
		sets[m.Set] = true
		require.True(t, m.Applied, "%+v", m)
		if m.Set == "fusebox" {
			ours++
		}
	}
	require.Len(t, sets, 2)
	for range ours {
		require.NoError(t, store.MigrateDown(ctx, db.Pool))
	}
	var left int
	require.NoError(t, db.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'
		AND tablename NOT IN ('goose_db_version', 'river_migration')`).Scan(&left))
	require.Zero(t, left, "nothing of Fusebox is left")
	require.ErrorContains(t, store.CheckSchema(ctx, db.Pool), "fusebox migrate up")
	errs := make(chan error, 3) // processes that start together
	for range 3 {
		go func() { errs <- store.MigrateUp(ctx, db.Pool) }()
	}
	for range 3 {
		require.NoError(t, <-errs)
	}
	require.NoError(t, store.CheckSchema(ctx, db.Pool))
}
