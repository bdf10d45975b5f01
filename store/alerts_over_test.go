package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

// An alert is over when what it is about is no longer so, and not before, and again not
// once it is so again; whether somebody acknowledged it is another matter.
func TestAnAlertIsOverWhenItsCauseIsGone(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), t.Context()
	raise := func(key string, payment *uuid.UUID) {
		t.Helper()
		r.db.Exec(t, `INSERT INTO alerts (kind, severity, provider, title, dedupe_key, payment_id, created_at) VALUES ('k', 'warning', 'atlas', $1, $1, $2, now())`, key, payment)
	}
	over := func() (titles []string) {
		t.Helper()
		all, _, err := r.ListAlerts(ctx, store.AlertFilter{}, 0, 100)
		require.NoError(t, err)
		only, _, err := r.ListAlerts(ctx, store.AlertFilter{Known: store.AlertsOver}, 0, 100)
		require.NoError(t, err)
		for _, a := range all {
			one, err := r.Alert(ctx, a.ID)
			require.NoError(t, err)
			require.Equal(t, a.Over, one.Over)
			if a.Over {
				titles = append(titles, a.Title)
			}
		}
		require.Len(t, only, len(titles), "the filter and the mark agree")
		return titles
	}
	circuit := func(epoch, from, to string, at time.Time) {
		t.Helper()
		r.db.Exec(t, `INSERT INTO breaker_events (provider, class, epoch, from_state, to_state, at) VALUES ('atlas', 'charge', $1, $2, $3, $4)`, epoch, from, to, at)
		if to == "open" { // as RecordBreakerEvent raises it
			r.db.Exec(t, `INSERT INTO alerts (kind, severity, provider, title, dedupe_key, created_at)
				VALUES ('circuit_opened', 'critical', 'atlas', 'opened '||$1, 'circuit:atlas/charge:'||$1, now())`, epoch)
		}
	}

	p := r.db.SeedPayment(t, func(p *store.Payment) { p.NeedsReview = []string{store.ReviewAged, store.ReviewContradiction} })
	aged, contradicted, lapsing := "review:aged:"+p.ID.String(), "review:contradiction:"+p.ID.String(), "lapsing:"+p.ID.String()
	for _, key := range []string{aged, contradicted, lapsing} {
		raise(key, &p.ID)
	}
	raise("webhook_silence:atlas:1", nil) // only people know
	r.db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('atlas', true, 'forbidden', now())`)
	raise("config_alarm:atlas:2026-01-01T00:00:00Z", nil)
	circuit("local/w:1/7", "closed", "open", storetest.Epoch)
	require.Empty(t, over())

	r.db.Exec(t, `UPDATE payments SET needs_review = '{contradiction}' WHERE id = $1`, p.ID)
	require.Equal(t, []string{aged}, over())
	r.db.Exec(t, `UPDATE payments SET needs_review = '{aged}' WHERE id = $1`, p.ID)
	require.Equal(t, []string{contradicted}, over(), "it has come back")
	r.db.Exec(t, `UPDATE provider_state SET charges_paused = false`)
	require.Equal(t, []string{"config_alarm:atlas:2026-01-01T00:00:00Z", contradicted}, over())

	circuit("8", "open", "half_open", storetest.Epoch.Add(time.Second))
	require.Len(t, over(), 2, "half-open is a step on the way")
	circuit("9", "half_open", "closed", storetest.Epoch.Add(2*time.Second))
	require.Equal(t, "opened local/w:1/7", over()[0])
	circuit("10", "closed", "open", storetest.Epoch.Add(3*time.Second))
	require.Len(t, over(), 3, "the new opening is not over")
}
