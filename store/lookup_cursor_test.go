package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// A lookup that has more to read is not over: it counts as none, and the next one knows
// where to go on.
func TestALookupThatGoesOnIsOneLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cursor := func(id uuid.UUID) string {
		got, err := w.LookupCursor(ctx, id)
		require.NoError(t, err)
		return got
	}
	once := func(l *store.LookupPolicy) { l.MaxLookups = 1 }
	p := w.unknown()
	require.Empty(t, cursor(p.ID))
	w.clock.add(horizon)
	p = w.lookup(p.ID, absentBy(provider.ByReference))
	require.Equal(t, 1, p.AbsentLookups)
	part := provider.LookedUp{Verdict: provider.LookupNoAnswer, Way: provider.ByReference, Reason: provider.ReasonListIncomplete, Cursor: "17 1 pi_9", More: true}
	p = w.lookup(p.ID, part, once)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, 1, p.Lookups)
	require.Empty(t, p.NeedsReview, "nobody has to look at a payment whose list is being read")
	require.Equal(t, "17 1 pi_9", cursor(p.ID))
	require.Positive(t, w.jobs.Asked(t, "reconcile", p.ID))

	w.clock.add(time.Minute)
	p = w.lookup(p.ID, absentBy(provider.ByReference))
	require.Equal(t, store.Failed, p.Status, "the second whole reading without us")
	require.Equal(t, 2, p.Lookups)
	require.Empty(t, cursor(p.ID), "the next one would begin anew")

	other := w.unknown()
	part.More = false
	other = w.lookup(other.ID, part, once)
	require.Contains(t, other.NeedsReview, store.ReviewAged, "one that cannot go on is over")
}
