package jobs

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// inParts answers as a provider whose list takes three lookups to read, and does not hold
// us. It tells what each lookup was told to go on from.
func inParts(asked chan<- string) func(provider.LookupQuery) (provider.LookedUp, bool) {
	return func(q provider.LookupQuery) (provider.LookedUp, bool) {
		asked <- q.Cursor
		got := provider.LookedUp{Verdict: provider.LookupNoAnswer, Way: provider.ByReference, Health: provider.HealthOK, Requests: 20,
			Reason: provider.ReasonListIncomplete}
		n, _ := strconv.Atoi(q.Cursor)
		if n < 2 {
			got.More, got.Cursor = true, strconv.Itoa(n+1)
			return got, true
		}
		got.Verdict, got.Reason = provider.LookupAbsent, provider.ReasonNotFound
		return got, true
	}
}

// A list too long for one lookup is read on at once, from where the last one stopped; two
// whole readings fail the payment, and no person has to.
func TestR01_AListIsReadOnUntilItsEnd(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AbsentHorizon = time.Millisecond
	s.ReconcilePauses = []time.Duration{time.Second}
	b := newBench(t, s)
	f := b.fakes["atlas"].on(lost)
	f.caps.ListPages = 20
	asked := make(chan string, 100)
	f.setLookup(inParts(asked))
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Failed)
	require.Equal(t, "not_received", p.StatusReason)
	require.Empty(t, p.NeedsReview)
	require.Equal(t, 2, p.Lookups, "as many as whole readings")
	require.Len(t, f.seen(), 1)
	var from []string
	for len(asked) > 0 {
		from = append(from, <-asked)
	}
	require.Equal(t, []string{"", "1", "2", "", "1", "2"}, from)
}

// A provider whose list is not read through is told nothing of where to begin.
func TestACursorIsForThoseWhoReadAList(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AbsentHorizon = time.Hour
	b := newBench(t, s)
	f := b.fakes["atlas"].on(lost)
	asked := make(chan string, 100)
	f.setLookup(inParts(asked))
	b.start("w1", nil)
	b.pay("atlas", nil)
	b.looked("atlas", 3)
	for range 3 {
		require.Empty(t, <-asked)
	}
}
