package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func (w *world) openRun() store.Run {
	w.t.Helper()
	r, err := w.OpenRun(ctx, "atlas", "schedule", 10*time.Minute)
	require.NoError(w.t, err)
	return r
}

func (w *world) page(r store.Run, last bool, next string, objects ...provider.Object) store.Run {
	w.t.Helper()
	for i := range objects {
		objects[i].CreatedAt = w.Now()
	}
	r, err := w.RecordPage(ctx, r.ID, provider.Page{Objects: objects, Next: next}, last)
	require.NoError(w.t, err)
	return r
}

func TestRunFindsSixKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paid := func(id string) store.Payment {
		p := w.create()
		o := object(p, id, provider.Succeeded)
		return w.charge(p.ID, answered(provider.Succeeded, &o))
	}
	same, missing, twice, lagging, altered := paid("pay_same"), paid("pay_missing"), paid("pay_twice"), w.unknown(), w.unknown()
	quiet := w.create() // nothing was sent: nothing to expect at the provider
	w.clock.add(time.Minute)
	r := w.openRun()

	less := object(altered, "pay_altered", provider.Succeeded)
	less.Money.Amount = 900
	r = w.page(r, false, "cursor-1",
		object(same, "pay_same", provider.Succeeded),
		provider.Object{ID: "pay_theirs", Reference: "another shop", Status: "succeeded", Outcome: provider.Succeeded, Money: provider.Money{Amount: 5, Currency: "EUR"}},
		object(twice, "pay_twice", provider.Succeeded),
		object(twice, "pay_twice_2", provider.Succeeded))
	require.Equal(t, "cursor-1", r.Cursor)
	require.Equal(t, "running", r.State)
	require.Equal(t, r, w.openRun(), "the run goes on where it stopped")
	r = w.page(r, true, "", less, object(lagging, "pay_lagging", provider.Succeeded))
	require.Equal(t, "complete", r.State)
	require.Equal(t, []int{2, 1, 1, 1, 1, 1}, []int{r.Matched, r.OursOnly, r.TheirsOnly, r.AmountDiffers, r.StatusDiffers, r.Duplicate})
	require.Equal(t, 2, r.Pages)

	require.Equal(t, store.Succeeded, w.get(lagging.ID).Status, "a status that lagged is healed")
	require.Equal(t, "sync", w.get(lagging.ID).StatusEvidence)
	require.Equal(t, store.Unknown, w.get(altered.ID).Status)
	require.Equal(t, []string{store.ReviewDuplicate}, w.get(twice.ID).NeedsReview)
	require.Equal(t, store.Pending, w.get(quiet.ID).Status)
	require.Equal(t, 6, w.count(`SELECT count(*) FROM payments`), "theirs are listed, never invented")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM provider_objects WHERE object_id = 'pay_theirs' AND payment_id IS NULL`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM reconciliation_items WHERE finding = 'ours_only' AND payment_id = $1`, missing.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'ours_only'`))

	again := w.page(r, true, "", object(same, "pay_same", provider.Succeeded))
	require.Equal(t, r, again, "a complete run takes no more pages")
}

func TestWindowsOverlapAndFollowTheWatermark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	w.clock.add(time.Hour)
	first := w.openRun()
	require.Equal(t, w.Now().Add(-time.Hour-10*time.Minute), first.From, "from the first payment, less the overlap")
	require.True(t, first.To.Before(w.Now()), "never up to now")
	w.page(first, false, "c")
	require.Zero(t, w.count(`SELECT count(*) FROM provider_state WHERE sync_watermark IS NOT NULL`), "the watermark moves at the last page only")
	w.page(first, true, "")
	w.clock.add(15 * time.Minute)
	second := w.openRun()
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, first.To.Add(-10*time.Minute), second.From)
}

func TestRunPausesAfterTenExceptionsInARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.openRun()
	fail := func() store.Run {
		r, err := w.RecordSyncException(ctx, r.ID, "503", 5*time.Minute)
		require.NoError(t, err)
		return r
	}
	for range 9 {
		require.Equal(t, "running", fail().State)
	}
	r = w.page(r, false, "c1") // a good page starts the count again
	require.Zero(t, r.Exceptions)
	for range 9 {
		fail()
	}
	r = fail()
	require.Equal(t, "paused", r.State)
	require.Equal(t, w.Now().Add(5*time.Minute), *r.PausedUntil)
	require.Equal(t, "c1", r.Cursor)
	require.Equal(t, r, w.openRun(), "a paused run is still the open one")
	w.clock.add(6 * time.Minute)
	require.Equal(t, 1, fail().Exceptions, "after the pause it counts anew")
	r = w.page(r, true, "")
	require.Equal(t, "complete", r.State)
	require.Nil(t, r.PausedUntil)
	_, err := w.RecordPage(ctx, uuid.New(), provider.Page{}, true)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestOneOpenRunPerProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := make([]uuid.UUID, 6)
	w.parallel(len(ids), func(i int) error {
		r, err := w.OpenRun(ctx, "atlas", fmt.Sprint(i), time.Minute)
		ids[i] = r.ID
		return err
	})
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

func TestStrangerThatTurnsOutToBeOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.clock.add(time.Minute)
	o := object(p, "pay_1", provider.Succeeded)
	o.Reference = ""
	w.page(w.openRun(), true, "", o)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM provider_objects WHERE payment_id IS NULL`))
	own := object(p, "pay_1", provider.Succeeded)
	p = w.charge(p.ID, answered(provider.Succeeded, &own))
	require.Equal(t, store.Succeeded, p.Status)
	require.Zero(t, w.count(`SELECT count(*) FROM provider_objects WHERE payment_id IS NULL`))
}

func TestListedPaymentThatIsPendingHereIsLookedAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.clock.add(time.Minute)
	r := w.page(w.openRun(), true, "", object(p, "pay_1", provider.Processing))
	require.Equal(t, 1, r.StatusDiffers)
	p = w.get(p.ID)
	require.Equal(t, store.Processing, p.Status)
	require.True(t, p.NextCheckAt.After(w.Now()))
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID))
}
