package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/provider"
	"fusebox/store"
)

// busy counts calls in flight at a provider.
type busy struct{ now, most atomic.Int64 }

func (b *busy) then(next answer) answer {
	return func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		n := b.now.Add(1)
		defer b.now.Add(-1)
		for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
		}
		return next(ctx, f, key, body, want)
	}
}

// The limit of calls in flight holds over all processes. What it keeps out waits
// briefly, stays pending and uses up no attempt, River's included.
func TestTheGlobalBulkheadHoldsOverProcesses(t *testing.T) {
	t.Parallel()
	const limit, payments = 3, 30
	redis := breakertest.Shared(t)
	set := breaker.Settings{Failures: 100, MaxInFlight: limit, ProbeTTL: time.Minute}
	s := quick("atlas")
	s.AnswerTimeout, s.ChargeWorkers = 30*time.Second, 8
	b := newBench(t, s)
	entered, release := make(chan struct{}, payments), make(chan struct{})
	var in busy
	f := b.fakes["atlas"].on(in.then(holds(entered, release, succeeds)))
	for range payments {
		b.pay("atlas", nil)
	}
	for i := range 2 {
		name := fmt.Sprintf("w%d", i+1)
		r := redisBreaker(t, redis, name, set)
		b.start(name, func(c *Config) { c.Breaker, c.Circuits = r, func(breaker.Key) breaker.Settings { return set } })
	}
	for range limit {
		<-entered
	}
	b.eventually("the others wait for a slot", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE status = 'pending' AND next_check_why = $1`, whySaturated)
		return n == payments-limit, fmt.Sprint(n)
	})
	require.Equal(t, limit, b.count(`SELECT count(*) FROM attempts`))
	require.LessOrEqual(t, b.count(`SELECT max(attempt) FROM river_job WHERE kind = 'charge'`), 1)
	require.Less(t, b.count(`SELECT ceil(max(extract(epoch FROM next_check_at - now())))::int FROM payments WHERE next_check_why = $1`, whySaturated), 4, "briefly")

	close(release)
	b.eventually("all charged", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE status = 'succeeded'`)
		return n == payments, fmt.Sprint(n)
	})
	require.Len(t, f.seen(), payments)
	require.Equal(t, payments, b.count(`SELECT count(*) FROM attempts`))
	require.LessOrEqual(t, in.most.Load(), int64(limit))
	require.LessOrEqual(t, b.count(`SELECT max(attempt) FROM river_job WHERE kind = 'charge'`), 1)
}

// Calls that end within moments make nobody go back to the queue: the next one has the
// slot as soon as it is free, in whichever process.
func TestShortCallsPassTheGlobalBulkheadInTurn(t *testing.T) {
	t.Parallel()
	const limit, payments = 2, 60
	redis := breakertest.Shared(t)
	set := breaker.Settings{Failures: 100, MaxInFlight: limit, ProbeTTL: time.Minute}
	s := quick("atlas")
	s.ChargeWorkers = 16
	b := newBench(t, s)
	var in busy
	f := b.fakes["atlas"].on(in.then(succeeds))
	for range payments {
		b.pay("atlas", nil)
	}
	for i := range 2 {
		r := redisBreaker(t, redis, fmt.Sprintf("w%d", i+1), set)
		b.start(fmt.Sprintf("w%d", i+1), func(c *Config) { c.Breaker, c.Circuits = r, func(breaker.Key) breaker.Settings { return set } })
	}
	b.eventually("all charged", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE status = 'succeeded'`)
		return n == payments, fmt.Sprint(n)
	})
	require.Len(t, f.seen(), payments)
	require.LessOrEqual(t, in.most.Load(), int64(limit))
	// A busy machine may keep one of them waiting for longer than it has patience.
	require.Less(t, b.count(`SELECT count(*) FROM payment_events WHERE kind = 'snoozed'`), payments/4)
}

// Slots that a process took and never gave back, since it is dead, free themselves at
// the end of their leases.
func TestADeadProcessGivesItsSlotsBack(t *testing.T) {
	t.Parallel()
	redis := breakertest.Shared(t)
	set := breaker.Settings{Failures: 100, MaxInFlight: 2, ProbeTTL: time.Minute, LeaseTTL: 4 * time.Second}
	b := newBench(t, quick("atlas"))
	dead := redisBreaker(t, redis, "dead", set)
	for range 2 {
		_, err := dead.Permit(context.Background(), breaker.Key{Name: "atlas", Class: classCharge})
		require.NoError(t, err)
	}
	took := time.Now()
	p := b.pay("atlas", nil)
	r := redisBreaker(t, redis, "w1", set)
	b.start("w1", func(c *Config) { c.Breaker = r })
	p = b.becomes(p.ID, store.Succeeded)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = 'snoozed' AND evidence ->> 'why' = $2`, p.ID, whySaturated))
	require.Greater(t, time.Since(took), 3900*time.Millisecond, "not before the leases ended")
	require.Equal(t, "1:succeeded", b.attempts(p.ID))
}

// Lookups have a bulkhead of their own: full, it delays them and nothing else.
func TestTheBulkheadOfLookupsIsTheirOwn(t *testing.T) {
	t.Parallel()
	redis := breakertest.Shared(t)
	set := func(k breaker.Key) breaker.Settings {
		s := breaker.Settings{Failures: 100, ProbeTTL: time.Minute}
		if k.Class == classStatus {
			s.MaxInFlight, s.LeaseTTL = 1, time.Minute
		}
		return s
	}
	b := newBench(t, quick("atlas"))
	b.fakes["atlas"].on(cut, succeeds)
	r := breaker.NewRedis(redis.Client(), breaker.Options{Worker: "w1", Log: quiet(), Timeout: 10 * time.Second, Settings: set})
	held, err := r.Permit(context.Background(), breaker.Key{Name: "atlas", Class: classStatus})
	require.NoError(t, err)
	b.start("w1", func(c *Config) { c.Breaker, c.Circuits = r, set })
	lost := b.pay("atlas", nil)
	b.eventually("its lookup waits for a slot", func() (bool, string) {
		p := b.payment(lost.ID)
		return p.Status == store.Unknown && p.NextCheckWhy == whySaturated, p.NextCheckWhy
	})
	b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	held.Report(context.Background(), breaker.OK, 0, "", "")
	require.Equal(t, 1, b.ledger(b.becomes(lost.ID, store.Succeeded)))
}
