package provider

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sentAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestStretchIsWhatASendCanHaveTaken(t *testing.T) {
	t.Parallel()
	from, to := LookupQuery{SentFrom: sentAt, SentTo: sentAt.Add(time.Minute)}.Stretch(5 * time.Second)
	require.Equal(t, time.Date(2026, 3, 1, 11, 55, 0, 0, time.UTC), from)
	require.Equal(t, time.Date(2026, 3, 1, 12, 9, 5, 0, time.UTC), to)
	from, to = LookupQuery{}.Stretch(5 * time.Second)
	require.Zero(t, from)
	require.Zero(t, to)
}

// Parts of a reading are joined only while all of them prove what one reading would.
func TestR01_WhichPartsOfAReadingAreJoined(t *testing.T) {
	t.Parallel()
	const horizon = 15 * time.Minute
	q := LookupQuery{SentFrom: sentAt, SentTo: sentAt}
	read := func(q LookupQuery, at time.Time) ListRead { return ResumeListRead(q, at, horizon) }
	stopped := func(r ListRead, at string) LookedUp {
		var l LookedUp
		r.At = at
		r.Stopped(&l)
		require.Equal(t, ReasonListIncomplete, l.Reason)
		return l
	}
	late := sentAt.Add(time.Hour)
	part := stopped(read(q, late), "c9")
	require.True(t, part.More)
	q.Cursor = part.Cursor
	require.Equal(t, "c9", read(q, late.Add(time.Minute)).At)

	again := q
	again.SentTo = late.Add(-time.Minute) // sent once more since
	require.Empty(t, read(again, late.Add(time.Hour)).At)
	require.Empty(t, read(q, late.Add(-time.Minute)).At, "read in the future")
	require.Empty(t, read(LookupQuery{Cursor: part.Cursor}, late).At, "nobody knows when it was sent")

	early := stopped(read(LookupQuery{SentTo: sentAt}, sentAt.Add(horizon-time.Second)), "c9")
	require.False(t, early.More)
	require.Empty(t, early.Cursor)
	r := read(LookupQuery{SentTo: sentAt}, sentAt.Add(horizon))
	r.Start = "c1"
	begun := stopped(r, "c9")
	require.True(t, begun.More)
	resumed := read(LookupQuery{SentTo: sentAt, Cursor: begun.Cursor}, late)
	require.Equal(t, "c9", resumed.At)
	require.Equal(t, "c1", resumed.Start)
	require.False(t, resumed.AtStart())

	q.Cursor = ""
	for n := 1; ; n++ {
		l := stopped(read(q, late), "c9")
		if q.Cursor = l.Cursor; !l.More {
			require.Equal(t, listParts, n, "it ends at last")
			require.Empty(t, l.Cursor)
			break
		}
	}
	for _, text := range []string{"", "x", "1 x c9", "1 0 c9", "x 1 c9", "1 1", "1 1 c9 c1 c2"} {
		q.Cursor = text
		require.Empty(t, read(q, late).At, text)
	}
}

func TestABrokenReadingKeepsItsPlaceUnlessItWasRefused(t *testing.T) {
	t.Parallel()
	for status, kept := range map[int]bool{0: true, http.StatusServiceUnavailable: true, http.StatusTooManyRequests: true,
		http.StatusOK: false, http.StatusBadRequest: false, http.StatusNotFound: false, http.StatusForbidden: false} {
		r := ListRead{At: "c9", Start: "c1", parts: 2, settled: true, began: sentAt}
		l := LookedUp{Exchange: Exchange{Status: status}, Reason: "as it was"}
		r.Broken(&l)
		at, ok := parseListRead(l.Cursor)
		require.True(t, ok)
		require.Equal(t, kept, at.At == "c9", status)
		require.Equal(t, "c1", at.Start)
		require.Equal(t, "as it was", l.Reason)
		require.False(t, l.More)
	}
	r := ListRead{At: "c9", Start: "c1", parts: 2, settled: true, began: sentAt}
	var l LookedUp
	r.Done(&l)
	begin := ResumeListRead(LookupQuery{SentTo: sentAt, Cursor: l.Cursor}, sentAt.Add(time.Hour), time.Minute)
	require.True(t, begin.AtStart())
}
