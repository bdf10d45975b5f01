package breaker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// evalshas counts the trips a Redis has served.
func evalshas(t *testing.T, r *rig) int {
	t.Helper()
	stats, err := r.client.Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	var n int
	for line := range strings.Lines(stats) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			_, err := fmt.Sscanf(rest, "%d", &n)
			require.NoError(t, err)
		}
	}
	return n
}

// Those who come while a trip is under way share the next one, in the order they came.
func TestACrowdSharesTrips(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{Failures: 1000, MaxInFlight: 50})
	require.Nil(t, once(t, b, OK))
	r := &rig{client: server.Client()}
	before := evalshas(t, r)
	e := b.circuit(charge)
	b.line(t, e, true)
	var wg sync.WaitGroup
	denied := make(chan *Denied, 60)
	for range 60 {
		wg.Go(func() {
			_, err := b.Permit(context.Background(), charge)
			d, _ := err.(*Denied)
			denied <- d
		})
	}
	eventually(t, "everybody is in line", func() bool { return b.waiting(e) == 60 })
	b.line(t, e, false)
	b.carryOn(e, &e.line)
	wg.Wait()
	close(denied)
	refused := 0
	for d := range denied {
		if d != nil {
			require.Equal(t, DeniedSaturated, d.Reason)
			refused++
		}
	}
	require.Equal(t, 10, refused, "50 slots for 60 callers of one trip")
	require.Equal(t, 1, evalshas(t, r)-before)
	require.Equal(t, 50, state(t, b).InFlight)
}

// line makes others wait as during a trip, or not any more.
func (r *Redis) line(t *testing.T, e *shared, flying bool) {
	t.Helper()
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	e.line.flying = flying
}

func (r *Redis) waiting(e *shared) int {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	return len(e.line.waiting)
}

// Redis hangs while a crowd waits: everybody decides alone after one timeout.
func TestB06_RedisHangsACrowdWaitsOneTimeout(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{})
	require.Nil(t, once(t, b, OK))
	b.looksOnce()
	server.Pause()
	defer server.Resume()
	began := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 10 {
				_ = once(t, b, OK)
			}
		})
	}
	wg.Wait()
	require.Less(t, time.Since(began), 5*time.Second, "one timeout of 250 ms, not a thousand")
	require.False(t, b.Degraded().IsZero())
}

func TestJunkAnswersOfATripAreErrors(t *testing.T) {
	t.Parallel()
	batch := []*operation{askFor("a"), tell(finished{token: "b", verdict: OK})}
	for _, junk := range [][]any{{"admit 0 1"}, {"admit 0 1", "counted"}, {"admit x 1", "counted 0 1"}} {
		require.ErrorIs(t, share(batch, junk, "0"), errReply)
	}
	require.NoError(t, share(batch, []any{"open 5 7", "fenced 0 7"}, "0"))
	require.Equal(t, "open", batch[0].code)
	require.EqualValues(t, 5, batch[0].retry)
	require.Equal(t, "7", batch[1].decided)
	require.NoError(t, share(batch, nil, "9"))
	require.Equal(t, admitted, batch[0].code)
	require.Equal(t, counted, batch[1].code)
}

// A plain success keeps nobody waiting, and is counted before anybody looks.
func TestPostedSuccessesAreAllCounted(t *testing.T) {
	t.Parallel()
	_, b, _ := faulty(t, Settings{})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := range 50 {
				_ = once(t, b, []Verdict{OK, Neutral}[i%2])
			}
		})
	}
	wg.Wait()
	require.Equal(t, Counts{OK: 800, Neutral: 800}, state(t, b).Total)
	require.True(t, b.Degraded().IsZero())
}

// A failure flushes what was posted before it: a success of before must not arrive late
// and have the failure forgotten.
func TestPostedSuccessComesBeforeTheNextFailure(t *testing.T) {
	t.Parallel()
	_, b, _ := faulty(t, Settings{Failures: 1000})
	for range 20 {
		p, err := b.Permit(context.Background(), charge)
		require.NoError(t, err)
		require.Nil(t, once(t, b, OK)) // not posted if failures are counted
		require.Nil(t, once(t, b, OK)) // posted, and lingers
		report(p, Fail)
		require.Equal(t, 1, state(t, b).Consecutive)
	}
}

// Posted while Redis goes away: the process takes it in by itself.
func TestPostedSuccessWithoutRedisIsTakenInAlone(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{Failures: 2, OpenFor: time.Hour})
	require.Nil(t, once(t, b, Fail))
	p, err := b.Permit(context.Background(), charge)
	require.NoError(t, err)
	b.looksOnce()
	server.Stop()
	report(p, OK)
	require.Zero(t, state(t, b).Consecutive)
	require.False(t, b.Degraded().IsZero())
	require.Nil(t, once(t, b, Fail))
	require.Equal(t, Closed, state(t, b).State)
}

// More than a trip holds are in line before the one who leads, and the first trip fails:
// nobody is forgotten and nothing hangs.
func TestALeaderBehindAFullTripThatFails(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{Failures: 2, OpenFor: time.Hour})
	require.Nil(t, once(t, b, OK))
	b.looksOnce()
	e := b.circuit(charge)
	server.Stop()
	e.line.mu.Lock()
	for range maxTrip + 10 {
		o := tell(finished{token: "t", epoch: "0", verdict: OK})
		o.posted = true
		e.line.waiting = append(e.line.waiting, o)
	}
	e.line.mu.Unlock()
	for range 3 {
		require.Nil(t, once(t, b, OK))
	}
	require.False(t, b.Degraded().IsZero())
	require.Zero(t, b.waiting(e))
}

// What is posted travels with the next permit, and costs no trip of its own.
func TestPostedSuccessTravelsWithAPermit(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{})
	require.Nil(t, once(t, b, OK))
	require.Equal(t, 1, state(t, b).Total.OK)
	e := b.circuit(charge)
	e.posted.mu.Lock()
	e.posted.due = true // no timer sends it
	e.posted.mu.Unlock()
	before := evalshas(t, &rig{client: server.Client()})
	for range 3 {
		require.Nil(t, once(t, b, OK))
	}
	p, err := b.Permit(context.Background(), charge)
	require.NoError(t, err)
	require.Equal(t, 4, evalshas(t, &rig{client: server.Client()})-before)
	e.posted.mu.Lock()
	require.Empty(t, e.posted.waiting)
	e.posted.mu.Unlock()
	require.Equal(t, 4, state(t, b).Total.OK)
	report(p, OK)
	require.Equal(t, 5, state(t, b).Total.OK)
}

// Whoever looks waits for a trip under way: it may carry what was posted.
func TestSettleWaitsForTheTripUnderWay(t *testing.T) {
	t.Parallel()
	_, b, _ := faulty(t, Settings{})
	require.Nil(t, once(t, b, OK))
	e := b.circuit(charge)
	b.line(t, e, true)
	settled := make(chan struct{})
	go func() { b.settle(e); close(settled) }()
	eventually(t, "it waits", func() bool { return b.waiting(e) == 1 })
	select {
	case <-settled:
		t.Fatal("it did not wait")
	default:
	}
	b.carryOn(e, &e.line)
	<-settled
	require.Equal(t, 1, state(t, b).Total.OK)
}
