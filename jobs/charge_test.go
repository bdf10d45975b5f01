package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

func TestAChargeSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	b.idle(kindCharge)
	require.Equal(t, 1, b.ledger(p))
	require.Equal(t, "1:succeeded", b.attempts(p.ID))
	require.NotEmpty(t, p.ProviderPaymentID)
	require.Equal(t, []breaker.Verdict{breaker.OK}, b.circuits.verdicts("atlas", classCharge))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM call_outcomes WHERE class = 'charge' AND verdict = 'ok' AND payment_id = $1`, p.ID))
	require.Equal(t, 0, b.count(`SELECT count(*) FROM river_job WHERE kind = 'reconcile'`))
}

func TestADeclineIsFailedAndHealthy(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.fakes["atlas"].on(says(402, ""))
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Failed)
	require.Equal(t, []breaker.Verdict{breaker.OK}, b.circuits.verdicts("atlas", classCharge))
	require.Equal(t, 0, b.ledger(p))
}

func TestARequestTheProviderCannotTakeFailsUnsent(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.circuits.open("atlas", classCharge, time.Hour) // refusing needs no call, so no permit
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", func(n *store.NewPayment) { n.Currency = "XTS" }).ID, store.Failed)
	b.idle(kindCharge)
	sends, _, _ := b.fakes["atlas"].counts()
	require.Zero(t, sends)
	require.Equal(t, "", b.attempts(p.ID))

	// The payment method comes from the metadata.
	gone := map[string]string{provider.MetaPaymentMethod: "pm_gone", provider.MetaCustomerID: "cus_1"}
	p = b.becomes(b.pay("atlas", func(n *store.NewPayment) { n.Metadata = gone }).ID, store.Failed)
	require.Equal(t, "", b.attempts(p.ID))
}

// The timeout says nothing about the charge: unknown until a lookup answers.
func TestATimeoutIsUnknownUntilALookupSettlesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(hangs(true))
	f.setLookup(unanswered("http_503", provider.HealthFail))
	b.start("w1", nil)
	id := b.pay("atlas", nil).ID
	p := b.becomes(id, store.Unknown)
	require.Equal(t, "1:unknown", b.attempts(id))
	require.Equal(t, breaker.Fail, b.circuits.verdicts("atlas", classCharge)[0])
	f.setLookup(nil)
	p = b.becomes(p.ID, store.Succeeded)
	b.idle(kindReconcile)
	require.Equal(t, 1, b.ledger(p))
	sends, _, _ := f.counts()
	require.Equal(t, 1, sends)
}

func TestACutConnectionIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.fakes["atlas"].on(cut)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	require.Len(t, b.fakes["atlas"].seen(), 1)
	require.True(t, p.UnknownSeen)
}

// What provably did not leave goes out again: same key, the very same bytes, although
// the adapter would render others now.
func TestC11_RetriesRepeatKeyAndBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(says(429, "1"), refuses, refuses, succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	require.Equal(t, "1:not_executed 2:not_sent 3:not_sent 4:succeeded", b.attempts(p.ID))
	seen := f.seen()
	require.Len(t, seen, 2, "the 429 and the success; refused connections carry nothing")
	require.Equal(t, seen[0].key, seen[1].key)
	require.Equal(t, seen[0].body, seen[1].body)
	require.Equal(t, 1, b.ledger(p))
	require.False(t, p.UnknownSeen)
}

// After the last listed pause the payment stays pending and is tried on; people are
// told once. A timer never fails it.
func TestC15_TriesUsedUpStayPending(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(refuses)
	b.start("w1", nil)
	id := b.pay("atlas", nil).ID
	b.eventually("eight tries", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM attempts WHERE payment_id = $1 AND outcome = 'not_sent'`, id)
		return n >= 8, fmt.Sprint(n)
	})
	require.Equal(t, store.Pending, b.payment(id).Status)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'charge_not_leaving'`))
	f.on(succeeds)
	p := b.becomes(id, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
}

func TestAThrottledChargeWaitsAsToldAndUsesNoTry(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(says(429, "1"), succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	seen := f.seen()
	require.Len(t, seen, 2)
	require.GreaterOrEqual(t, seen[1].at.Sub(seen[0].at), time.Second)
	require.Equal(t, []breaker.Verdict{breaker.Neutral, breaker.OK}, b.circuits.verdicts("atlas", classCharge))
	require.Equal(t, 0, b.count(`SELECT coalesce(max(cardinality(errors)), 0) FROM river_job WHERE kind = 'charge'`))
	require.Equal(t, 1, b.ledger(p))
}

// 401 means nobody's charge can work: the queue pauses, the payment stays pending, and
// a person's resume brings it back.
func TestA401PausesTheProvidersCharges(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"), quick("borea"))
	f := b.fakes["atlas"].on(says(401, ""), succeeds)
	b.start("w1", nil)
	first := b.pay("atlas", nil).ID
	b.eventually("paused", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM provider_state WHERE provider = 'atlas' AND charges_paused`)
		return n == 1, "not paused"
	})
	second := b.pay("atlas", nil).ID
	other := b.pay("borea", nil).ID
	b.becomes(other, store.Succeeded)
	b.eventually("both wait for a person", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM payments WHERE provider = 'atlas' AND status = 'pending' AND next_check_at IS NOT NULL`)
		return n == 2, fmt.Sprint(n)
	})
	sends, _, _ := f.counts()
	require.Equal(t, 1, sends)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'config_alarm'`))
	require.NoError(t, b.store.ResumeCharges(context.Background(), "atlas", store.Actor{Kind: "user", ID: "u1"}, "key renewed"))
	require.Equal(t, 1, b.ledger(b.becomes(first, store.Succeeded)))
	require.Equal(t, 1, b.ledger(b.becomes(second, store.Succeeded)))
}

// An open circuit makes jobs wait: no call, no attempt, no River attempt, no success.
func TestAnOpenCircuitMakesChargesWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.circuits.open("atlas", classCharge, 200*time.Millisecond)
	b.start("w1", nil)
	id := b.pay("atlas", nil).ID
	b.eventually("denied thrice", func() (bool, string) {
		n := b.circuits.denied("atlas", classCharge)
		return n >= 3, fmt.Sprint(n)
	})
	p := b.payment(id)
	require.Equal(t, store.Pending, p.Status)
	require.Equal(t, whyCircuit, p.NextCheckWhy)
	require.NotNil(t, p.NextCheckAt)
	require.Equal(t, "", b.attempts(id))
	require.LessOrEqual(t, b.count(`SELECT attempt FROM river_job WHERE kind = 'charge'`), 1)
	require.Equal(t, 0, b.count(`SELECT count(*) FROM river_job WHERE kind = 'charge' AND state = 'completed'`))
	require.LessOrEqual(t, b.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1`, id), 2, "one event per stretch of waiting")
	b.circuits.shut("atlas", classCharge)
	require.Equal(t, 1, b.ledger(b.becomes(id, store.Succeeded)))
}

// A transport that repeats a money call by itself is an incident, whatever the answer.
func TestC01_TwoWireSendsInOneAttemptAreAnIncident(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.fakes["atlas"].on(resent)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	b.eventually("incident alert", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM alerts WHERE kind = 'wire_resent' AND severity = 'critical' AND payment_id = $1`, p.ID)
		return n == 1, fmt.Sprint(n)
	})
}

// A panic in an adapter is a crash after the mark: maybe sent, so a lookup decides.
// The probe's slot goes back.
func TestAPanickingAdapterIsTreatedAsMaybeSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	var once atomic.Bool
	b.fakes["atlas"].on(func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		if once.CompareAndSwap(false, true) {
			f.book(ctx, key, body, true)
			panic("adapter bug")
		}
		return succeeds(ctx, f, key, body, want)
	})
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	require.Len(t, b.fakes["atlas"].seen(), 1)
	require.Equal(t, breaker.Neutral, b.circuits.verdicts("atlas", classCharge)[0])
}

func TestQ01_AJobThatRunsAgainCallsNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	b.idle(kindCharge)
	// The rescuer overwrites the finished job.
	b.exec(`UPDATE river_job SET state = 'available', finalized_at = NULL, attempt = 0 WHERE kind = 'charge'`)
	b.idle(kindCharge)
	require.Len(t, b.fakes["atlas"].seen(), 1)
	require.Equal(t, "1:succeeded", b.attempts(p.ID))
	require.Equal(t, 1, b.ledger(p))
}

// Two workers hold the same payment's job at once: one wire send, the other waits.
func TestQ02_TwoWorkersOneWireSend(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	entered, release := make(chan struct{}, 2), make(chan struct{})
	b.fakes["atlas"].on(holds(entered, release, succeeds))
	b.start("w1", nil)
	b.start("w2", nil)
	p := b.pay("atlas", nil)
	<-entered
	// A second delivery of the same work, past the uniqueness.
	b.exec(`INSERT INTO river_job (kind, queue, args, max_attempts, state, priority)
		SELECT kind, queue, args, max_attempts, 'available', priority FROM river_job WHERE kind = 'charge'`)
	b.eventually("the second worker met the first and snoozed", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'charge' AND (metadata ->> 'snoozes')::int > 0`)
		return n == 1, fmt.Sprint(n)
	})
	close(release)
	p = b.becomes(p.ID, store.Succeeded)
	b.idle(kindCharge)
	require.Len(t, b.fakes["atlas"].seen(), 1)
	require.Equal(t, "1:succeeded", b.attempts(p.ID))
}

func TestQ03_AJobWithoutItsPaymentEndsQuietly(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.inTx(func(ctx context.Context, tx pgx.Tx) error {
		id := uuid.Must(uuid.NewV7())
		if err := b.enqueuer.Reconcile(ctx, tx, id, "atlas", time.Time{}); err != nil {
			return err
		}
		return b.enqueuer.Charge(ctx, tx, id, "atlas", time.Time{})
	})
	b.start("w1", nil)
	b.idle(kindCharge)
	b.idle(kindReconcile)
	sends, lookups, _ := b.fakes["atlas"].counts()
	require.Zero(t, sends)
	require.Zero(t, lookups)
	require.Equal(t, 2, b.count(`SELECT count(*) FROM alerts WHERE kind = 'job_without_payment'`))
}

// The queue lost everything; the rows still know.
func TestQ04_TheSweepTrustsRows(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	p := b.pay("atlas", nil)
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE payments SET created_at = created_at - interval '10 minutes', updated_at = updated_at - interval '10 minutes',
		next_check_at = now() - interval '9 minutes' WHERE id = $1`, p.ID)
	b.start("w1", nil) // the sweep runs at start
	p = b.becomes(p.ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
}

// A provider that hangs holds its own workers only.
func TestQ05_OneHangingProviderLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	slow := quick("alpha")
	slow.AnswerTimeout = time.Minute // longer than a busy machine takes to look
	b := newBench(t, slow, quick("beta"))
	b.fakes["alpha"].on(hangs(false))
	b.start("w1", nil)
	alone := b.latency("beta", 10)
	for range 60 {
		b.pay("alpha", nil)
	}
	b.eventually("alpha's workers all hang", func() (bool, string) {
		sends, _, _ := b.fakes["alpha"].counts()
		return sends == 4, fmt.Sprint(sends)
	})
	beside := b.latency("beta", 10)
	require.Less(t, beside, alone+time.Second, "alone %s, beside a hanging provider %s", alone, beside)
	sends, _, _ := b.fakes["alpha"].counts()
	require.Equal(t, 4, sends, "the bulkhead holds")
}

// latency pays n times one after another and returns the slowest.
func (b *bench) latency(name string, n int) time.Duration {
	slowest := time.Duration(0)
	for range n {
		began := time.Now()
		b.becomes(b.pay(name, nil).ID, store.Succeeded)
		slowest = max(slowest, time.Since(began))
	}
	return slowest
}
