package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// confirmations returns n payments that succeeded, and for each the delivery that says so again.
func (w *world) confirmations(n int) (list []store.Payment, hooks []store.Delivery) {
	w.t.Helper()
	for range n {
		p := w.create()
		o := object(p, "obj-"+p.ID.String(), provider.Succeeded)
		list = append(list, w.charge(p.ID, answered(provider.Succeeded, &o)))
		d := delivery(event("evt-"+p.ID.String(), o, w.Now()))
		d.AtOnce = true
		hooks = append(hooks, d)
	}
	return list, hooks
}

// W-02: whoever delivers what at the same time, each event is one row and one effect, and
// a repeat is counted.
func TestW02_AtOnceIsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n, times = 12, 4
	list, hooks := w.confirmations(n)
	var mu sync.Mutex
	repeats := 0
	w.parallel(n*times, func(i int) error {
		r, err := w.ReceiveWebhook(ctx, hooks[i%n])
		mu.Lock()
		defer mu.Unlock()
		repeats += r.Duplicates
		return err
	})
	require.Equal(t, n*(times-1), repeats)
	require.Equal(t, n, w.count(`SELECT count(*) FROM webhook_events`))
	require.Equal(t, n*(times-1), w.count(`SELECT sum(duplicates) FROM webhook_events`))
	for _, d := range hooks { // what was busy just then has a job
		w.applyRow(w.receive(d.Events[0]), d.Events[0])
	}
	require.Equal(t, n, w.count(`SELECT count(*) FROM webhook_events WHERE state = 'applied' AND tries = 1`))
	for _, p := range list {
		require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND source = 'webhook'`, p.ID))
	}
}

// What stands in the way of applying an event does not stand in the way of keeping it.
func TestW02_WhatCannotBeAppliedIsStoredWithItsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var first store.Payment
	for _, trouble := range [][2]string{ // with what is written, with what is read
		{`ALTER TABLE provider_objects ADD CONSTRAINT broken CHECK (seen_at IS NULL) NOT VALID`, `ALTER TABLE provider_objects DROP CONSTRAINT broken`},
		{`ALTER TABLE disputes RENAME TO away`, `ALTER TABLE away RENAME TO disputes`},
	} {
		list, hooks := w.confirmations(3)
		first = list[0]
		_, err := w.db.Pool.Exec(ctx, trouble[0])
		require.NoError(t, err)
		ids := make([]int64, len(hooks))
		for range 2 {
			w.parallel(len(hooks), func(i int) error {
				r, err := w.ReceiveWebhook(ctx, hooks[i])
				if err == nil {
					ids[i] = r.EventIDs[0]
				}
				return err
			})
		}
		require.Equal(t, len(hooks), w.count(`SELECT count(*) FROM webhook_events WHERE state = 'received' AND applied_at IS NULL AND payment_id IS NULL AND tries = 0`))
		for _, id := range ids {
			require.Equal(t, 2, w.jobs.Asked(t, "webhook", id))
		}
		_, err = w.db.Pool.Exec(ctx, trouble[1])
		require.NoError(t, err)
		for i, id := range ids {
			require.Equal(t, "applied", w.applyRow(id, hooks[i].Events[0]))
		}
		require.Eventually(t, func() bool { return w.db.Pool.Stat().AcquiredConns() == 0 }, time.Minute, time.Millisecond)
	}

	// A payment that somebody holds is not waited for.
	tx, err := w.db.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `SELECT FROM payments WHERE id = $1 FOR UPDATE`, first.ID)
	require.NoError(t, err)
	again := event("evt-again", object(first, first.ProviderPaymentID, provider.Succeeded), w.Now())
	d := delivery(again)
	d.AtOnce = true
	r, err := w.ReceiveWebhook(ctx, d)
	require.NoError(t, err)
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", r.EventIDs[0]))
	require.NoError(t, tx.Rollback(ctx))
	require.Equal(t, "applied", w.applyRow(r.EventIDs[0], again))
}
