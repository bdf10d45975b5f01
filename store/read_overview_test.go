package store_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

// board is a store whose clock stands one hour after the seeded rows' epoch.
func board(t *testing.T) (*storetest.DB, *store.Store, time.Time) {
	t.Helper()
	db, now := storetest.New(t), storetest.Epoch.Add(time.Hour)
	return db, store.New(db.Pool, store.Options{Now: func() time.Time { return now }}), now
}

func TestOverviewOfEmptyBooks(t *testing.T) {
	t.Parallel()
	_, s, now := board(t)
	o, err := s.Overview(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, now, o.At)
	require.Zero(t, o.UnknownCount()+o.Processing+o.Pending+o.NeedsReview+o.Succeeded.Total+o.Failed.Total)
	require.Nil(t, o.OldestUnknown)
	require.Len(t, o.Succeeded.Now, store.OverviewBuckets)
	require.Len(t, o.Failed.Before, store.OverviewBuckets)
}

func TestOverviewCountsEveryStatusOnce(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	old, young := now.Add(-20*time.Minute), now.Add(-time.Minute)
	for _, seed := range []store.Payment{
		{Status: store.Unknown, UnknownSince: &old, Currency: "EUR"}, {Status: store.Unknown, UnknownSince: &young, Currency: "EUR"},
		{Status: store.Unknown, UnknownSince: &young, Currency: "USD"},
		{Status: store.Processing}, {Status: store.RequiresAction}, {Status: store.Pending},
		{Status: store.Succeeded, NeedsReview: []string{store.ReviewDuplicate}}, {Status: store.Failed},
	} {
		db.SeedPayment(t, func(p *store.Payment) {
			p.Status, p.UnknownSince, p.NeedsReview = seed.Status, seed.UnknownSince, seed.NeedsReview
			if seed.Currency != "" {
				p.Currency = seed.Currency
			}
		})
	}
	o, err := s.Overview(t.Context(), 15*time.Minute)
	require.NoError(t, err)
	require.Equal(t, []store.CurrencySum{{Currency: "EUR", Payments: 2, Amount: 9800}, {Currency: "USD", Payments: 1, Amount: 4900}}, o.Unknown)
	require.Equal(t, old, o.OldestUnknown.UTC())
	require.Equal(t, 1, o.AgedUnknown)
	require.Equal(t, 2, o.Processing)
	require.Equal(t, 1, o.RequiresAction)
	require.Equal(t, 1, o.Pending)
	require.Equal(t, storetest.Epoch, o.OldestPending.UTC())
	require.Equal(t, 1, o.NeedsReview)
}

func TestOverviewSeriesAddUpAndKeepTheWeeksApart(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	const week = 7 * 24 * time.Hour
	for _, ago := range []time.Duration{time.Second, 5 * time.Minute, 57 * time.Minute, 2 * time.Hour, week + time.Minute, week + 2*time.Hour, 2 * week} {
		at := now.Add(-ago)
		db.SeedPayment(t, func(p *store.Payment) { p.Status, p.SettledAt = store.Succeeded, &at })
	}
	o, err := s.Overview(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 3, o.Succeeded.Total)
	require.Equal(t, 1, o.Succeeded.WeekBefore)
	sum := func(series []int64) (n int64) {
		for _, v := range series {
			n += v
		}
		return n
	}
	require.EqualValues(t, 3, sum(o.Succeeded.Now))
	require.EqualValues(t, 1, sum(o.Succeeded.Before))
	last := store.OverviewBuckets - 1
	require.EqualValues(t, 1, o.Succeeded.Now[last], "the newest bucket is the last one")
	require.True(t, o.Start.Equal(o.Start.Truncate(store.OverviewStep)), "buckets stand on the clock")
	require.False(t, o.Start.Add(store.OverviewBuckets*store.OverviewStep).Before(now))
}

func TestOverviewReadsWebhooksRunsAndAlerts(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	for state, at := range map[string]time.Time{"rejected": now.Add(-time.Hour), "unparsed": now.Add(-25 * time.Hour), "unmatched": now.Add(-48 * time.Hour)} {
		db.SeedWebhook(t, func(e *store.InboxEvent) { e.State = state })
		db.Exec(t, `UPDATE webhook_events SET last_delivery_at = $1 WHERE state = $2`, at, state)
	}
	db.SeedRun(t, func(r *store.Run) { r.StartedAt, r.Matched, r.State = now.Add(-2*time.Hour), 1, "complete" })
	db.SeedRun(t, func(r *store.Run) { r.StartedAt, r.Matched, r.State = now.Add(-time.Hour), 2, "complete" })
	for i := range 7 {
		seedAlert(t, db, i, "warning")
	}
	o, err := s.Overview(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, o.WebhookDay.Rejected)
	require.Zero(t, o.WebhookDay.Unparsed, "yesterday's is yesterday's")
	require.Equal(t, 1, o.WebhookDay.Unmatched, "what waits for a payment waits however old it is")
	require.Len(t, o.LastRuns, 1)
	require.Equal(t, 2, o.LastRuns[0].Matched)
	require.Len(t, o.Alerts, 5)
	require.Equal(t, "alert 6", o.Alerts[0].Title)
}

func seedAlert(t *testing.T, db *storetest.DB, i int, severity string) {
	t.Helper()
	title := "alert " + strconv.Itoa(i)
	db.Exec(t, `INSERT INTO alerts (kind, severity, provider, title, dedupe_key, created_at) VALUES ('k', $1, 'atlas', $2, $2, $3)`,
		severity, title, storetest.Epoch)
}

func TestListAlertsPagesByID(t *testing.T) {
	t.Parallel()
	db, s, _ := board(t)
	for i := range 5 {
		seedAlert(t, db, i, []string{"info", "critical"}[i%2])
	}
	page, more, err := s.ListAlerts(t.Context(), store.AlertFilter{}, 0, 3)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, "alert 4", page[0].Title)
	rest, more, err := s.ListAlerts(t.Context(), store.AlertFilter{}, page[2].ID, 3)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, rest, 2)
	critical, _, err := s.ListAlerts(t.Context(), store.AlertFilter{Severity: "critical"}, 0, 10)
	require.NoError(t, err)
	require.Len(t, critical, 2)
}

func TestCallHealthsMeasureTheWindowOnly(t *testing.T) {
	t.Parallel()
	_, s, now := board(t)
	call := func(verdict string, ago, latency time.Duration) {
		require.NoError(t, s.RecordCall(t.Context(), nil, store.CallOutcome{At: now.Add(-ago), Provider: "atlas", Class: "charge",
			Verdict: verdict, Outcome: "x", Latency: latency}))
	}
	for i := range 18 {
		call("ok", time.Minute, time.Duration(i)*time.Millisecond)
	}
	call("fail", time.Minute, 5*time.Second)
	call("neutral", time.Minute, 3*time.Second)
	call("fail", store.HealthWindow+time.Second, time.Hour)
	list, err := s.CallHealths(t.Context())
	require.NoError(t, err)
	require.Equal(t, []store.CallHealth{{Provider: "atlas", Class: "charge", OK: 18, Fail: 1, Neutral: 1, P95: 3 * time.Second}}, list)
	rate, ok := list[0].Rate()
	require.True(t, ok)
	require.InDelta(t, 18.0/19, rate, 1e-9, "neutral calls say nothing about health")
	_, ok = store.CallHealth{Neutral: 3}.Rate()
	require.False(t, ok)
}

func TestBreakerHistoryIsNewestFirstAndBoundedPerCircuit(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	for i := range 6 {
		for _, class := range []string{"charge", "status"} {
			db.Exec(t, `INSERT INTO breaker_events (provider, class, epoch, from_state, to_state, evidence, at) VALUES ('atlas', $1, $2, 'closed', 'open', '{"failures": 5}', $3)`,
				class, strconv.Itoa(i), now)
		}
	}
	list, err := s.BreakerHistory(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, "5", list[0].Epoch)
	require.EqualValues(t, 5, list[0].Evidence["failures"])
}

func TestWaitingChargesAreThisProvidersPendingOnes(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	soon, later := now.Add(time.Minute), now.Add(2*time.Minute)
	for _, due := range []*time.Time{&soon, &later, nil} {
		db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NextCheckAt = store.Pending, due })
	}
	db.SeedPayment(t, func(p *store.Payment) { p.Status, p.Provider = store.Pending, "borealis" })
	db.SeedPayment(t, nil) // unknown
	w, err := s.WaitingCharges(t.Context(), "atlas")
	require.NoError(t, err)
	require.Equal(t, 3, w.Pending)
	require.Equal(t, []store.CurrencySum{{Currency: "EUR", Payments: 3, Amount: 14700}}, w.Amounts)
	require.Equal(t, 1, w.Unknown)
}

func TestProviderSwitchesAndLastCircuitAction(t *testing.T) {
	t.Parallel()
	db, s, now := board(t)
	_, err := s.LastCircuitAction(t.Context(), "circuit:atlas/charge")
	require.ErrorIs(t, err, store.ErrNotFound)
	db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('atlas', true, 'unauthorized', $1)`, now)
	db.Exec(t, `INSERT INTO audit_log (at, actor, action, target) VALUES ($1, 'system:x', 'circuit.reset', 'circuit:atlas/charge'), ($1, 'system:y', 'circuit.reset', 'circuit:atlas/status')`, now)
	list, err := s.ProviderSwitches(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, list[0].Paused)
	require.Equal(t, "unauthorized", list[0].PausedReason)
	last, err := s.LastCircuitAction(t.Context(), "circuit:atlas/charge")
	require.NoError(t, err)
	require.Equal(t, "system:x", last.Actor)
}
