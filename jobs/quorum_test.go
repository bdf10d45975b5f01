package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
)

// With three processes watching one shared circuit: a worker that alone sees failures
// is named in one alert and opens nothing; each transition, by failures or by hand, is
// one event and one alert; and what waited is woken by whoever stored the closing.
func TestThreeWatchersTellEachThingOnce(t *testing.T) {
	t.Parallel()
	ctx, redis := context.Background(), breakertest.Shared(t)
	k := breaker.Key{Name: "atlas", Class: classCharge}
	set := breaker.Settings{Failures: 5, OpenFor: time.Hour, Quorum: 2}
	b := newBench(t, quick("atlas"))
	var rs []*breaker.Redis
	for i := range 3 {
		name := fmt.Sprintf("w%d", i+1)
		r := redisBreaker(t, redis, name, set)
		rs = append(rs, r)
		b.start(name, func(c *Config) { c.Breaker, c.Events = r, r })
	}
	call := func(r *breaker.Redis, v breaker.Verdict) {
		p, err := r.Permit(ctx, k)
		require.NoError(t, err)
		p.Report(ctx, v, time.Millisecond, "dial", "")
	}
	alerts := func(kind string, n int) {
		b.eventually(fmt.Sprintf("%d %s alerts", n, kind), func() (bool, string) {
			got := b.count(`SELECT count(*) FROM alerts WHERE kind = $1`, kind)
			return got == n, fmt.Sprint(got)
		})
	}
	for _, r := range rs {
		call(r, breaker.OK) // all three are active
		_, err := r.Snapshot(ctx, k)
		require.NoError(t, err, "a look waits until a success that was only posted has arrived")
	}
	for range 12 {
		call(rs[0], breaker.Fail)
	}
	alerts("bad_worker", 1)
	require.Contains(t, b.text(`SELECT title FROM alerts WHERE kind = 'bad_worker'`), "w1")
	require.Zero(t, b.count(`SELECT count(*) FROM breaker_events`), "one worker alone opens nothing")

	call(rs[1], breaker.Fail)
	b.stored(1)
	alerts("circuit_opened", 1)
	require.Equal(t, "w1,w2", b.text(`SELECT array_to_string(array(SELECT jsonb_array_elements_text(evidence -> 'workers')), ',') FROM breaker_events`))

	p := b.pay("atlas", nil)
	b.eventually("its job waits", func() (bool, string) {
		state := b.text(`SELECT state::text FROM river_job WHERE kind = 'charge' AND args ->> 'payment_id' = $1::text`, p.ID.String())
		return state == "scheduled", state
	})
	snap, err := rs[2].Snapshot(ctx, k)
	require.NoError(t, err)
	_, err = rs[2].Reset(ctx, k, snap.Epoch, "user:olena", "the provider is back")
	require.NoError(t, err)
	b.becomes(p.ID, "succeeded") // an hour early: the closing woke it
	b.stored(2)
	alerts("circuit_closed", 1)

	snap, err = rs[0].Snapshot(ctx, k)
	require.NoError(t, err)
	_, err = rs[0].Override(ctx, k, snap.Epoch, breaker.Override{Mode: breaker.ForcedOpen, For: 300 * time.Millisecond, Actor: "user:olena", Reason: "maintenance"})
	require.NoError(t, err)
	b.stored(3)
	alerts("circuit_opened", 2)
	require.Equal(t, "user:olena", b.text(`SELECT evidence ->> 'actor' FROM breaker_events WHERE to_state = 'open' ORDER BY id DESC LIMIT 1`))
	// The override ends by itself: the next charge is the probe, and closes the circuit.
	b.becomes(b.pay("atlas", nil).ID, "succeeded")
	b.stored(5)
	alerts("circuit_closed", 2)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'bad_worker'`))
	require.Zero(t, b.count(`SELECT count(*) - count(DISTINCT epoch) FROM breaker_events`))
	require.Zero(t, b.count(`SELECT count(*) - count(DISTINCT dedupe_key) FROM alerts`))
}
