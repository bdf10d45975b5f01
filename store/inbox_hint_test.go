package store_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func (w *world) hint(id string) store.Received {
	w.t.Helper()
	got, err := w.ReceiveHint(context.Background(), store.Delivery{
		Provider: "atlas", Raw: []byte("id=" + id), Verification: provider.Verification{Verdict: provider.SignatureMissing}}, id)
	require.NoError(w.t, err)
	return got
}

// fetched applies what was fetched about a hint.
func (w *world) fetched(id int64, e provider.Event) (state string) {
	w.t.Helper()
	require.NoError(w.t, w.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) (err error) {
		state, err = w.ApplyFetched(ctx, tx, id, e)
		return err
	}))
	return state
}

func TestW07_TwentyHintsAtOnceAreOneQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := w.ReceiveHint(context.Background(), store.Delivery{
				Provider: "atlas", Raw: []byte("id=tr_1"), Verification: provider.Verification{Verdict: provider.SignatureMissing}}, "tr_1")
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	first := w.hint("tr_1")
	require.Equal(t, 1, first.Duplicates)
	require.NotEqual(t, first.EventIDs, w.hint("tr_2").EventIDs)

	h, err := w.BeginFetch(context.Background(), first.EventIDs[0])
	require.NoError(t, err)
	require.Equal(t, store.InboxHint{ObjectID: "tr_1", Tries: 1}, h)
	require.Equal(t, 0, w.hint("tr_1").Duplicates, "the question is under way: this may be news to it")
}

// Two hints that find the same state are one event; a payment that is not there yet is
// waited for.
func TestHintsBecomeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.begin(p.ID)
	o := object(p, "tr_1", provider.Succeeded)
	e := event("tr_1:paid", o, w.Now())

	stranger := o
	stranger.ID, stranger.Reference = "tr_2", ""
	id := w.hint("tr_2").EventIDs[0]
	require.Equal(t, "unmatched", w.fetched(id, event("tr_2:paid", stranger, w.Now())))
	require.Equal(t, "unmatched", w.fetched(id, event("tr_2:paid", stranger, w.Now())), "fetched again, it is still nobody's")

	first, second := w.hint("tr_1").EventIDs[0], int64(0)
	_, err := w.BeginFetch(context.Background(), first)
	require.NoError(t, err)
	second = w.hint("tr_1").EventIDs[0]
	require.NotEqual(t, first, second)
	require.Equal(t, "applied", w.fetched(first, e))
	require.Equal(t, "ignored", w.fetched(second, e))
	require.Equal(t, "applied", w.fetched(first, e), "settled rows stay as they are")
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)

	odd := w.hint("tr_3").EventIDs[0]
	require.Equal(t, "unparsed", w.fetched(odd, provider.Event{Object: o}))
	_, err = w.BeginFetch(context.Background(), odd)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, w.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		return w.DropHint(ctx, tx, odd, "the provider knows no such id")
	}), "nothing is left to drop")
	require.ErrorIs(t, w.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		return w.DropHint(ctx, tx, 4711, "x")
	}), store.ErrNotFound)
}
