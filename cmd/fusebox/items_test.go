package main

// One test per promise of the product, end to end: the real binary, real Postgres
// and Redis, a simulated provider over HTTP. The packages' own tests go deeper;
// these say that the whole does what is promised. Items 3, 5 and 11 are in
// outage_test.go, 15 in browser_flow_test.go.

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider/simulator"
	"fusebox/store"
)

// TestItem01ThreeOutcomes: success, error and unknown are three different things.
func TestItem01ThreeOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.work()
	paid := w.pay("steady", "fault:none")
	declined := w.pay("steady", "fault:decline")
	silent := w.pay("steady", "fault:charged_then_502,lookup_error,webhook_missing")
	require.Equal(t, store.Succeeded, w.settled(paid.ID, 30*time.Second).Status)
	require.Equal(t, store.Failed, w.settled(declined.ID, 30*time.Second).Status)
	w.eventually(30*time.Second, "asked twice without an answer", func() bool { return w.payment(silent.ID).Lookups >= 2 })
	got := w.payment(silent.ID)
	require.Equal(t, store.Unknown, got.Status, "the money may have moved: unknown is not failed")
	require.NotNil(t, got.NextCheckAt)
}

// TestItem02Budgets: budgets that do not fit are refused by name; those that do are printed.
func TestItem02Budgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	bad := w.start([]string{"PROVIDER_STEADY_CONNECT_TIMEOUT=3s", "PROVIDER_STEADY_ANSWER_TIMEOUT=2s"}, "work")
	require.Error(t, bad.exited(20*time.Second))
	require.Contains(t, bad.log.String(), "PROVIDER_STEADY_")
	good := w.work()
	w.eventually(20*time.Second, "budgets are printed", func() bool {
		return contains(good.log.String(), "provider steady: a hang can hold 8 workers for 12 worker-seconds")
	})
	require.Contains(t, good.log.String(), "requests per charge")
	require.Contains(t, good.log.String(), "requests per refund")
}

// TestItem04RetriesAtOneLevel: refused connections are retried by the job with growing
// pauses, the same key and bytes; no attempt is ever sent twice.
func TestItem04RetriesAtOneLevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageRefuse; return f })
	payment := w.pay("outage", "retry")
	w.work()
	w.eventually(30*time.Second, "two tries that never left", func() bool {
		return w.scalar(`SELECT count(*) FROM attempts WHERE payment_id = $1 AND outcome = 'not_sent'`, payment.ID) >= 2
	})
	require.Equal(t, store.Pending, w.payment(payment.ID).Status)
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageNone; return f })
	require.Equal(t, store.Succeeded, w.settled(payment.ID, 60*time.Second).Status)
	require.Equal(t, 1, w.charges("outage", payment.ID))
	require.Equal(t, 1, w.scalar(`SELECT max(wire_sends) FROM attempts WHERE payment_id = $1`, payment.ID))
	require.Equal(t, 1, w.scalar(`SELECT count(DISTINCT (operation_key, request_hash)) FROM attempts WHERE payment_id = $1`, payment.ID))
	w.clean()
}

// TestItem06Reconciliation: a lost answer is found, a lost request is established as
// not received, and neither is charged twice.
func TestItem06Reconciliation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.env = append(w.env, "PROVIDER_STEADY_ON_ABSENT=fail")
	charged := w.pay("steady", "fault:charged_then_cut,webhook_missing")
	lagging := w.pay("steady", "fault:charged_then_reset,webhook_missing,lookup_lag")
	lost := w.pay("steady", "fault:hang")
	w.work()
	require.Equal(t, store.Succeeded, w.settled(charged.ID, 60*time.Second).Status)
	require.Equal(t, store.Succeeded, w.settled(lagging.ID, 60*time.Second).Status)
	got := w.settled(lost.ID, 60*time.Second)
	require.Equal(t, store.Failed, got.Status)
	require.Equal(t, "not_received", got.StatusReason)
	require.GreaterOrEqual(t, w.scalar(`SELECT count(*) FROM payment_events
		WHERE payment_id = $1 AND kind = 'lookup' AND evidence->>'counts' = 'true'`, lost.ID), 2)
	for _, p := range []store.Payment{charged, lagging, lost} {
		require.True(t, w.payment(p.ID).UnknownSeen)
	}
	w.clean()
}

// TestItem07Webhooks: early, duplicate, concurrent, late, badly signed and unordered
// events each end in one effect; one stored before a crash is applied after it.
func TestItem07Webhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "nostatus")
	w.serve()
	worker := w.work()
	for _, fault := range []string{"webhook_early", "webhook_duplicated", "webhook_concurrent", "webhook_out_of_order", "webhook_bad_signature", "webhook_old_timestamp"} {
		// The answer is cut, so only the event can settle it.
		p := w.pay("nostatus", "fault:charged_then_cut,"+fault)
		require.Equal(t, store.Succeeded, w.settled(p.ID, 60*time.Second).Status, fault)
	}
	w.eventually(20*time.Second, "duplicates and rejections are stored", func() bool {
		return w.scalar(`SELECT coalesce(sum(duplicates), 0) FROM webhook_events`) >= 2 &&
			w.scalar(`SELECT count(*) FROM webhook_events WHERE state = 'rejected'`) >= 2
	})
	// Received, and then the worker is gone before it is applied.
	require.NoError(t, worker.cmd.Process.Kill())
	worker.killed(5 * time.Second)
	p := w.pay("nostatus", "after the crash")
	w.work("FUSEBOX_FAILPOINT=after_answer").killed(30 * time.Second)
	w.eventually(20*time.Second, "the event is received", func() bool {
		return w.scalar(`SELECT count(*) FROM webhook_events WHERE reference = $1`, p.ID.String()) == 1
	})
	w.work()
	require.Equal(t, store.Succeeded, w.settled(p.ID, 60*time.Second).Status)
	w.eventually(20*time.Second, "everything signed is applied", func() bool {
		return w.scalar(`SELECT count(*) FROM webhook_events WHERE state IN ('received', 'unmatched')`) == 0
	})
	w.clean()
}

// TestItem08Wallet: a top-up credits the wallet once, whoever settles it and how often.
func TestItem08Wallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	var wallet struct{ ID string }
	api := newTraffic(w.url, w.apiKey, nil, 1, discard)
	require.NoError(t, api.post(t.Context(), "/api/v1/wallets", uuid.NewString(), map[string]any{"owner_ref": "ana", "currency": "EUR"}, &wallet))
	path := "/api/v1/wallets/" + wallet.ID
	op := map[string]any{"operation_id": "welcome", "amount": 1000}
	require.NoError(t, api.post(t.Context(), path+"/credit", uuid.NewString(), op, nil))
	require.NoError(t, api.post(t.Context(), path+"/credit", uuid.NewString(), op, nil), "a repeat is the first result")
	require.Error(t, api.post(t.Context(), path+"/debit", uuid.NewString(), map[string]any{"operation_id": "too much", "amount": 999999}, nil))
	var p struct{ ID string }
	require.NoError(t, api.post(t.Context(), "/api/v1/payments", uuid.NewString(), map[string]any{
		"order_ref": "fault:charged_then_cut,webhook_duplicated,webhook_concurrent", "provider": "steady",
		"amount": 5000, "currency": "EUR", "wallet_id": wallet.ID}, &p))
	require.Equal(t, store.Succeeded, w.settled(uuid.MustParse(p.ID), 60*time.Second).Status)
	require.NoError(t, api.post(t.Context(), path+"/debit", uuid.NewString(), map[string]any{"operation_id": "spend", "amount": 1500}, nil))
	got, err := w.store.Wallet(t.Context(), uuid.MustParse(wallet.ID))
	require.NoError(t, err)
	require.EqualValues(t, 1000+5000-1500, got.Balance)
	w.clean()
}

// TestItem09CircuitSharedByProcesses: failures seen by one process block another, one
// probe goes out when the time is over, and charging resumes.
func TestItem09CircuitSharedByProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	w.work("FUSEBOX_WORKER=one")
	w.work("FUSEBOX_WORKER=two")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageError; return f })
	var all []store.Payment
	for i := range 30 {
		all = append(all, w.pay("outage", fmt.Sprintf("shared %d", i)))
	}
	w.eventually(30*time.Second, "the circuit opened", func() bool {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE class = 'charge' AND to_state = 'open'`) >= 1
	})
	w.eventually(20*time.Second, "jobs wait for it", func() bool {
		return w.scalar(`SELECT count(*) FROM payments WHERE status = 'pending' AND next_check_why = 'circuit_open'`) >= 10
	})
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageNone; return f })
	for _, p := range all {
		require.Equal(t, store.Succeeded, w.settled(p.ID, 90*time.Second).Status)
		require.Equal(t, 1, w.charges("outage", p.ID))
	}
	w.eventually(10*time.Second, "the circuit closed", func() bool {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE class = 'charge' AND to_state = 'closed'`) >= 1
	})
	w.clean()
}

// TestItem10ProviderSync: the periodic sync compares their list with our rows and
// settles what it finds.
func TestItem10ProviderSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	// Lookups far away: only the sync can find this one.
	w.env = append(w.env, "PROVIDER_STEADY_SYNC_EVERY=2s", "PROVIDER_STEADY_RECONCILE_PAUSES=1h", "PROVIDER_STEADY_QUICK_RECONCILE=1h")
	fine := w.pay("steady", "in both books")
	lost := w.pay("steady", "fault:charged_then_502,webhook_missing")
	w.work()
	require.Equal(t, store.Succeeded, w.settled(fine.ID, 30*time.Second).Status)
	got := w.settled(lost.ID, 60*time.Second)
	require.Equal(t, store.Succeeded, got.Status)
	require.Equal(t, "sync", got.StatusEvidence)
	w.eventually(20*time.Second, "a complete run with findings", func() bool {
		return w.scalar(`SELECT count(*) FROM reconciliation_runs WHERE state = 'complete' AND matched >= 2`) >= 1 &&
			w.scalar(`SELECT count(*) FROM reconciliation_items WHERE finding = 'status_differs' AND payment_id = $1`, lost.ID) == 1
	})
	w.clean()
}

// TestItem12Limits: what a provider lacks is respected. Without keys nothing is resent
// before a lookup; without a status API unknown waits for an event or a person; past
// the key's life nothing is resent.
func TestItem12Limits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "nokeys", "nostatus", "steady")
	w.env = append(w.env, "PROVIDER_STEADY_KEY_LIFE=7s", "PROVIDER_STEADY_ABSENT_HORIZON=6500ms", "PROVIDER_STEADY_ON_ABSENT=recharge")
	w.work()
	keyless := w.pay("nokeys", "fault:charged_then_cut,webhook_missing")
	require.Equal(t, store.Succeeded, w.settled(keyless.ID, 60*time.Second).Status)
	require.Equal(t, 1, w.charges("nokeys", keyless.ID))

	silent := w.pay("nostatus", "fault:charged_then_cut,webhook_missing")
	w.eventually(30*time.Second, "it waits for a person", func() bool {
		p := w.payment(silent.ID)
		return p.Status == store.Unknown && len(p.NeedsReview) == 1 && p.NeedsReview[0] == store.ReviewNoStatusAPI
	})
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM attempts WHERE payment_id = $1`, silent.ID))

	expired := w.pay("steady", "fault:hang")
	w.eventually(60*time.Second, "its key is past its life", func() bool {
		return slices.Contains(w.payment(expired.ID).NeedsReview, store.ReviewKeyExpired)
	})
	require.Equal(t, store.Unknown, w.payment(expired.ID).Status)
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM attempts WHERE payment_id = $1`, expired.ID), "never resent")
}

// TestItem14AlertOncePerOpening: an opened circuit is told once to each place, stored
// and shown.
func TestItem14AlertOncePerOpening(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	generic, slack := newRecorder(t, http.StatusOK), newRecorder(t, http.StatusOK)
	w.env = append(w.env, "FUSEBOX_ALERT_URL="+generic.url, "FUSEBOX_SLACK_URL="+slack.url, "FUSEBOX_CIRCUIT_OPEN_FOR=1h")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageError; return f })
	for i := range 20 {
		w.pay("outage", fmt.Sprintf("alert %d", i))
	}
	w.work("FUSEBOX_WORKER=one")
	w.work("FUSEBOX_WORKER=two")
	told := func(r *recorder) int { return r.count("circuit_opened") + r.count("opened") }
	w.eventually(30*time.Second, "both places heard", func() bool { return told(generic) > 0 && slack.count("text") > 0 })
	w.eventually(20*time.Second, "it is stored as delivered", func() bool {
		return w.scalar(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened' AND delivered_at IS NOT NULL`) >= 1
	})
	opened := w.scalar(`SELECT count(*) FROM breaker_events WHERE to_state = 'open'`)
	require.Equal(t, opened, w.scalar(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened'`), "one alert per transition")
	require.Equal(t, opened, generic.count(`"circuit_opened"`))
}
