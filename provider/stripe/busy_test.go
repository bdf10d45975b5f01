package stripe

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// busy is an account with 5,000 charges of others in the minutes around ours, whose search
// index knows nothing.
func busy(t *testing.T, sent time.Time) *fake {
	t.Helper()
	f := newFake(t)
	f.unindexed = true
	for i := range 5000 {
		id := fmt.Sprintf("z%d", i)
		f.booked = append(f.booked, provider.Object{ID: "pi_" + id, Reference: id, Outcome: provider.Succeeded, Money: asked,
			CreatedAt: sent.Add(-4*time.Minute + time.Duration(i)*600*time.Second/5000)})
	}
	return f
}

// readOn looks up until there is no more to read, as the engine does, and says what each
// lookup cost.
func readOn(t *testing.T, a *Adapter, q provider.LookupQuery) (got provider.LookedUp, cost []int) {
	t.Helper()
	for {
		got = a.Lookup(t.Context(), q)
		require.LessOrEqual(t, got.Requests, requests(a))
		cost = append(cost, got.Requests)
		if !got.More {
			return got, cost
		}
		require.Equal(t, provider.LookupNoAnswer, got.Verdict, "a part proves nothing")
		require.Equal(t, provider.ReasonListIncomplete, got.Reason)
		require.Equal(t, provider.HealthOK, got.Health)
		require.NotEqual(t, q.Cursor, got.Cursor)
		q.Cursor = got.Cursor
	}
}

// On a busy account the list is read whole in several lookups: what is there is found, and
// what is not is absent.
func TestR01_ABusyAccountIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	sent := time.Now().Add(-time.Hour)
	f := busy(t, sent)
	a := f.adapter(t)
	q := provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent}
	got, cost := readOn(t, a, q)
	require.Equal(t, provider.LookupAbsent, got.Verdict, "%+v", got)
	require.Equal(t, []int{21, 21, 10}, cost, "fifty pages, and a look into the index where a lookup stops")
	require.Empty(t, got.Cursor, "the next one begins anew: two readings have to agree")

	f.Book(provider.Object{ID: "pi_us", Reference: "p1", Outcome: provider.Succeeded, Money: asked, CreatedAt: sent})
	got, cost = readOn(t, a, q)
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, "pi_us", got.Objects[0].ID)
	require.Equal(t, []int{21, 21}, cost, "the newest are read first, and ours is in the middle")
}

// A reading that began before an absence can count does not go on: a charge carried out
// late would be younger than where it began.
func TestR01_PartsOfAnEarlyReadingAreNotJoined(t *testing.T) {
	t.Parallel()
	sent := time.Now().Add(-10 * time.Minute)
	f := busy(t, sent)
	a := f.adapter(t)
	q := provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent}
	got := a.Lookup(t.Context(), q)
	require.Equal(t, provider.ReasonListIncomplete, got.Reason)
	require.False(t, got.More)
	require.Empty(t, got.Cursor)

	late := f.adapter(t)
	late.now = func() time.Time { return sent.Add(20 * time.Minute) }
	part := late.Lookup(t.Context(), q)
	require.True(t, part.More)
	q.SentTo = sent.Add(15 * time.Minute) // it was sent once more
	q.Cursor = part.Cursor
	late.now = func() time.Time { return sent.Add(time.Hour) }
	f.asked = nil
	late.Lookup(t.Context(), q)
	require.Empty(t, f.asked[0].Query().Get("starting_after"), "it began anew")
}

// What was read stays read when Stripe is down for a while, and not when it refuses the
// place to go on from.
func TestABrokenReadingGoesOn(t *testing.T) {
	t.Parallel()
	sent := time.Now().Add(-time.Hour)
	f := busy(t, sent)
	a := f.adapter(t)
	q := provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent}
	q.Cursor = a.Lookup(t.Context(), q).Cursor
	f.Ask(providertest.AskDown)
	got := a.Lookup(t.Context(), q)
	require.Equal(t, provider.HealthFail, got.Health)
	require.False(t, got.More, "at the usual pace")
	require.NotEmpty(t, got.Cursor)
	f.Ask(providertest.AskForbidden)
	require.Empty(t, a.Lookup(t.Context(), q).Cursor)
	f.Ask(providertest.AskTruth)
	q.Cursor = got.Cursor
	got, cost := readOn(t, a, q)
	require.Equal(t, provider.LookupAbsent, got.Verdict)
	require.Equal(t, []int{21, 10}, cost)
}

// A lookup that has not the time for one more page stops, which is nobody's fault.
func TestALookupStopsBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	sent := time.Now().Add(-time.Hour)
	f := busy(t, sent)
	a := f.adapter(t, func(s *provider.Settings) { s.AnswerTimeout = time.Minute })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	t.Cleanup(cancel)
	got := a.Lookup(ctx, provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent})
	require.Equal(t, provider.ReasonListIncomplete, got.Reason)
	require.Equal(t, provider.HealthOK, got.Health)
	require.True(t, got.More)
	require.Equal(t, 2, got.Requests)
}
