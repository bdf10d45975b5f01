package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

func TestAPIPaymentsPagesWithoutGapsOrRepeats(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	want := map[uuid.UUID]bool{}
	for range 7 {
		want[p.db.SeedPayment(t, nil).ID] = true
	}
	var after, last uuid.UUID
	pages := 0
	for {
		list, more, err := p.APIPayments(t.Context(), store.APIFilter{}, after, 3)
		require.NoError(t, err)
		pages++
		for _, x := range list {
			require.True(t, want[x.ID], "no repeat")
			delete(want, x.ID)
			require.True(t, last == uuid.Nil || x.ID.String() < last.String(), "newest first")
			last = x.ID
		}
		if !more {
			break
		}
		after = last
	}
	require.Empty(t, want)
	require.Equal(t, 3, pages)
}

func TestAPIPaymentsFilters(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.db.SeedPayment(t, nil)
	hit := p.db.SeedPayment(t, func(x *store.Payment) {
		x.Status, x.Provider, x.OrderRef, x.CreatedAt = store.Failed, "borealis", "A-1", storetest.Epoch.Add(time.Hour)
	})
	for name, f := range map[string]store.APIFilter{
		"status":   {Status: store.Failed},
		"provider": {Provider: "borealis"},
		"order":    {OrderRef: "A-1"},
		"from":     {From: storetest.Epoch.Add(time.Minute)},
		"all":      {Status: store.Failed, Provider: "borealis", OrderRef: "A-1", From: hit.CreatedAt, To: hit.CreatedAt.Add(time.Microsecond)},
	} {
		list, more, err := p.APIPayments(t.Context(), f, uuid.Nil, 10)
		require.NoError(t, err, name)
		require.False(t, more)
		require.Len(t, list, 1, name)
		require.Equal(t, hit.ID, list[0].ID, name)
	}
	list, _, err := p.APIPayments(t.Context(), store.APIFilter{To: hit.CreatedAt}, uuid.Nil, 10)
	require.NoError(t, err)
	require.Len(t, list, 1, "the upper end is exclusive")
	require.NotEqual(t, hit.ID, list[0].ID)
	list, _, err = p.APIPayments(t.Context(), store.APIFilter{OrderRef: "A-"}, uuid.Nil, 10)
	require.NoError(t, err)
	require.Empty(t, list, "an order reference is exact")
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	x := p.db.SeedPayment(t, nil)
	p.db.SeedEvent(t, x, store.TimelineEvent{Kind: "created", Source: "api", Actor: "client:1", ToStatus: store.Pending})
	p.db.SeedEvent(t, x, store.TimelineEvent{Kind: "lookup", Source: "job", Actor: "system:reconcile", Evidence: map[string]any{"verdict": "absent"}})
	events, err := p.Timeline(t.Context(), x.ID)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, "created", events[0].Kind)
	require.Equal(t, "absent", events[1].Evidence["verdict"])
	_, err = p.Timeline(t.Context(), uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestWalletByOwner(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	id := p.db.SeedWallet(t, "cust-1", "EUR", 500, -200)
	w, err := p.WalletByOwner(t.Context(), "cust-1")
	require.NoError(t, err)
	require.Equal(t, id, w.ID)
	require.Equal(t, int64(300), w.Balance)
	_, err = p.WalletByOwner(t.Context(), "cust-2")
	require.ErrorIs(t, err, store.ErrWalletNotFound)
}

func TestGauges(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.now = storetest.Epoch.Add(2 * time.Hour)
	since, old, fresh := storetest.Epoch, storetest.Epoch, p.now.Add(-time.Minute)
	p.db.SeedPayment(t, func(x *store.Payment) { x.UnknownSince = &since; x.NeedsReview = []string{store.ReviewAged} })
	p.db.SeedPayment(t, func(x *store.Payment) { u := since.Add(time.Minute); x.UnknownSince = &u })
	p.db.SeedPayment(t, func(x *store.Payment) { x.Status = store.Pending })
	p.db.SeedPayment(t, func(x *store.Payment) { x.Status = store.Succeeded; x.SettledAt = &fresh })
	p.db.SeedPayment(t, func(x *store.Payment) { x.Status = store.Failed; x.SettledAt = &old })
	p.db.SeedWebhook(t, func(e *store.InboxEvent) { e.State = "unmatched" })
	p.db.SeedWebhook(t, nil)

	g, err := p.Gauges(t.Context())
	require.NoError(t, err)
	counts := map[string]int64{}
	for _, x := range append(append(g.Open, g.Settled...), g.Inbox...) {
		counts[x.Provider+"/"+x.Name] = x.Count
		if x.Name == "unknown" {
			require.Equal(t, since, x.Oldest.UTC())
		}
	}
	require.Equal(t, map[string]int64{"atlas/unknown": 2, "atlas/pending": 1, "atlas/succeeded": 1, "atlas/unmatched": 1}, counts)
	require.Equal(t, int64(1), g.Review)
}

func TestReady(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	require.NoError(t, p.Ready(t.Context()))
	p.db.Exec(t, `DROP TABLE payments CASCADE`)
	require.Error(t, p.Ready(t.Context()), "a database without our schema is not ready")
	p.db.Pool.Close()
	require.Error(t, p.Ready(t.Context()))
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01", "55P03", "57014", "57P01", "57P03", "53300", "08006", "25006"} {
		require.True(t, store.Unavailable(fmt.Errorf("x: %w", &pgconn.PgError{Code: code})), code)
	}
	for _, code := range []string{"23505", "22021", "42P01", "25P02"} {
		require.False(t, store.Unavailable(&pgconn.PgError{Code: code}), code)
	}
	require.True(t, store.Unavailable(context.DeadlineExceeded))
	require.True(t, store.Unavailable(fmt.Errorf("begin: %w", pgconn.ErrConnClosed)))
	require.False(t, store.Unavailable(context.Canceled), "the caller left")
	require.False(t, store.Unavailable(nil))
	require.False(t, store.Unavailable(errors.New("bug")))

	p := newPeople(t)
	p.db.Pool.Close()
	require.True(t, store.Unavailable(p.Ready(t.Context())))
}

// TestAConnectionToAServerWithoutWritesIsClosed: it leads to one that is not the primary
// any more.
func TestAConnectionToAServerWithoutWritesIsClosed(t *testing.T) {
	t.Parallel()
	c, err := newPeople(t).db.Pool.Acquire(t.Context())
	require.NoError(t, err)
	defer c.Release()
	_, err = c.Exec(t.Context(), `SET default_transaction_read_only = on`)
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), `UPDATE payments SET version = version`)
	require.True(t, store.Unavailable(err), "%v", err)
	require.True(t, c.Conn().IsClosed())
}

func TestUnavailableWhenTheServerIsGone(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none", "test", 1)
	require.Error(t, err)
	require.True(t, store.Unavailable(err), err.Error())
}
