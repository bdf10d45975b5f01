package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
)

// What a denied job waits for is said by its name: a full bulkhead and a ramp are not
// an open circuit.
func TestEachDenialIsSaidAsWhatItIs(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		breaker.DeniedOpen: whyCircuit, breaker.DeniedForcedOpen: whyCircuit, breaker.DeniedProbing: whyCircuit,
		breaker.DeniedSaturated: whySaturated, breaker.DeniedRamp: whyRamp,
	} {
		require.Equal(t, want, whyDenied(&breaker.Denied{Reason: reason}))
	}
}

// A backlog is what comes back with the circuit: lookups planned for hours later are
// none. From a backlog jobs return at the ramp's pace; a full bulkhead keeps few away
// for long.
func TestJobsComeBackByBacklogAndReason(t *testing.T) {
	t.Parallel()
	const jobs = 200
	b := newBench(t, quick("atlas"))
	ramp := breaker.Settings{RampFor: 10 * time.Second, RampStart: 1, RampFull: 3} // 20 calls in 10 s
	r, err := New(b.config("w1", func(c *Config) { c.Circuits = func(breaker.Key) breaker.Settings { return ramp } }))
	require.NoError(t, err)
	l := r.lanes["atlas"]
	for range jobs {
		b.pay("atlas", nil)
	}
	b.inTx(func(ctx context.Context, tx pgxTx) error {
		for i := range 20 {
			at := time.Now().Add(5 * time.Hour)
			if i < 3 {
				at = time.Now().Add(time.Minute)
			}
			p := b.pay("atlas", func(n *store.NewPayment) { n.AllowConcurrent = true })
			if err := b.enqueuer.Reconcile(ctx, tx, p.ID, "atlas", at); err != nil {
				return err
			}
		}
		return nil
	})
	ctx := context.Background()
	require.Equal(t, jobs+20, r.backlogOf(ctx, l, classCharge, dueSoon))
	require.Equal(t, 3, r.backlogOf(ctx, l, classStatus, dueSoon))

	longest := func(class, reason string, after time.Duration) (least, most time.Duration) {
		least = time.Hour
		for range 500 {
			d := r.backFrom(ctx, l, &breaker.Denied{Key: breaker.Key{Name: "atlas", Class: class}, Reason: reason, RetryAfter: after})
			least, most = min(least, d), max(most, d)
		}
		return least, most
	}
	// 220 charges: 20 within the ramp, 3 a second beyond it.
	least, most := longest(classCharge, breaker.DeniedOpen, time.Minute)
	require.GreaterOrEqual(t, least, time.Minute)
	require.InDelta(t, (time.Minute + 10*time.Second + 200*time.Second/3).Seconds(), most.Seconds(), 3)
	_, most = longest(classStatus, breaker.DeniedOpen, time.Minute)
	require.Less(t, most, 64*time.Second, "a backlog of lookups is their own")
	_, most = longest(classCharge, breaker.DeniedSaturated, time.Second)
	require.InDelta(t, 1+jobs/returnRate, most.Seconds(), 0.5)
	_, most = longest(classCharge, breaker.DeniedRamp, 0)
	require.InDelta(t, 10+200.0/3, most.Seconds(), 3)
}
