package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
)

// outage records an hour of calls of atlas: one each ten seconds, failing from minute 20
// on until a real circuit opens at minute 30 and closes at minute 40.
func (w *webtest) outage() {
	w.t.Helper()
	begin := w.clock.now().Add(-time.Hour)
	w.db.Exec(w.t, `INSERT INTO call_outcomes (at, provider, class, verdict, outcome, error_class, latency_us, worker)
		SELECT $1::timestamptz + i * interval '10 seconds', 'atlas', 'charge',
			CASE WHEN i BETWEEN 120 AND 180 THEN CASE WHEN i % 3 = 0 THEN 'ok' ELSE 'fail' END ELSE 'ok' END, 'x',
			CASE WHEN i BETWEEN 120 AND 180 THEN 'timeout' ELSE '' END, 100000 + i * 1000, 'w1'
		FROM generate_series(0, 359) i WHERE i NOT BETWEEN 181 AND 239`, begin)
	w.transition("1", "closed", "open", breaker.ReasonConsecutive, 30*time.Minute-time.Second, map[string]any{"failures": 5})
	w.transition("2", "open", "half_open", breaker.ReasonOpenTimeOver, 21*time.Minute, nil)
	w.transition("3", "half_open", "closed", breaker.ReasonProbesSucceeded, 20*time.Minute, nil)
}

func TestTuningReplaysOtherSettings(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.outage()
	b := w.signedIn(store.RoleSupport)
	res := b.get("/providers/atlas/charge/tuning?failures=8&window=120&range=1h&open_for=900")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.body, "With 8 failures in 2\u00a0min and an open time of 15\u00a0min it would have opened at 14:24:")
	require.Contains(t, res.body, "8\u00a0min earlier")
	require.Contains(t, res.body, "failed calls saved.")
	require.Contains(t, res.body, `value="120"`, "the form keeps what was asked")
	require.Contains(t, res.body, "In force now: 5 failures in a row.")
	require.Contains(t, res.body, "What this replay cannot know")
	require.Contains(t, res.body, `<details id="chart-data"`, "the chart as numbers")
	require.NotContains(t, res.body, "style=", "no inline style under our policy")
}

func TestTuningOpensWithTheSettingsInForce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Closed, Epoch: "1",
		Settings: breaker.Settings{Failures: 7, Rate: 0.25, SlowCall: 1500 * time.Millisecond, SlowRate: 0.8, OpenFor: 45 * time.Second}})
	w.outage()
	body := w.signedIn(store.RoleOperator).get("/providers/atlas/charge/tuning").body
	for _, v := range []string{"7", "0", "25", "20", "1.5", "45"} {
		require.Contains(t, body, fmt.Sprintf("value=%q", v))
	}
	require.Contains(t, body, "In force now: 7 failures in a row or 25\u00a0% failures of at least 20 calls in 1\u00a0min or 80\u00a0% of at least 20 calls slower than 1.5\u00a0s.")
	require.NotContains(t, body, ">Settings in force</a>", "nothing was changed")
}

func TestTuningRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	for query, want := range map[string]string{
		"failures=many":                "Failures (0: off): is not a number",
		"failures=1001":                "must be 0 to 1,000",
		"window=-3":                    "must be 0\u00a0s to 24\u00a0h",
		"window=1e9":                   "is not a number",
		"rate=101":                     "must be 0\u00a0% to 100\u00a0%",
		"min_calls=0":                  "must be 1 to 1,000,000",
		"slow=601":                     "must be 0\u00a0s to 10\u00a0min",
		"open_for=0":                   "must be 1\u00a0s to 24\u00a0h",
		"open_for=":                    "is not a number",
		"range=1y":                     "is not one of the choices",
		"until=yesterday":              "is not a date and time",
		"failures=0":                   "with every rule off, nothing could open it",
		"failures=%3Cb%3E&rate=NaN":    "is not a number",
		"window=999999999999999999999": "must be 0\u00a0s to 24\u00a0h",
	} {
		res := b.get("/providers/atlas/charge/tuning?" + query)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, query)
		require.Contains(t, res.body, want, query)
		require.NotContains(t, res.body, "<b>")
		require.NotContains(t, res.body, `id="chart"`, "no chart of settings that were refused")
	}
}

func TestTuningReadsTheReadersUnitsAndZone(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.outage()
	b := w.signedIn(store.RoleSupport)
	b.cookies[cookieOwnTZ] = "Europe/Kyiv"
	body := b.get("/providers/atlas/charge/tuning?window=2m30s&rate=12,5%25&range=1h&until=2026-01-01T00:00").body
	require.Contains(t, body, "No calls in this time", "an hour before the records begin")
	body = b.get("/providers/atlas/charge/tuning?failures=8&window=2m&rate=12,5%25&range=1h").body
	require.Contains(t, body, "12.5\u00a0% failures of at least 20 calls in 1\u00a0min")
	require.Contains(t, body, "Times in EET")
}

func TestTuningOfNothingSaysWhatWouldAppear(t *testing.T) {
	t.Parallel()
	body := newWebtest(t).signedIn(store.RoleSupport).get("/providers/atlas/status/tuning").body
	require.Contains(t, body, "No calls in this time")
	require.Contains(t, body, "Each call to the provider is recorded")
}

func TestTuningMarksGuesses(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.outage()
	w.db.Exec(t, `UPDATE call_outcomes SET verdict = 'fail' WHERE at BETWEEN $1 AND $2`, w.clock.now().Add(-time.Hour+29*time.Minute), w.clock.now().Add(-time.Hour+42*time.Minute))
	body := w.signedIn(store.RoleSupport).get("/providers/atlas/charge/tuning?failures=14&window=1200&range=1h").body
	require.Contains(t, body, "a guess, calls were blocked then")
	require.Contains(t, body, "chart-open chart-guess")
	require.Equal(t, 1, strings.Count(body, "1 replayed opening is a guess"))
}

func TestTuningSpeaksFourLanguages(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.outage()
	b := w.signedIn(store.RoleSupport)
	for lang, want := range map[string]string{"fr": "il se serait ouvert à", "es": "se habría abierto a las", "uk": "він розімкнувся б о"} {
		b.cookies[cookieLang] = lang
		w.db.Exec(t, `UPDATE users SET locale = $1`, lang)
		require.Contains(t, b.get("/providers/atlas/charge/tuning?failures=8&window=120&range=1h&open_for=900").body, want)
	}
}

func TestTuningOwesEverybodyTheSame(t *testing.T) {
	t.Parallel()
	newWebtest(t).exercise(page{method: "GET", path: "/providers/atlas/charge/tuning", role: store.RoleSupport,
		absent: "/providers/nobody/charge/tuning", bad: "/providers/atlas/charge/tuning?failures=x"})
}
