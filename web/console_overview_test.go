package web

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/store/storetest"
)

// unknownSince makes a seeded payment unknown since that long before the test's now.
func (w *webtest) unknownSince(d time.Duration, change ...func(*store.Payment)) store.Payment {
	since := w.clock.now().Add(-d)
	return w.db.SeedPayment(w.t, func(p *store.Payment) {
		p.Status, p.UnknownSince, p.CreatedAt = store.Unknown, &since, since
		for _, fn := range change {
			fn(p)
		}
	})
}

func TestOverviewShowsUnknownByCurrencyAndNeverAdded(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.unknownSince(3 * time.Minute)
	w.unknownSince(2 * time.Minute)
	w.unknownSince(time.Minute, func(p *store.Payment) { p.Amount, p.Currency = 6800, "JPY" })
	body := w.signedIn(store.RoleSupport).get("/").body
	require.Contains(t, body, `<span class="metric-value">3</span>`)
	require.Contains(t, body, `98.00&nbsp;<span class="cur">EUR</span>`)
	require.Contains(t, body, `6,800&nbsp;<span class="cur">JPY</span>`)
	require.Contains(t, body, "3\u00a0min ago")
	require.Contains(t, body, `<span class="count count-act">3</span>`, "the navigation tells how many need an answer")
}

func TestOverviewOfNothingSaysSo(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	body := w.signedIn(store.RoleSupport).get("/").body
	require.Contains(t, body, "Every payment has an answer.")
	require.Contains(t, body, "No alerts")
	require.Contains(t, body, "No reconciliation yet")
	require.Contains(t, body, "no calls")
	require.NotContains(t, body, "count-act")
}

func TestOverviewComparesWithTheSameHourLastWeek(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	settle := func(status store.Status, ago time.Duration) {
		at := w.clock.now().Add(-ago)
		w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.SettledAt, p.CreatedAt = status, &at, at })
	}
	const week = 7 * 24 * time.Hour
	for _, ago := range []time.Duration{time.Minute, 30 * time.Minute, 59 * time.Minute, 61 * time.Minute, week + time.Minute, week + 61*time.Minute} {
		settle(store.Succeeded, ago)
	}
	settle(store.Failed, 10*time.Minute)
	body := w.signedIn(store.RoleSupport).get("/").body
	require.Contains(t, body, `aria-label="Paid, last hour: 3; same hour last week: 1"`)
	require.Contains(t, body, `aria-label="Failed, last hour: 1; same hour last week: 0"`)
}

func TestOverviewStripShowsCircuitsCallsAndQueues(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "charge"}, State: breaker.Open, Epoch: "9",
		Since: w.clock.now().Add(-time.Minute), OpenReason: breaker.ReasonConsecutive})
	for i, verdict := range []string{"ok", "ok", "ok", "fail", "neutral"} {
		require.NoError(t, w.store.RecordCall(t.Context(), nil, store.CallOutcome{At: w.clock.now().Add(-time.Minute), Provider: "atlas",
			Class: "charge", Verdict: verdict, Outcome: "x", Latency: time.Duration(i+1) * 100 * time.Millisecond}))
	}
	body := w.signedIn(store.RoleSupport).get("/").body
	require.Contains(t, body, "75\u00a0%", "a neutral call says nothing about health")
	require.Contains(t, body, "500\u00a0ms")
	require.Contains(t, body, "atlas: Charges circuit is open. Too many failures in a row.")
}

func TestBannersTellWhatEverybodyHasToKnow(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	require.NotContains(t, b.htmx("/banners").body, "class=\"banner ")

	w.circuits.degraded = w.clock.now().Add(-time.Minute)
	w.unknownSince(unknownAged + time.Minute)
	w.unknownSince(unknownAged - time.Minute)
	w.db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('borealis', true, 'unauthorized', $1)`, w.clock.now())
	w.server.a.now.forget()
	w.server.a.hub.touch(topicBanners)
	w.server.a.hub.flush()
	body := b.htmx("/banners").body
	require.Contains(t, body, "Breaker degraded: shared state is not reachable since 15:01:11.")
	require.Contains(t, body, "1 payment has been unknown for more than 15\u00a0min")
	require.Contains(t, body, "borealis: charges are paused.")
}

func TestWatchSaysWhichTopicsLookDifferent(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	board := w.server.a.now
	require.ElementsMatch(t, []string{topicOverview, "providers", topicBanners}, board.watch(t.Context()))
	w.clock.advance(4 * time.Second)
	require.Empty(t, board.watch(t.Context()), "time alone is no change")

	w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Pending })
	require.Equal(t, []string{topicOverview}, board.watch(t.Context()))
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "status"}, State: breaker.HalfOpen, Epoch: "2"})
	require.ElementsMatch(t, []string{topicOverview, "providers", topicBanners}, board.watch(t.Context()))
}

func TestOneReadingServesEverybodyUntilItIsOld(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	first, err := w.server.a.now.get(t.Context())
	require.NoError(t, err)
	again, err := w.server.a.now.get(t.Context())
	require.NoError(t, err)
	require.Same(t, first, again)
	w.clock.advance(snapshotAge)
	later, err := w.server.a.now.get(t.Context())
	require.NoError(t, err)
	require.NotSame(t, first, later)
}

func TestOverviewOwesEverybodyTheSame(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.exercise(page{method: "GET", path: "/", role: store.RoleSupport})
}

func TestTheBannerTellsHalfOpenFromOpen(t *testing.T) {
	t.Parallel()
	for state, want := range map[breaker.State]map[string]string{
		breaker.Open:     {"en": "circuit is open", "fr": "est ouvert", "es": "está abierto", "uk": "розімкнено"},
		breaker.HalfOpen: {"en": "circuit is half-open", "fr": "est semi-ouvert", "es": "está semiabierto", "uk": "напіврозімкнено"},
	} {
		w := newWebtest(t)
		w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "charge"}, State: state, Epoch: "1", OpenReason: breaker.ReasonConsecutive})
		b := w.signedIn(store.RoleSupport)
		for lang, words := range want {
			b.cookies[cookieLang] = lang
			banner := between(t, b.get("/payments").body, `id="banner-atlas-charge"`, "</div>")
			require.Contains(t, banner, words, lang)
			require.Equal(t, state == breaker.Open, strings.Contains(banner, "tone-bad"))
		}
	}
}

func TestAlertsAreListedByWeightAndInKeysetPages(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for i := range alertsPerPage + 5 {
		severity := "warning"
		if i == 0 {
			severity = "critical"
		}
		w.db.Exec(t, `INSERT INTO alerts (kind, severity, provider, title, detail, dedupe_key, created_at)
			VALUES ('new_kind', $1, 'atlas', 'Title <b>' || $2, 'd', $2, $3)`, severity, time.Duration(i).String(), storetest.Epoch)
	}
	b := w.signedIn(store.RoleSupport)
	body := b.get("/alerts").body
	require.Contains(t, body, "Title &lt;b&gt;54ns", "a kind without a text of ours keeps its own words, as text")
	require.NotContains(t, body, "4ns</a>\n", "older ones are on the next page")
	require.Contains(t, body, `href="/alerts?before=6"`)
	older := b.get("/alerts?before=6").body
	require.Contains(t, older, "Title &lt;b&gt;4ns")
	require.Contains(t, older, `<a class="btn btn-small" href="/alerts" rel="prev">`)
	critical := b.get("/alerts?severity=critical").body
	require.Contains(t, critical, "Title &lt;b&gt;0s")
	require.NotContains(t, critical, "54ns")
	require.Contains(t, b.get("/alerts?severity=info").body, "No such alerts")
}

func TestAlertsOweEverybodyTheSame(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"/alerts?before=x", "/alerts?before=-1", "/alerts?severity=loud", "/alerts?state=gone"} {
		w := newWebtest(t)
		w.exercise(page{method: "GET", path: "/alerts", role: store.RoleSupport, bad: bad})
	}
}

func TestCircuitAlertsSpeakTheReadersLanguage(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	_, err := w.store.RecordBreakerEvent(t.Context(), store.BreakerEvent{Provider: "atlas", Class: "status", Epoch: "1",
		From: "closed", To: "open", Reason: breaker.ReasonConsecutive, At: w.clock.now()})
	require.NoError(t, err)
	b := w.signedIn(store.RoleSupport)
	b.cookies[cookieLang] = "es"
	body := b.get("/alerts").body
	require.Contains(t, body, "atlas: circuito abierto (Consultas de estado)")
	require.Contains(t, body, "Demasiados fallos seguidos.")
	require.Contains(t, body, `href="/providers#atlas"`)
}
