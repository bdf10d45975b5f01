package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// watchedNumbers is a cache over numbers that exist when they are even.
func watchedNumbers(clock *testClock) (*watchCache[int, int], *atomic.Int64) {
	loads := &atomic.Int64{}
	return newWatchCache(clock.now, func(_ context.Context, keys []int) (map[int]int, error) {
		loads.Add(1)
		got := map[int]int{}
		for _, k := range keys {
			if k%2 == 0 {
				got[k] = k * 10
			}
		}
		return got, nil
	}), loads
}

func TestWatchersShareOneReading(t *testing.T) {
	t.Parallel()
	clock := &testClock{at: time.Unix(1e9, 0)}
	c, loads := watchedNumbers(clock)
	look := func() {
		var wg sync.WaitGroup
		for k := range 100 {
			wg.Go(func() {
				v, found, err := c.get(t.Context(), k)
				if err != nil || found != (k%2 == 0) || (found && v != k*10) {
					t.Errorf("key %d: %d %t %v", k, v, found, err)
				}
			})
		}
		wg.Wait()
	}
	look() // the first time each comes alone
	before := loads.Load()
	look()
	require.Equal(t, before, loads.Load(), "fresh: nothing is read")
	clock.advance(watchFresh)
	look()
	require.LessOrEqual(t, loads.Load()-before, int64(2), "aged: all are read together")
}

func TestWatchersForget(t *testing.T) {
	t.Parallel()
	clock := &testClock{at: time.Unix(1e9, 0)}
	c, loads := watchedNumbers(clock)
	_, _, err := c.get(t.Context(), 2)
	require.NoError(t, err)
	c.forget(2)
	_, _, err = c.get(t.Context(), 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, loads.Load())
	clock.advance(watchKept + time.Second)
	_, _, err = c.get(t.Context(), 4)
	require.NoError(t, err)
	require.Len(t, c.held, 1, "nobody asks for 2 any more")
	for k := range 50 {
		_, found, err := c.get(t.Context(), 2*k+1)
		require.NoError(t, err)
		require.False(t, found)
	}
	clock.advance(2*watchFresh + time.Second)
	_, _, err = c.get(t.Context(), 4)
	require.NoError(t, err)
	require.Len(t, c.held, 1, "what does not exist is not asked for again")
}

func TestWatchersSeeTheFailureOfReading(t *testing.T) {
	t.Parallel()
	clock := &testClock{at: time.Unix(1e9, 0)}
	broken := errors.New("no database")
	c := newWatchCache(clock.now, func(context.Context, []int) (map[int]int, error) { return nil, broken })
	_, _, err := c.get(t.Context(), 2)
	require.ErrorIs(t, err, broken)
}

// TestAnEndedSessionStopsWatching: a page that is left open goes on for a few seconds
// at most, a page that is opened for none.
func TestAnEndedSessionStopsWatching(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	refresh := func() int {
		return b.send(http.MethodGet, "/", nil, http.Header{"Hx-Request": {"true"}, headerRev: {"old"}}).StatusCode
	}
	require.Equal(t, 200, refresh())
	w.db.Exec(t, `UPDATE users SET disabled = true`)
	require.Equal(t, 200, refresh(), "remembered")
	require.Equal(t, 303, b.get("/").StatusCode, "a page that is opened reads for itself")
	w.clock.advance(watchFresh)
	require.NotEqual(t, 200, refresh())
}
