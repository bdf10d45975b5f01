package simulator

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openTestBook(t require.TestingT, path string) *book {
	b, err := openBook(path)
	require.NoError(t, err)
	return b
}

// drawEntry makes a step of the ledger; ids repeat, so that charges are updated
// and answers replaced as well as added.
func drawEntry(t *rapid.T) entry {
	id := func(kind string) string { return fmt.Sprint(kind, rapid.IntRange(0, 9).Draw(t, kind)) }
	e := entry{At: noon, Reset: rapid.IntRange(0, 19).Draw(t, "reset") == 0}
	for range rapid.IntRange(0, 2).Draw(t, "charges") {
		n := rapid.IntRange(0, 19).Draw(t, "n")
		e.Charges = append(e.Charges, Charge{
			ID: fmt.Sprint("pay", n), Reference: fmt.Sprint("p", n%7), Key: fmt.Sprint("k", n%5),
			Amount: int64(n + 1), Currency: "EUR", CreatedAt: noon.Add(time.Duration(n*7%11) * time.Second),
			Status: rapid.SampledFrom([]string{StatusProcessing, StatusSucceeded, StatusFailed}).Draw(t, "status"),
			Decide: rapid.SampledFrom([]string{"", StatusSucceeded}).Draw(t, "decide"),
		})
	}
	if rapid.Bool().Draw(t, "answered") {
		e.Answer = &stored{Key: id("k"), Hash: id("h"), Status: 200, Body: `{"ok": true}`, At: noon}
	}
	if rapid.Bool().Draw(t, "event") {
		e.Events = []event{{ID: id("evt"), Type: eventSucceeded, Body: `{"x": "<&>\u2028"}`, Due: noon}}
	}
	if rapid.Bool().Draw(t, "acked") {
		e.Acked = id("evt")
	}
	return e
}

// image is the state that has to come back.
type image struct {
	all, p0, k0 []Charge
	answers     map[string]stored
	events      []event
	undecided   []Charge
}

func imageOf(t require.TestingT, b *book) image {
	im := image{answers: map[string]stored{}}
	var err error
	im.all, err = b.between(span{}, nil)
	require.NoError(t, err)
	im.p0, err = b.byReference("p0")
	require.NoError(t, err)
	im.k0, err = b.byKey("k0")
	require.NoError(t, err)
	for key, a := range b.answers {
		im.answers[key] = *a
	}
	im.events, im.undecided = b.open()
	slices.SortFunc(im.events, func(x, y event) int { return cmp.Compare(x.ID, y.ID) })
	return im
}

// Whatever was written, reopening the file gives the same ledger, in order.
func TestBookReplaysToTheSameState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		defer os.Remove(path)
		b := openTestBook(t, path)
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			e := drawEntry(t)
			_, _, err := b.record(func() (entry, error) { return e, nil })
			require.NoError(t, err)
		}
		want := imageOf(t, b)
		require.NoError(t, b.log.close())
		require.True(t, slices.IsSortedFunc(want.all, func(x, y Charge) int { return byCreation(&x, &y) }))

		again := openTestBook(t, path)
		require.Equal(t, want, imageOf(t, again))
		require.NoError(t, again.log.close())
	})
}

// Paging with any limit visits every charge of the stretch once, in order.
func TestBookPaging(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := openTestBook(t, "")
		for i := range rapid.IntRange(0, 30).Draw(t, "n") {
			at := noon.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "at")) * time.Second)
			b.put(Charge{ID: fmt.Sprintf("pay%02d", i), Reference: "p", CreatedAt: at})
		}
		from := noon.Add(time.Duration(rapid.IntRange(-1, 6).Draw(t, "from")) * time.Second)
		to := noon.Add(time.Duration(rapid.IntRange(-1, 6).Draw(t, "to")) * time.Second)
		limit := rapid.IntRange(1, 7).Draw(t, "limit")
		all, err := b.between(span{from: from, to: to}, nil)
		require.NoError(t, err)
		for _, c := range all {
			require.False(t, c.CreatedAt.Before(from) || !c.CreatedAt.Before(to))
		}
		var paged []Charge
		var after *Charge
		for {
			page, err := b.between(span{from: from, to: to, after: after, limit: limit}, nil)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), limit)
			paged = append(paged, page...)
			after, err = readCursor(cursorOf(page[len(page)-1]))
			require.NoError(t, err)
		}
		require.Equal(t, len(all), len(paged))
		for i := range all {
			require.Equal(t, all[i].ID, paged[i].ID)
		}
	})
}

// The rows of claim's truth table.
func TestClaim(t *testing.T) {
	t.Parallel()
	b := openTestBook(t, "")
	life := time.Hour
	require.Equal(t, claimed{}, b.claim("k", "h", noon, life), "free: taken")
	require.Equal(t, claimed{running: true}, b.claim("k", "h", noon, life))
	require.Equal(t, claimed{running: true}, b.claim("k", "other", noon, life), "nothing to compare with yet")
	b.release("k")
	require.Equal(t, claimed{}, b.claim("k", "h", noon, life), "released without an answer: free again")

	a := &stored{Key: "k", Hash: "h", Status: 200, At: noon}
	_, err := b.write(func() (entry, error) { return entry{Answer: a}, nil })
	require.NoError(t, err)
	require.Equal(t, claimed{answer: a}, b.claim("k", "h", noon, life), "answered, while the call still tells its client")
	b.release("k")
	require.Equal(t, claimed{answer: a}, b.claim("k", "h", noon.Add(life-1), life))
	require.Equal(t, claimed{reused: true}, b.claim("k", "other", noon, life))
	require.Equal(t, claimed{}, b.claim("k", "other", noon.Add(life), life), "forgotten: free for anything")
}

// A draft that fails leaves no trace.
func TestWriteRefused(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	b := openTestBook(t, path)
	_, err := b.write(func() (entry, error) { return entry{Charges: []Charge{{ID: "pay"}}}, errDecided })
	require.ErrorIs(t, err, errDecided)
	_, err = b.get("pay")
	require.ErrorIs(t, err, errNoCharge)
	require.NoError(t, b.log.close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, raw)
}
