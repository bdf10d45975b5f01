package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// sweep runs one sweep without the queue around it.
func (b *bench) sweep(change func(*Config)) *Runner {
	b.t.Helper()
	r, err := New(b.config("w1", change))
	require.NoError(b.t, err)
	require.NoError(b.t, (&sweepWorker{r: r}).Work(context.Background(), &river.Job[sweepArgs]{}))
	return r
}

// An attempt whose process was killed is found past its deadline: unknown, and asked
// about; nothing is sent.
func TestQ04_TheSweepFindsAbandonedAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	p := b.pay("atlas", nil)
	_, _, err := b.store.BeginAttempt(context.Background(), store.BeginParams{
		PaymentID: p.ID, Body: []byte(`{}`), KeyLife: time.Hour, Deadline: time.Millisecond, Worker: "killed",
	})
	require.NoError(t, err)
	b.exec(`UPDATE river_job SET state = 'running', attempted_at = now()`) // its job is a zombie
	b.eventually("deadline", func() (bool, string) {
		return b.count(`SELECT count(*) FROM attempts WHERE deadline < now()`) == 1, "not yet"
	})
	b.sweep(nil)
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE kind = 'reconcile' AND state = 'available'`))
}

// A payment that has been unknown for too long is shown and told once.
func TestTheSweepTellsOfAgedPaymentsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	p := b.db.SeedPayment(t, func(p *store.Payment) {
		since := time.Now().Add(-time.Hour)
		next := time.Now().Add(time.Hour)
		p.UnknownSince, p.UnknownSeen, p.NextCheckAt = &since, true, &next
	})
	b.sweep(nil)
	b.sweep(nil)
	require.Contains(t, b.payment(p.ID).NeedsReview, store.ReviewAged)
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'unknown_aged'`))
}

func TestTheSweepPrunesOldCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.exec(`INSERT INTO call_outcomes (at, provider, class, verdict, outcome, latency_us)
		SELECT now() - make_interval(days => d), 'atlas', 'charge', 'ok', 'succeeded', 1 FROM generate_series(0, 30) d,
			generate_series(1, 400)`)
	b.sweep(func(c *Config) { c.CallsKept = 7 * 24 * time.Hour })
	require.Equal(t, 7*400, b.count(`SELECT count(*) FROM call_outcomes`))
}

// An alert whose tries were used up while its sink was down is tried again; stale news
// and delivered ones are left alone.
func TestTheSweepRevivesUndeliveredAlerts(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	for _, key := range []string{"old", "due", "fresh", "done"} {
		b.raiseAlert(key)
	}
	b.exec(`UPDATE alerts SET created_at = now() - interval '30 days' WHERE dedupe_key = 'old'`)
	b.exec(`UPDATE alerts SET created_at = now() - interval '3 hours' WHERE dedupe_key IN ('due', 'done')`)
	b.exec(`UPDATE alerts SET delivered_at = now() WHERE dedupe_key = 'done'`)
	b.exec(`UPDATE river_job SET state = 'discarded', finalized_at = now()`)
	b.sweep(nil)
	b.sweep(nil)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE state = 'available'`))
	require.Equal(t, "due", b.text(`SELECT dedupe_key FROM alerts WHERE id =
		(SELECT (args ->> 'alert_id')::bigint FROM river_job WHERE state = 'available')`))
}

// A provider that used to send events and now only takes charges is told of once; one
// that never sent any, or has few charges, is not.
func TestW13_WebhookSilenceIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("silent"), quick("never"), quick("calm"), quick("fine"))
	for _, f := range b.fakes {
		f.caps.Webhooks = true
	}
	charges := func(name string, n int) {
		b.exec(`INSERT INTO call_outcomes (at, provider, class, verdict, outcome, latency_us)
			SELECT now() - interval '20 minutes', $1, 'charge', 'ok', 'succeeded', 1 FROM generate_series(1, $2::int)`, name, n)
	}
	last := func(name, ago string) {
		b.exec(`INSERT INTO provider_state (provider, last_webhook_at) VALUES ($1, now() - $2::interval)`, name, ago)
	}
	charges("silent", 25)
	charges("never", 25)
	charges("calm", 3)
	charges("fine", 25)
	last("silent", "2 hours")
	last("calm", "2 hours")
	last("fine", "1 minute")
	b.sweep(nil)
	b.sweep(nil)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'webhook_silence'`))
	require.Equal(t, "silent", b.text(`SELECT provider FROM alerts WHERE kind = 'webhook_silence'`))
}

// The store's own trouble does not keep the other parts from running.
func TestTheSweepsPartsRunWhateverTheOthersMet(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.exec(`INSERT INTO call_outcomes (at, provider, class, verdict, outcome, latency_us) VALUES (now() - interval '90 days', 'atlas', 'charge', 'ok', 'succeeded', 1)`)
	b.exec(`ALTER TABLE webhook_events RENAME TO webhook_events_gone`)
	r, err := New(b.config("w1", nil))
	require.NoError(t, err)
	require.Error(t, (&sweepWorker{r: r}).Work(context.Background(), &river.Job[sweepArgs]{}))
	require.Equal(t, 0, b.count(`SELECT count(*) FROM call_outcomes`))
}

// A job for a provider this process was not configured with waits; it is never lost
// and never completes as if it had been charged.
func TestAChargeOfAnUnconfiguredProviderWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	r, err := New(b.config("w1", nil))
	require.NoError(t, err)
	job := &river.Job[chargeArgs]{Args: chargeArgs{PaymentID: uuid.Must(uuid.NewV7()), Provider: "gone"}}
	err = (&chargeWorker{r: r}).Work(context.Background(), job)
	var snooze *rivertype.JobSnoozeError
	require.ErrorAs(t, err, &snooze)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'job_without_provider'`))
	require.Zero(t, (&chargeWorker{r: r}).Timeout(job))
}
