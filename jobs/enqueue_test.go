package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func TestEnqueueIsUniqueWhileTheWorkLives(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	id := uuid.Must(uuid.NewV7())
	for range 3 {
		b.inTx(func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(
				b.enqueuer.Charge(ctx, tx, id, "atlas", time.Time{}),
				b.enqueuer.Recharge(ctx, tx, id, "atlas"),
				b.enqueuer.Reconcile(ctx, tx, id, "atlas", time.Time{}),
				b.enqueuer.Webhook(ctx, tx, 7),
				b.enqueuer.Alert(ctx, tx, 7),
				b.enqueuer.Sync(ctx, tx, "atlas", "schedule"),
			)
		})
	}
	for kind, want := range map[string]int{kindCharge: 2, kindReconcile: 1, kindWebhook: 1, kindAlert: 1, kindSync: 1} {
		require.Equal(t, want, b.count(`SELECT count(*) FROM river_job WHERE kind = $1`, kind), kind)
	}
	require.Equal(t, "charge_atlas", b.text(`SELECT DISTINCT queue FROM river_job WHERE kind = 'charge'`))
	require.Equal(t, "status_atlas", b.text(`SELECT DISTINCT queue FROM river_job WHERE kind IN ('reconcile', 'sync')`))
	require.Equal(t, "default", b.text(`SELECT DISTINCT queue FROM river_job WHERE kind IN ('webhook', 'alert')`))
}

// Jobs that travel with a batch are the rows that River's own COPY makes, for payments that
// are there.
func TestQueuedJobsAreWhatRiverWouldInsert(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"), quick("birch"))
	here, there := b.db.SeedPayment(t, nil), b.db.SeedPayment(t, nil)
	list := []store.ChargeJob{{PaymentID: here.ID, Provider: "atlas"}, {PaymentID: there.ID, Provider: "birch"}}
	rows := func() string {
		defer b.exec(`DELETE FROM river_job`)
		return b.text(`SELECT json_agg(to_jsonb(j) - '{id,created_at,scheduled_at}'::text[] ORDER BY args)::text FROM river_job j
			WHERE created_at BETWEEN now() - interval '1 minute' AND now() AND scheduled_at = created_at`)
	}
	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		var params []river.InsertManyParams
		for _, j := range list {
			params = append(params, river.InsertManyParams{Args: chargeArgs{PaymentID: j.PaymentID, Provider: j.Provider}})
		}
		_, err := b.enqueuer.client.InsertManyFastTx(ctx, tx, params)
		return err
	})
	want := rows()
	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		var batch pgx.Batch
		nowhere := store.ChargeJob{PaymentID: uuid.Must(uuid.NewV7()), Provider: "atlas"}
		return errors.Join(b.enqueuer.QueueCharges(ctx, &batch, append(list, nowhere)), tx.SendBatch(ctx, &batch).Close())
	})
	require.Equal(t, want, rows())

	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.enqueuer.client.InsertManyFastTx(ctx, tx, []river.InsertManyParams{{Args: webhookArgs{EventID: 7}}})
		return err
	})
	want = rows()
	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		var batch pgx.Batch
		return errors.Join(b.enqueuer.QueueWebhooks(ctx, &batch, []int64{7}), tx.SendBatch(ctx, &batch).Close())
	})
	require.Equal(t, want, rows())
}

// Finished work of the same name never blocks new work, whatever became of it.
func TestEnqueueAgainAfterTheWorkIsDone(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	id := uuid.Must(uuid.NewV7())
	for i, state := range []string{"completed", "cancelled", "discarded"} {
		b.inTx(func(ctx context.Context, tx pgx.Tx) error {
			return b.enqueuer.Reconcile(ctx, tx, id, "atlas", time.Time{})
		})
		require.Equal(t, i+1, b.count(`SELECT count(*) FROM river_job`), state)
		b.exec(`UPDATE river_job SET state = $1, finalized_at = now() WHERE finalized_at IS NULL`, state)
	}
}

// A person's "check now" must not wait for tomorrow's lookup.
func TestEnqueuePullsWaitingWorkForwardAndNeverBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	id := uuid.Must(uuid.NewV7())
	at := func(d time.Duration) {
		b.inTx(func(ctx context.Context, tx pgx.Tx) error {
			return b.enqueuer.Reconcile(ctx, tx, id, "atlas", time.Now().Add(d))
		})
	}
	due := func() time.Duration {
		var when time.Time
		require.NoError(t, b.db.Pool.QueryRow(context.Background(), `SELECT scheduled_at FROM river_job`).Scan(&when))
		return time.Until(when)
	}
	at(24 * time.Hour)
	require.InDelta(t, 24.0, due().Hours(), 0.01)
	require.Equal(t, "scheduled", b.text(`SELECT state FROM river_job`))
	at(time.Hour)
	require.InDelta(t, 1.0, due().Hours(), 0.01)
	require.Equal(t, "scheduled", b.text(`SELECT state FROM river_job`))
	at(2 * time.Hour)
	require.InDelta(t, 1.0, due().Hours(), 0.01, "later never wins")
	at(0)
	require.LessOrEqual(t, due(), time.Duration(0))
	require.Equal(t, "available", b.text(`SELECT state FROM river_job`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job`))
}

// River's scheduler ticks every 5 s; a shorter wait is made available with its time.
func TestEnqueueShortWaitsDoNotWaitForTheScheduler(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		return b.enqueuer.Charge(ctx, tx, uuid.Must(uuid.NewV7()), "atlas", time.Now().Add(2*time.Second))
	})
	require.Equal(t, "available", b.text(`SELECT state FROM river_job`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE scheduled_at > now() + interval '1 second'`))
}

// A machine whose clock is an hour ahead of the books' plans by the books'.
func TestEnqueuePlansByTheBooksClock(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	books := func() time.Time { return time.Now().Add(-time.Hour) }
	b.enqueuer.UseClock(books)
	at := books().Add(30 * time.Minute)
	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		return b.enqueuer.Charge(ctx, tx, uuid.Must(uuid.NewV7()), "atlas", at)
	})
	var when time.Time
	require.NoError(t, b.db.Pool.QueryRow(context.Background(), `SELECT scheduled_at FROM river_job`).Scan(&when))
	require.WithinDuration(t, at, when, time.Second)
}

func TestEnqueueRunningWorkIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	id := uuid.Must(uuid.NewV7())
	insert := func() {
		b.inTx(func(ctx context.Context, tx pgx.Tx) error {
			return b.enqueuer.Charge(ctx, tx, id, "atlas", time.Time{})
		})
	}
	insert()
	b.exec(`UPDATE river_job SET state = 'running', attempted_at = now()`)
	insert()
	require.Equal(t, "running", b.text(`SELECT state FROM river_job`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job`))
}

// The job is part of the transaction that made it necessary: gone with it.
func TestEnqueueRollsBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	boom := errors.New("boom")
	err := b.store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		if err := b.enqueuer.Charge(ctx, tx, uuid.Must(uuid.NewV7()), "atlas", time.Time{}); err != nil {
			return err
		}
		return boom
	})
	require.ErrorIs(t, err, boom)
	require.Equal(t, 0, b.count(`SELECT count(*) FROM river_job`))
}
