package mollie

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// busy is a profile with 5,000 payments of others in the minutes around ours, and as many
// since.
func busy(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	for i := range 5000 {
		f.booked = append(f.booked,
			provider.Object{ID: fmt.Sprintf("tr_y%d", i), Reference: "y", Outcome: provider.Succeeded, Money: asked49,
				CreatedAt: noon.Add(-4*time.Minute + time.Duration(i)*600*time.Second/5000)},
			provider.Object{ID: fmt.Sprintf("tr_z%d", i), Reference: "z", Outcome: provider.Succeeded, Money: asked49,
				CreatedAt: noon.Add(10*time.Minute + time.Duration(i)*600*time.Second/5000)})
	}
	f.crowd(10, noon.Add(-time.Hour))
	return f
}

// readOn looks up until there is no more to read, as the engine does, and says what each
// lookup cost.
func readOn(t *testing.T, a *Adapter, q provider.LookupQuery) (got provider.LookedUp, cost []int) {
	t.Helper()
	_, most := a.settings.WorstCase(a.Capabilities())
	for {
		got = a.Lookup(t.Context(), q)
		require.LessOrEqual(t, got.Requests, most)
		cost = append(cost, got.Requests)
		if !got.More {
			return got, cost
		}
		require.Equal(t, provider.LookupNoAnswer, got.Verdict, "a part proves nothing")
		require.Equal(t, provider.ReasonListIncomplete, got.Reason)
		require.NotEqual(t, q.Cursor, got.Cursor)
		q.Cursor = got.Cursor
	}
}

// start is where a cursor says that the stretch begins.
func start(cursor string) string {
	parts := strings.Fields(cursor)
	return parts[len(parts)-1]
}

// On a busy profile the list is read whole in several lookups: what is there is found, and
// what is not is absent. What was made since is passed over the second time.
func TestR01_ABusyProfileIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	f := busy(t)
	a := f.adapter(t)
	a.now = func() time.Time { return noon.Add(2 * time.Hour) }
	q := provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: noon, SentTo: noon}
	got, cost := readOn(t, a, q)
	require.Equal(t, provider.LookupAbsent, got.Verdict, "%+v", got)
	require.Equal(t, []int{20, 20, 1}, cost, "ten thousand payments and the first before them")

	f.crowd(3000, noon.Add(time.Hour))
	q.Cursor = got.Cursor
	again, cost := readOn(t, a, q)
	require.Equal(t, provider.LookupAbsent, again.Verdict, "%+v", again)
	require.Len(t, cost, 2, "none of those made since: %v", cost)
	require.LessOrEqual(t, cost[0]+cost[1], 22)
	require.Equal(t, start(got.Cursor), start(again.Cursor))

	f.ours("tr_us", noon)
	found, _ := readOn(t, a, q)
	require.Equal(t, provider.LookupFound, found.Verdict, "%+v", found)
	require.Equal(t, "tr_us", found.Objects[0].ID)
}

// A payment to begin at that is unknown, or not beyond the stretch, is no place to begin.
func TestAListIsReadFromTheNewestWithoutAPlaceToBeginAt(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.ours("tr_us", noon)
	f.crowd(3, noon.Add(-time.Hour))
	f.crowd(3, noon.Add(time.Hour))
	a := f.adapter(t)
	q := provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: noon, SentTo: noon}
	for _, start := range []string{"tr_gone", fmt.Sprintf("tr_x%dx1", noon.Add(-time.Hour).Unix())} {
		q.Cursor = "1 1 - " + start
		got := a.Lookup(t.Context(), q)
		require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
		require.Empty(t, got.Alert)
		require.Equal(t, 2, got.Requests)
	}
	f.Ask(providertest.AskDown)
	q.Cursor = "1 1 - " + fmt.Sprintf("tr_x%dx1", noon.Add(time.Hour).Unix())
	got := a.Lookup(t.Context(), q)
	require.Equal(t, provider.HealthFail, got.Health)
	require.Equal(t, provider.AskTries, got.Requests)
	require.Equal(t, start(q.Cursor), start(got.Cursor), "that place is kept")
}

// A reading that began before an absence can count does not go on.
func TestR01_PartsOfAnEarlyReadingAreNotJoined(t *testing.T) {
	t.Parallel()
	f := busy(t)
	a := f.adapter(t)
	a.now = func() time.Time { return noon.Add(10 * time.Minute) }
	q := provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: noon, SentTo: noon}
	got := a.Lookup(t.Context(), q)
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.ReasonListIncomplete, got.Reason)
	require.False(t, got.More)
}

// A lookup that has not the time for one more page stops, which is nobody's fault.
func TestALookupStopsBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	f := busy(t)
	a := f.adapter(t, func(s *provider.Settings) { s.AnswerTimeout = time.Minute })
	a.now = func() time.Time { return noon.Add(2 * time.Hour) }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	t.Cleanup(cancel)
	got := a.Lookup(ctx, provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: noon, SentTo: noon})
	require.Equal(t, provider.ReasonListIncomplete, got.Reason)
	require.Equal(t, provider.HealthOK, got.Health)
	require.True(t, got.More)
	require.Equal(t, 1, got.Requests)
}
