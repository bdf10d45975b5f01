package breaker

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

// next reads events with a deadline of its own.
func next(t *testing.T, b *Redis, after string) ([]Event, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	events, pos, err := b.Next(ctx, after)
	require.NoError(t, err)
	return events, pos
}

func TestNextDeliversEachEventOnceInOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "miniredis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kind, rigOptions{})
			b := r.workers[0].(*Redis)
			r.trip(5)
			first, pos := next(t, b, "")
			require.Len(t, first, 1)
			r.advance(30 * time.Second)
			_ = r.call(0, OK)
			second, pos := next(t, b, pos)
			require.Len(t, second, 2)
			require.Equal(t, []State{HalfOpen, Closed}, []State{second[0].To, second[1].To})
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			events, same, err := b.Next(ctx, pos)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, events)
			require.Equal(t, pos, same, "nothing new: the position stays")
		})
	}
}

func TestNextWaitsForAnEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{})
	got := make(chan []Event)
	go func() {
		events, _, _ := r.workers[0].(*Redis).Next(context.Background(), "")
		got <- events
	}()
	r.trip(5)
	require.Len(t, <-got, 1)
}

func TestNextReadsAllNamesAndClasses(t *testing.T) {
	t.Parallel()
	c := breakertest.Shared(t).Client()
	ctx := context.Background()
	b := NewRedis(c, Options{Timeout: patience, Settings: func(Key) Settings { return Settings{Failures: 1} }})
	other := NewRedis(c, Options{Timeout: patience, Names: []string{"atlas", "beta=&;"}, Poll: time.Millisecond})
	keys := []Key{{"atlas", "charge"}, {"atlas", "status"}, {"beta=&;", "charge"}}
	for _, k := range keys {
		p, err := b.Permit(ctx, k)
		require.NoError(t, err)
		report(p, Fail)
	}
	seen, pos := map[Key]int{}, ""
	for len(seen) < len(keys) {
		var events []Event
		events, pos = next(t, other, pos)
		for _, e := range events {
			seen[e.Key]++
		}
	}
	for _, k := range keys {
		require.Equal(t, 1, seen[k])
	}
	require.Empty(t, other.poll(ctx, mustQuery(t, pos), true))
}

func mustQuery(t *testing.T, s string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(s)
	require.NoError(t, err)
	return v
}

func TestNextSurvivesAStreamThatBeganAgainBehindIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{})
	b := r.workers[0].(*Redis)
	pos := url.Values{"atlas": {"99999999999999-0"}}.Encode() // of a server with a faster clock
	r.trip(5)
	events, _ := next(t, b, pos)
	require.Len(t, events, 1)
	events, _ = next(t, b, "%zz not a position")
	require.Len(t, events, 1)
}

func TestNextWaitsOutAMissingRedis(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{Failures: 1, OpenFor: time.Hour})
	require.Nil(t, once(t, b, OK))
	server.Stop()
	got := make(chan []Event)
	go func() {
		_, pos, _ := b.Next(context.Background(), "") // the local opening
		events, _, _ := b.Next(context.Background(), pos)
		got <- events
	}()
	require.Nil(t, once(t, b, Fail))
	server.Restart()
	eventually(t, "restored", func() bool { _ = once(t, b, OK); return b.Degraded().IsZero() })
	events := <-got
	require.Equal(t, "restored", events[0].Note)
	require.False(t, events[0].Local)
}

func TestStreamIsCapped(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{settings: Settings{Failures: 1}})
	ctx := context.Background()
	for range 1500 {
		s := r.snap()
		_, err := r.workers[0].Reset(ctx, charge, s.Epoch, "ana", "again")
		require.NoError(t, err)
	}
	n, err := r.client.XLen(ctx, "fusebox:cb:{atlas}:events").Result()
	require.NoError(t, err)
	require.Less(t, n, int64(1200))
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	run := []string{"1|w1|timeout|pay_1", "2|w2|dial|", "3|w1|timeout|pay_3"}
	for want, o := range map[string]occurrence{
		"3 failures in a row: timeout × 2, dial × 1 from 2 workers":              {reason: ReasonConsecutive, run: run},
		"3 failures within the window: timeout × 2, dial × 1 from 2 workers":     {reason: ReasonWindow, run: run},
		"the share of failed calls reached the limit: timeout × 1 from 1 worker": {reason: ReasonRate, run: run[:1]},
		"the share of slow calls reached the limit, seen by 1 worker":            {reason: ReasonSlow, run: run[:1]},
		"the probe failed: timeout × 1":                                          {reason: ReasonProbeFailed, run: run[:1]},
		"the override metrics_only expired":                                      {reason: ReasonOverrideExpired, note: "metrics_only"},
		"forced open by ana: their maintenance":                                  {reason: ReasonForcedOpen, actor: "ana", note: "their maintenance"},
		"the probe failed: no error recorded":                                    {reason: ReasonProbeFailed},
		"only worker w1 sees failures (timeout × 1); the circuit stays closed":   {reason: ReasonBadWorker, note: "w1", run: run[:1]},
	} {
		require.Equal(t, want, o.event(charge).Evidence.Description)
	}
}

func TestHostileTextStaysOneField(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{Failures: 1}}, func(t *testing.T, r *rig) {
		p, _ := r.permit(0)
		p.Report(context.Background(), Fail, 0, "a|b\nc", "pay|\x00\n1")
		require.Equal(t, "a_b_c", r.snap().LastError)
		require.Equal(t, []string{"pay___1"}, r.events()[0].Evidence.Samples)
		require.Equal(t, map[string]int{"a_b_c": 1}, r.events()[0].Evidence.ErrorClass)
	})
}
