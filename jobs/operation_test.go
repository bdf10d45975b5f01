package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

func TestARefundSucceeds(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	op := b.refund(p, 1900)
	require.Equal(t, "charge_atlas", b.text(`SELECT queue FROM river_job WHERE kind = 'operation'`), "the bulkhead of the provider's money calls")
	b.start("w1", nil)
	op = b.refunded(op.ID, store.Succeeded)
	b.idle(kindOperation)
	require.Equal(t, 1, r.made(op))
	require.Equal(t, "1:succeeded", b.refundAttempts(op))
	require.Equal(t, []breaker.Verdict{breaker.OK}, b.circuits.verdicts("atlas", classCharge))
	require.Equal(t, 2, b.count(`SELECT count(*) FROM call_outcomes WHERE class = 'charge' AND verdict = 'ok' AND payment_id = $1`, p.ID))
	require.Zero(t, b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation_lookup'`))
	require.Equal(t, p.Version, b.payment(p.ID).Version)
	require.Equal(t, "1:succeeded", b.text(`SELECT string_agg(seq || ':' || outcome, ' ') FROM attempts WHERE operation = 'charge'`))
	require.Len(t, r.fake.seen(), 1, "no second charge")
}

func TestARefundTheProviderCannotMakeFailsUnsent(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	b.circuits.open("atlas", classCharge, time.Hour)
	b.start("w1", nil)
	op := b.refunded(b.refund(p, 13).ID, store.Failed)
	require.Equal(t, "refused_before_send", op.StatusReason)
	require.Equal(t, "amount: not divisible", op.ProviderMessage)
	require.Empty(t, r.refunds.seen())

	// An adapter that does no refunds at all.
	c := newBench(t, quick("atlas"))
	c.start("w1", nil)
	p = c.becomes(c.pay("atlas", nil).ID, store.Succeeded)
	op = c.refunded(c.refund(p, 100).ID, store.Failed)
	require.Equal(t, "provider: atlas does no refund", op.ProviderMessage)
}

func TestRefundAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script   []answer
		want     store.Status
		attempts string
		made     int
		sends    int
	}{
		"rejected":                  {[]answer{says(404, "")}, store.Failed, "1:failed", 0, 1},
		"not sent, then made":       {[]answer{refuses, refuses, succeeds}, store.Succeeded, "1:not_sent 2:not_sent 3:succeeded", 1, 1},
		"throttled, then made":      {[]answer{says(429, "1"), succeeds}, store.Succeeded, "1:not_executed 2:succeeded", 1, 2},
		"cut after it was made":     {[]answer{cut}, store.Succeeded, "1:unknown", 1, 1},
		"cut before it was made":    {[]answer{lost}, store.Failed, "1:unknown", 0, 1},
		"500 and nothing was made":  {[]answer{says(500, "")}, store.Failed, "1:unknown", 0, 1},
		"no answer before deadline": {[]answer{hangs(true)}, store.Succeeded, "1:unknown", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := quick("atlas")
			s.OnAbsent = "recharge" // never of an operation
			b, r, p := newRefundBench(t, s, nil)
			r.refunds.on(c.script...)
			b.start("w1", nil)
			op := b.refunded(b.refund(p, 4900).ID, c.want)
			b.idle(kindOperation)
			b.idle(kindOpLookup)
			require.Equal(t, c.attempts, b.refundAttempts(op))
			require.Equal(t, c.made, r.made(op))
			seen := r.refunds.seen()
			require.Len(t, seen, c.sends)
			for _, s := range seen[1:] {
				require.Equal(t, seen[0].key, s.key)
				require.Equal(t, seen[0].body, s.body, "the frozen bytes")
			}
			require.Equal(t, store.Succeeded, b.payment(p.ID).Status)
			require.LessOrEqual(t, len(seen), maxTries(s.WithDefaults()), "within the printed budget")
		})
	}
}

// An open circuit holds refunds back as it does charges; closing it wakes them.
func TestARefundWaitsForTheCircuit(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	b.circuits.open("atlas", classCharge, time.Hour)
	b.start("w1", nil)
	op := b.refund(p, 100)
	b.eventually("it waits", func() (bool, string) {
		now := b.operation(op.ID)
		asleep := b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation' AND state = 'scheduled'`)
		return now.NextCheckWhy == whyCircuit && asleep == 1, now.NextCheckWhy
	})
	require.Empty(t, r.refunds.seen())
	require.Equal(t, 1, b.count(`SELECT count(*) FROM payment_events WHERE kind = 'refund_snoozed'`))
	b.circuits.shut("atlas", classCharge)
	woken, err := b.store.WakeWaiting(context.Background(), "atlas", true)
	require.NoError(t, err)
	require.Equal(t, 1, woken)
	b.refunded(op.ID, store.Succeeded)
}

// The probe of a half-open circuit reads first, for a refund as for a charge.
func TestAFailedReadSparesTheRefund(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	r.pingable(pinged(http.StatusServiceUnavailable))
	b.circuits.halfOpen("atlas", classCharge, true)
	b.start("w1", nil)
	op := b.refund(p, 100)
	b.eventually("it waits", func() (bool, string) {
		now := b.operation(op.ID)
		return now.NextCheckWhy == whyCircuit, now.NextCheckWhy
	})
	require.Empty(t, b.refundAttempts(op))
	r.pingable(pinged(http.StatusOK))
	b.refunded(op.ID, store.Succeeded)
	require.Equal(t, 1, r.made(op))
}

// 401 pauses the provider's money calls: the refund waits, executed nowhere.
func TestARefundWithRefusedCredentialsWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	r.refunds.on(says(401, ""), succeeds)
	b.start("w1", nil)
	op := b.refund(p, 100)
	b.eventually("paused", func() (bool, string) {
		now := b.operation(op.ID)
		return now.NextCheckWhy == whyPaused, now.NextCheckWhy
	})
	require.Equal(t, store.Pending, b.operation(op.ID).Status)
	require.NoError(t, b.store.ResumeCharges(context.Background(), "atlas", store.System("test"), "key renewed"))
	b.refunded(op.ID, store.Succeeded)
	require.Equal(t, 1, r.made(op))
}

// A provider without keys is asked before any further send.
func TestARefundWithoutKeysLooksFirst(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.NoKeys = true
	b, r, p := newRefundBench(t, s, nil)
	r.refunds.on(refuses, succeeds)
	b.start("w1", nil)
	op := b.refunded(b.refund(p, 100).ID, store.Succeeded)
	_, lookups, _ := r.refunds.counts()
	require.Equal(t, 1, lookups)
	require.Equal(t, 1, r.made(op))
}

// Our own shutdown: sent, so unknown; neutral; the next process asks and never sends.
func TestC16_StopDuringARefundLeavesUnknown(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AnswerTimeout = 30 * time.Second
	b, r, p := newRefundBench(t, s, nil)
	r.refunds.on(hangs(true))
	w := b.start("w1", nil)
	op := b.refund(p, 100)
	b.eventually("sent", func() (bool, string) { return len(r.refunds.seen()) == 1, "not sent" })
	b.stopNow(w, 100*time.Millisecond)
	require.Equal(t, store.Unknown, b.operation(op.ID).Status)
	require.Equal(t, []breaker.Verdict{breaker.Neutral}, b.circuits.verdicts("atlas", classCharge))
	b.start("w2", nil)
	b.refunded(op.ID, store.Succeeded)
	require.Len(t, r.refunds.seen(), 1)
}

// A worker that dies between any two steps: what is lost is looked up, and the refund
// is made at most once.
func TestC16_ACrashAtAnyPointRefundsAtMostOnce(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]struct {
		status store.Status
		made   int
	}{
		PointBeforeMark:  {store.Succeeded, 1},
		PointAfterMark:   {store.Failed, 0}, // two absences past the horizon say so
		PointAfterSend:   {store.Succeeded, 1},
		PointAfterAnswer: {store.Succeeded, 1},
		PointAfterCommit: {store.Succeeded, 1},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, r, p := newRefundBench(t, quick("atlas"), nil)
			op := b.refund(p, 100)
			refund := op.ID.String()
			var once atomic.Bool
			b.start("w1", func(c *Config) {
				c.At = func(at, id string) {
					if at == point && id == refund && once.CompareAndSwap(false, true) {
						panic("crash at " + at)
					}
				}
			})
			op = b.refunded(op.ID, want.status)
			b.idle(kindOperation)
			require.True(t, once.Load())
			require.Equal(t, want.made, r.made(op))
			require.LessOrEqual(t, len(r.refunds.seen()), 1)
		})
	}
}

// Two processes and a doubled job: one send.
func TestQ02_ADoubledRefundJobSendsOnce(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	r.refunds.on(holds(entered, release, succeeds))
	op := b.refund(p, 100)
	b.exec(`INSERT INTO river_job (kind, queue, args, max_attempts, state, priority)
		SELECT kind, queue, args, max_attempts, 'available', priority FROM river_job WHERE kind = 'operation'`)
	b.start("w1", nil)
	b.start("w2", nil)
	<-entered
	b.eventually("the other job snoozed", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation' AND (metadata ->> 'snoozes')::int > 0`)
		return n == 1, fmt.Sprint(n)
	})
	close(release)
	b.refunded(op.ID, store.Succeeded)
	require.Len(t, r.refunds.seen(), 1)
	require.Equal(t, "1:succeeded", b.refundAttempts(op))
}

// A lost job is found by the sweep; the lookup of an external refund asks by its id.
func TestTheSweepFindsLostRefunds(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	op := b.refund(p, 100)
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE operations SET next_check_at = now() - interval '1 hour'`)
	b.sweep(nil)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation'`))

	outside := provider.Object{Kind: provider.ObjectRefund, ID: "re_x", Status: "pending", Outcome: provider.Processing,
		Money: provider.Money{Amount: 200, Currency: "EUR"}, Child: provider.Child{ChargeID: p.ProviderPaymentID}}
	e := provider.Event{Key: "evt_x", Interesting: true, Object: outside, OccurredAt: time.Now()}
	_, err := b.store.ReceiveWebhook(context.Background(), store.Delivery{Provider: "atlas", Raw: []byte("x"), Events: []provider.Event{e},
		Verification: provider.Verification{Verdict: provider.SignatureValid}})
	require.NoError(t, err)
	b.inTx(func(ctx context.Context, tx pgxTx) error {
		_, err := b.store.ApplyWebhook(ctx, tx, int64(b.count(`SELECT max(id) FROM webhook_events`)), func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
		return err
	})
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation_lookup' AND state = 'scheduled'`))
	b.exec(`DELETE FROM river_job WHERE kind = 'webhook'`)
	b.exec(`UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE kind = 'operation_lookup'`)
	r.asked = make(chan provider.OperationQuery, 1)
	b.start("w1", nil)
	b.refunded(op.ID, store.Succeeded)
	q := <-r.asked
	require.Equal(t, "re_x", q.ProviderOperationID)
	require.Empty(t, q.OperationID, "the provider has never heard of our id")
	require.Equal(t, 1, b.count(`SELECT count(*) FROM operations WHERE status = 'processing' AND origin = 'external'`))
}

func TestBudgetsCountRefunds(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	plain := newFake("atlas")
	r := &refunder{fake: plain, refunds: newFake("atlas")}
	budgets, err := CheckBudgets([]provider.Settings{s}, provider.NewRegistry(r))
	require.NoError(t, err)
	require.Equal(t, budgets[0].RequestsPerCharge, budgets[0].RequestsPerOperation)
	require.Equal(t, 2*lookupTries, budgets[0].RequestsPerOperationLookup)
	budgets, err = CheckBudgets([]provider.Settings{s}, provider.NewRegistry(plain))
	require.NoError(t, err)
	require.Zero(t, budgets[0].RequestsPerOperation)
	plain.caps.Operations = []provider.OperationKind{provider.OpRefund}
	_, err = CheckBudgets([]provider.Settings{s}, provider.NewRegistry(plain))
	require.ErrorContains(t, err, "declares operations")
}

// A job whose operation is not there ends quietly, with an alert and without a call.
func TestQ03_ARefundJobWithoutItsRowCallsNobody(t *testing.T) {
	t.Parallel()
	b, r, _ := newRefundBench(t, quick("atlas"), nil)
	b.inTx(func(ctx context.Context, tx pgxTx) error {
		return errors.Join(b.enqueuer.Operation(ctx, tx, uuid.New(), "atlas", time.Time{}), b.enqueuer.OperationLookup(ctx, tx, uuid.New(), "atlas", time.Time{}))
	})
	b.start("w1", nil)
	b.idle(kindOperation)
	b.idle(kindOpLookup)
	require.Equal(t, 2, b.count(`SELECT count(*) FROM alerts WHERE kind = 'job_without_operation' AND detail LIKE 'Operation %'`))
	require.Empty(t, r.refunds.seen())
}

// Lookups of refunds flow while charges are blocked, and have a circuit of their own.
func TestARefundIsAskedAboutWhileChargesAreBlocked(t *testing.T) {
	t.Parallel()
	b, r, p := newRefundBench(t, quick("atlas"), nil)
	r.refunds.on(cut)
	r.refunds.setLookup(unanswered("http_503", provider.HealthFail))
	b.circuits.open("atlas", classStatus, 50*time.Millisecond)
	b.start("w1", nil)
	op := b.refunded(b.refund(p, 100).ID, store.Unknown)
	b.circuits.open("atlas", classCharge, time.Hour)
	b.eventually("the status circuit denied it", func() (bool, string) {
		return b.circuits.denied("atlas", classStatus) > 0, "not yet"
	})
	b.circuits.shut("atlas", classStatus)
	b.eventually("an unanswered lookup", func() (bool, string) {
		n := b.operation(op.ID).Lookups
		return n > 0, fmt.Sprint(n)
	})
	require.Equal(t, store.Unknown, b.operation(op.ID).Status)
	r.refunds.setLookup(nil)
	b.refunded(op.ID, store.Succeeded)
	require.Contains(t, b.circuits.verdicts("atlas", classStatus), breaker.OK)
	require.Contains(t, b.circuits.verdicts("atlas", classStatus), breaker.Fail)
	require.Positive(t, b.count(`SELECT count(*) FROM call_outcomes WHERE class = 'status' AND payment_id = $1`, p.ID))
}
