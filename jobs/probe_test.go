package jobs

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/provider"
	"fusebox/store"
)

// While the provider is plainly not there, no payment is put at risk to find out: the
// read takes the probe's place, and the payment waits untouched.
func TestAFailedReadSparesTheCharge(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].pingable(pinged(http.StatusServiceUnavailable))
	b.circuits.halfOpen("atlas", classCharge, true)
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.eventually("it waits", func() (bool, string) {
		now := b.payment(p.ID)
		return now.NextCheckWhy == whyCircuit, now.NextCheckWhy
	})
	require.Equal(t, store.Pending, b.payment(p.ID).Status)
	require.Equal(t, "", b.attempts(p.ID), "no attempt is made")
	require.Empty(t, f.seen())
	require.Contains(t, b.circuits.about(p.ID.String(), classCharge), breaker.Fail)
	require.NotContains(t, b.circuits.about(p.ID.String(), classCharge), breaker.OK)
	require.Equal(t, "probe_read http_503 503", b.text(`
		SELECT kind || ' ' || reason || ' ' || (evidence ->> 'http_status') FROM payment_events
		WHERE payment_id = $1 AND kind = 'probe_read' ORDER BY id LIMIT 1`, p.ID))
	require.Equal(t, "ping fail read http_503", b.text(`
		SELECT class || ' ' || verdict || ' ' || outcome || ' ' || error_class FROM call_outcomes WHERE payment_id = $1 LIMIT 1`, p.ID))
	require.Zero(t, b.count(`SELECT count(*) FROM call_outcomes WHERE class = 'charge'`), "it is not counted among charges")

	f.pingable(pinged(http.StatusOK))
	p = b.becomes(p.ID, store.Succeeded)
	require.Equal(t, "1:succeeded", b.attempts(p.ID))
	require.Equal(t, 1, b.ledger(p))
}

// A read that is answered, or that says nothing, lets the charge probe: what hits
// charges only is found out by a charge.
func TestACharge_NotTheReadClosesTheCircuit(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"answered": http.StatusOK, "no such path": http.StatusNotFound, "forbidden": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick("atlas"))
			f := b.fakes["atlas"].on(cut).pingable(pinged(status))
			b.circuits.halfOpen("atlas", classCharge, true)
			b.start("w1", nil)
			p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded) // by a lookup
			require.Equal(t, []breaker.Verdict{breaker.Fail}, b.circuits.about(p.ID.String(), classCharge), "the charge is the probe")
			require.Equal(t, 1, f.reads())
			require.Len(t, f.seen(), 1)
		})
	}
}

// Only probes are preceded by a read, and only where one is declared.
func TestNoReadWithoutNeed(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"), quick("birch"))
	b.fakes["atlas"].pingable(pinged(http.StatusOK))
	b.circuits.halfOpen("birch", classCharge, true) // declares none
	b.start("w1", nil)
	b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	b.becomes(b.pay("birch", nil).ID, store.Succeeded)
	require.Zero(t, b.fakes["atlas"].reads())
	require.Zero(t, b.fakes["birch"].reads())
	require.Zero(t, b.count(`SELECT count(*) FROM payment_events WHERE kind = 'probe_read'`))
}

// The read holds no transaction and no row while it waits, and ends with the process;
// a probe given up that way says nothing about the provider.
func TestAReadUnderWayHoldsNothingAndEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AnswerTimeout = 30 * time.Second
	b := newBench(t, s)
	entered := make(chan struct{}, 1)
	b.fakes["atlas"].pingable(func(ctx context.Context) provider.Pinged {
		entered <- struct{}{}
		<-ctx.Done()
		return provider.ClassifyPing(ended(ctx, written(0)), false)
	})
	b.circuits.halfOpen("atlas", classCharge, true)
	r := b.start("w1", nil)
	p := b.pay("atlas", nil)
	<-entered
	require.Zero(t, b.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`))
	require.NoError(t, b.store.NoteWaiting(context.Background(), p.ID, time.Now(), "retry", ""), "the payment is not locked")
	began := time.Now()
	b.stopNow(r, 50*time.Millisecond)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, []breaker.Verdict{breaker.Neutral}, b.circuits.verdicts("atlas", classCharge))
	require.Equal(t, "", b.attempts(p.ID))
}

func TestTheReadIsInTheBudget(t *testing.T) {
	t.Parallel()
	with, without := newFake("with").pingable(pinged(http.StatusOK)), newFake("without")
	budgets, err := CheckBudgets([]provider.Settings{{Name: "with"}, {Name: "without"}}, provider.NewRegistry(with, without))
	require.NoError(t, err)
	require.Equal(t, 2*budgets[1].RequestsPerCharge, budgets[0].RequestsPerCharge, "one before each try")
	for _, s := range []provider.Settings{quick("a"), {Name: "b"}, {Name: "c", AnswerTimeout: time.Minute}} {
		s = s.WithDefaults()
		require.Greater(t, PermitHeld(s, classCharge), pingDeadline(s)+attemptDeadline(s))
		require.Greater(t, PermitHeld(s, classStatus), lookupDeadline(s))
		require.Greater(t, jobTimeout(s), pingDeadline(s)+attemptOwned(s))
	}
}

// With the real circuit: reads that fail keep it open with growing pauses and no charge
// leaves; the first charge after a read that is answered closes it.
func TestReadsProbeASharedCircuit(t *testing.T) {
	t.Parallel()
	redis := breakertest.Shared(t)
	set := breaker.Settings{Failures: 5, OpenFor: 200 * time.Millisecond, ProbeTTL: time.Minute}
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].pingable(pinged(http.StatusBadGateway))
	trip(t, redisBreaker(t, redis, "w1", set), redisBreaker(t, redis, "w2", set))
	for range 5 {
		b.pay("atlas", nil)
	}
	for _, w := range []string{"w1", "w2"} {
		r := redisBreaker(t, redis, w, set)
		b.start(w, func(c *Config) { c.Breaker, c.Events = r, r })
	}
	b.eventually("three reads", func() (bool, string) { return f.reads() >= 3, "fewer" })
	require.Empty(t, f.seen())
	require.Zero(t, b.count(`SELECT count(*) FROM attempts`))
	f.pingable(pinged(http.StatusOK))
	b.eventually("all charged", func() (bool, string) {
		return b.count(`SELECT count(*) FROM payments WHERE status = 'succeeded'`) == 5, "not yet"
	})
	require.Len(t, f.seen(), 5)
}
