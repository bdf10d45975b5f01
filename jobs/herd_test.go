package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/store"
)

// redisBreaker returns one worker's breaker on a shared Redis.
func redisBreaker(t *testing.T, s *breakertest.Server, worker string, set breaker.Settings) *breaker.Redis {
	t.Helper()
	// A patient client: on a busy machine the usual 50 ms would make circuits local,
	// which is another test's matter.
	return breaker.NewRedis(s.Client(), breaker.Options{
		Worker: worker, Names: []string{"atlas"}, Log: quiet(), Poll: 20 * time.Millisecond, Timeout: 10 * time.Second,
		Settings: func(breaker.Key) breaker.Settings { return set },
	})
}

// The open time ends while every worker has jobs waiting, and the provider accepts and
// never answers: exactly one call goes out; all other payments stay pending untouched,
// with no River attempt used. When the provider is well again, all are charged once.
func TestB03_HalfOpenHerd(t *testing.T) {
	t.Parallel()
	const payments, workers = 50, 5
	redis := breakertest.Shared(t)
	set := breaker.Settings{Failures: 5, OpenFor: 400 * time.Millisecond, ProbeTTL: time.Minute}
	s := quick("atlas")
	s.AnswerTimeout, s.ChargeWorkers = 30*time.Second, 10
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b := newBench(t, s)
	f := b.fakes["atlas"].on(holds(entered, release, cut), succeeds)
	f.setLookup(unanswered("http_503", "neutral"))
	trip(t, redisBreaker(t, redis, "w1", set), redisBreaker(t, redis, "w2", set))

	for range payments {
		b.pay("atlas", nil)
	}
	for i := range workers {
		r := redisBreaker(t, redis, fmt.Sprintf("w%d", i+1), set)
		b.start(fmt.Sprintf("w%d", i+1), func(c *Config) { c.Breaker, c.Events = r, r })
	}
	<-entered // the probe is out, and hangs
	// Everybody else has been told to wait while the probe hangs.
	b.eventually("the others wait", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE status = 'pending' AND next_check_why = $1`, whyCircuit)
		return n == payments-1, fmt.Sprint(n)
	})
	require.Equal(t, 1, b.count(`SELECT count(*) FROM attempts`))
	require.LessOrEqual(t, b.count(`SELECT max(attempt) FROM river_job WHERE kind = 'charge'`), 1)
	require.Equal(t, 0, b.count(`SELECT count(*) FROM river_job WHERE kind = 'charge' AND state = 'completed'`))

	close(release)
	f.setLookup(nil)
	b.eventually("all charged", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE status = 'succeeded'`)
		return n == payments, fmt.Sprint(n)
	})
	require.Len(t, f.seen(), payments, "one send each")
	require.Equal(t, 1, b.count(`SELECT count(*) FROM payments WHERE unknown_seen`))
	b.eventually("the closing is told", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_closed'`)
		return n == 1, fmt.Sprint(n)
	})
	require.Equal(t, 0, b.count(`SELECT count(*) - count(DISTINCT epoch) FROM breaker_events`))
}

// trip opens the charge circuit with failures of two workers, as an outage does.
func trip(t *testing.T, rs ...*breaker.Redis) {
	t.Helper()
	k := breaker.Key{Name: "atlas", Class: classCharge}
	for i := range 12 {
		p, err := rs[i%len(rs)].Permit(context.Background(), k)
		if err != nil {
			require.NotNil(t, denied(err))
			return
		}
		p.Report(context.Background(), breaker.Fail, time.Millisecond, "dial", "")
	}
	t.Fatal("the circuit did not open")
}

// With the provider down, failures of the jobs themselves open the circuit, and calls
// stop: threshold + workers − 1 at most.
func TestAnOutageStopsTheCalls(t *testing.T) {
	t.Parallel()
	redis := breakertest.Shared(t)
	set := breaker.Settings{Failures: 5, OpenFor: time.Hour, Quorum: 1}
	s := quick("atlas")
	s.ChargeWorkers = 4
	b := newBench(t, s)
	b.fakes["atlas"].on(cut)
	b.fakes["atlas"].setLookup(unanswered("http_503", "neutral"))
	for range 60 {
		b.pay("atlas", nil)
	}
	for _, w := range []string{"w1", "w2"} {
		r := redisBreaker(t, redis, w, set)
		b.start(w, func(c *Config) { c.Breaker, c.Events = r, r })
	}
	b.eventually("all others wait", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE status = 'pending' AND next_check_why = $1`, whyCircuit)
		unknown := b.count(`SELECT count(*) FROM payments WHERE status = 'unknown'`)
		return n+unknown == 60, fmt.Sprint(n, unknown)
	})
	require.LessOrEqual(t, len(b.fakes["atlas"].seen()), 5+8-1)
	b.stored(1)
	b.eventually("one alert", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened'`)
		return n == 1, fmt.Sprint(n)
	})
	// Which ones went out first is the scheduler's choice.
	require.Equal(t, len(b.fakes["atlas"].seen()), b.count(`SELECT count(*) FROM payments WHERE status = 'unknown'`))
}

// Redis is gone: correctness lives in Postgres, so charging goes on.
func TestB06_ChargingGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := breakertest.Start(t)
	client, err := breaker.NewClient(redis.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	r := breaker.NewRedis(client, breaker.Options{Worker: "w1", Names: []string{"atlas"}, Log: quiet()})
	b := newBench(t, quick("atlas"))
	b.start("w1", func(c *Config) { c.Breaker, c.Events = r, r })
	b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	redis.Stop()
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	require.False(t, r.Degraded().IsZero())
}
