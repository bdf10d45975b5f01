package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func (w *world) sweep(p store.SweepParams) store.Swept {
	w.t.Helper()
	s, err := w.Sweep(ctx, p)
	require.NoError(w.t, err)
	return s
}

// whatever became of the job, the rows are looked after.
func TestQ04_SweepTrustsRowsNotTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dead := w.create() // its worker was killed after the mark
	w.begin(dead.ID)
	lost := w.unknown() // its reconcile job was lost
	fine := w.create()
	require.NoError(t, w.NoteWaiting(ctx, fine.ID, w.Now().Add(time.Hour), "circuit_open", ""))
	w.jobs.Clear(t)
	w.clock.add(10 * time.Minute)

	s := w.sweep(store.SweepParams{})
	require.Equal(t, store.Swept{Overdue: 1, Requeued: 1}, s)
	require.Equal(t, store.Unknown, w.get(dead.ID).Status)
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", dead.ID))
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", lost.ID))
	require.Zero(t, w.jobs.Asked(t, "charge", fine.ID), "a payment that waits for its time is left alone")
	require.Equal(t, store.Swept{}, w.sweep(store.SweepParams{}), "once is enough")
}

func TestSweepNeverDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	q := w.create()
	oq := object(q, "pay_q", provider.Processing)
	w.charge(q.ID, answered(provider.Processing, &oq))
	for range 30 {
		w.clock.add(24 * time.Hour)
		w.sweep(store.SweepParams{UnknownAged: time.Hour})
	}
	require.Equal(t, store.Unknown, w.get(p.ID).Status, "a timer never turns unknown into failed")
	require.Equal(t, store.Processing, w.get(q.ID).Status)
	require.Equal(t, []string{store.ReviewAged}, w.get(p.ID).NeedsReview)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'unknown_aged'`))
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.Stuck)
}

func TestSweepOfAProviderNobodyCanAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.begin(p.ID)
	w.clock.add(10 * time.Minute)
	nobody := store.SweepParams{AskAt: func(string) bool { return false }}
	require.Equal(t, 1, w.sweep(nobody).Overdue)
	w.clock.add(time.Minute)
	w.sweep(nobody)
	p = w.get(p.ID)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewNoStatusAPI}, p.NeedsReview)
	require.Nil(t, p.NextCheckAt)
	w.clock.add(time.Hour)
	require.Equal(t, store.Swept{}, w.sweep(nobody))
}

func TestSweepByTwoProcessesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.begin(w.create().ID)
	}
	w.clock.add(time.Hour)
	w.parallel(3, func(int) error { _, err := w.Sweep(ctx, store.SweepParams{}); return err })
	require.Equal(t, 4, w.count(`SELECT count(*) FROM payments WHERE status = 'unknown'`))
	require.Equal(t, 4, w.count(`SELECT count(*) FROM payment_events WHERE to_status = 'unknown' AND from_status = 'pending'`))
}

func TestBooksNameWhatIsStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.Stuck)
	w.clock.add(time.Hour)
	books, err = w.Books(ctx)
	require.NoError(t, err)
	require.Len(t, books.Stuck, 1)
	require.Contains(t, books.Stuck[0], p.ID.String())
}

func TestBooksCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	w.unknown()
	w.create()
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())
	w.hook(e)
	w.receive(e)
	for epoch, to := range map[string]string{"1": "open", "2": "half_open", "3": "closed"} {
		_, err := w.RecordBreakerEvent(ctx, store.BreakerEvent{Provider: "atlas", Class: "charge", Epoch: epoch, To: to, At: w.Now()})
		require.NoError(t, err)
	}
	b, err := w.Books(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, b.Payments)
	require.Equal(t, 1, b.ByStatus["succeeded"])
	require.Zero(t, b.ByStatus["failed"])
	require.Equal(t, []int{2, 1, 1, 1, 1}, []int{b.UnknownSeen, b.UnknownResolved, b.BreakerOpened, b.BreakerClosed, b.MaxWireSends})
	require.Equal(t, 1, b.Webhooks.Received)
	require.Equal(t, 1, b.Webhooks.Duplicates)
	require.Equal(t, 1, b.Webhooks.Applied)
	seen := 0
	require.NoError(t, w.EachPayment(ctx, func(store.Payment) error { seen++; return nil }))
	require.Equal(t, 3, seen)
}
