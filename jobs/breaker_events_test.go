package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// stream is an event source in memory; positions are indexes.
type stream struct {
	mu     sync.Mutex
	events []breaker.Event
	fail   int // the next reads fail
	more   chan struct{}
}

func newStream(events ...breaker.Event) *stream {
	return &stream{events: events, more: make(chan struct{}, 16)}
}

func (s *stream) emit(e breaker.Event) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	s.more <- struct{}{}
}

func (s *stream) Next(ctx context.Context, after string) ([]breaker.Event, string, error) {
	at, _ := strconv.Atoi(after)
	for {
		s.mu.Lock()
		if s.fail > 0 {
			s.fail--
			s.mu.Unlock()
			return nil, after, errors.New("stream lost")
		}
		if at < len(s.events) {
			events := append([]breaker.Event(nil), s.events[at:]...)
			s.mu.Unlock()
			return events, strconv.Itoa(at + len(events)), nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, after, ctx.Err()
		case <-s.more:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func transition(epoch string, from, to breaker.State) breaker.Event {
	return breaker.Event{
		Key: breaker.Key{Name: "atlas", Class: classCharge}, Epoch: epoch, From: from, To: to, Reason: "5 failures in a row",
		At: time.Now(), Evidence: breaker.Evidence{Failures: 5, Workers: []string{"w1"}, Samples: []string{"p1"}, ErrorClass: map[string]int{"dial": 5}},
	}
}

func (b *bench) stored(n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d transitions stored", n), func() (bool, string) {
		got := b.count(`SELECT count(*) FROM breaker_events`)
		return got == n, fmt.Sprint(got)
	})
}

// Every process reads every event, some twice: one row and one alert per transition.
func TestEveryTransitionAlertsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	hook, hookURL := newSink(t, 0)
	opened := transition("1", breaker.Closed, breaker.Open)
	s := newStream(opened, opened)
	withEvents := func(c *Config) {
		c.Events, c.Sinks = s, []AlertSink{{"ops", sinkGeneric, hookURL}}
	}
	b.start("w1", withEvents)
	b.start("w2", withEvents)
	b.stored(1)
	s.emit(transition("2", breaker.Open, breaker.HalfOpen))
	s.emit(transition("3", breaker.HalfOpen, breaker.Closed))
	b.stored(3)
	b.delivered()
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened'`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_closed'`))
	require.Len(t, hook.taken(), b.count(`SELECT count(*) FROM alerts`))
	require.Equal(t, "5", b.text(`SELECT evidence ->> 'failures' FROM breaker_events WHERE epoch = '1'`))
	require.Equal(t, "w1", b.text(`SELECT evidence -> 'workers' ->> 0 FROM breaker_events WHERE epoch = '1'`))
}

// A source that fails is read on from the same position.
func TestALostStreamIsReadOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	s := newStream(transition("1", breaker.Closed, breaker.Open))
	s.fail = 1
	b.start("w1", func(c *Config) { c.Events = s })
	b.stored(1)
}

// A failover can lose an event and keep the state: the sweep compares.
func TestTheSweepFindsATransitionWhoseEventWasLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	k := breaker.Key{Name: "atlas", Class: classCharge}
	b.circuits.snaps[k] = breaker.Snapshot{Key: k, State: breaker.Open, Epoch: "9", Since: time.Now().Add(-time.Minute), Consecutive: 7, OpenReason: "7 failures in a row"}
	r := b.start("w1", nil)
	b.stored(1)
	require.NoError(t, r.compareCircuits(context.Background()))
	b.stored(1)
	require.Equal(t, "9", b.text(`SELECT epoch FROM breaker_events`))
	require.Equal(t, "open", b.text(`SELECT to_state FROM breaker_events`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened'`))
}

// What is on its way, unknown or only one process's view is not stored.
func TestTheComparisonLeavesAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	r, err := New(b.config("w1", nil))
	require.NoError(t, err)
	k := breaker.Key{Name: "atlas", Class: classStatus}
	old := time.Now().Add(-time.Minute)
	for name, s := range map[string]breaker.Snapshot{
		"fresh":         {Key: k, State: breaker.Open, Epoch: "1", Since: time.Now()},
		"degraded":      {Key: k, State: breaker.Open, Epoch: "1", Since: old, Degraded: true},
		"never moved":   {Key: k, State: breaker.Closed},
		"closed unseen": {Key: k, State: breaker.Closed, Epoch: "1", Since: old},
	} {
		b.circuits.snaps[k] = s
		require.NoError(t, r.compareCircuits(context.Background()), name)
		require.Equal(t, 0, b.count(`SELECT count(*) FROM breaker_events`), name)
	}
}

// A worker that alone sees failures is an alert about the worker, no transition.
func TestABadWorkerIsNoTransition(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	bad := transition("1/w9", breaker.Closed, breaker.Closed)
	bad.Kind, bad.Note = breaker.KindBadWorker, "w9"
	s := newStream(bad, bad, transition("2", breaker.Closed, breaker.Open))
	b.start("w1", func(c *Config) { c.Events = s })
	b.stored(1)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'bad_worker' AND title LIKE '%w9%'`))
	require.Equal(t, 0, b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_closed'`))
}

// The circuit of tokens is compared where a provider has one, and when it closes the
// charges that had none come back.
func TestTheCircuitOfTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"), quick("birch"))
	b.fakes["atlas"].caps.TokenCircuit = true
	since := time.Now().Add(-time.Minute)
	for _, name := range []string{"atlas", "birch"} {
		k := breaker.Key{Name: name, Class: provider.ClassToken}
		b.circuits.snaps[k] = breaker.Snapshot{Key: k, State: breaker.Open, Epoch: "7", Since: since, Consecutive: 5, OpenReason: "5 failures in a row"}
	}
	s := newStream()
	r := b.start("w1", func(c *Config) { c.Events = s })
	require.NoError(t, r.compareCircuits(context.Background()))
	b.stored(1)
	require.Equal(t, "atlas token open", b.text(`SELECT provider || ' ' || class || ' ' || to_state FROM breaker_events`))

	b.circuits.open("atlas", classCharge, time.Hour) // so that what is woken can be seen
	due := time.Now().Add(time.Hour)
	p := b.db.SeedPayment(t, func(p *store.Payment) {
		p.Status, p.StatusReason, p.NextCheckAt, p.NextCheckWhy = store.Pending, provider.ReasonNoToken, &due, "throttled"
	})
	closed := transition("8", breaker.Open, breaker.Closed)
	closed.Key.Class = provider.ClassToken
	s.emit(closed)
	b.eventually("its charge came back, and met the other circuit", func() (bool, string) {
		now := b.payment(p.ID)
		return now.NextCheckWhy == whyCircuit, now.NextCheckWhy
	})
}
