package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/store/storetest"
)

func TestHealthzNeedsNothing(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.breakDB()
	res := w.stranger().get("/healthz")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.JSONEq(t, `{"status":"ok","version":"test"}`, res.body)
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	res := w.stranger().get("/readyz")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.JSONEq(t, `{"status":"ready","version":"test","postgres":"ok","redis":"ok"}`, res.body)

	w.circuits.degraded = storetest.Epoch
	res = w.stranger().get("/readyz")
	require.Equal(t, http.StatusOK, res.StatusCode, "charging goes on without Redis")
	require.JSONEq(t, `{"status":"ready","version":"test","postgres":"ok","redis":"degraded","redis_degraded_since":"2026-03-02T14:02:11Z"}`, res.body)

	w.breakDB()
	res = w.stranger().get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Contains(t, res.body, `"not_ready"`)
	require.NotContains(t, res.body, "pool", "the reason is in the log")
	require.Contains(t, w.log.String(), "closed pool")
}

// scrape reads /metrics as Prometheus on this machine does.
func (w *webtest) scrape(header ...string) reply {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.RemoteAddr = "127.0.0.1:4711"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.do(r)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	since := w.clock.now().Add(-90 * time.Second)
	w.db.SeedPayment(t, func(p *store.Payment) { p.UnknownSince = &since; p.NeedsReview = []string{store.ReviewAged} })
	w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Pending; p.Provider = "borealis" })
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "charge"}, State: breaker.Open, Consecutive: 5})
	w.deliver(paidEvent, w.clock.now())
	w.stranger().get("/signin")
	w.stranger().send("BREW", "/nowhere/"+time.Now().String()[:4], nil, nil)

	res := w.scrape()
	require.Equal(t, http.StatusOK, res.StatusCode)
	for _, want := range []string{
		`fusebox_payments_open{provider="atlas",status="unknown"} 1`,
		`fusebox_payments_open{provider="borealis",status="pending"} 1`,
		`fusebox_payments_unknown_oldest_seconds{provider="atlas"} 90`,
		`fusebox_payments_needing_review 1`,
		`fusebox_webhook_inbox{provider="atlas",state="received"} 1`,
		`fusebox_circuit_state{class="charge",provider="atlas",state="open"} 1`,
		`fusebox_circuit_state{class="charge",provider="atlas",state="closed"} 0`,
		`fusebox_circuit_state{class="status",provider="borealis",state="closed"} 1`,
		`fusebox_circuit_consecutive_failures{class="charge",provider="atlas"} 5`,
		`fusebox_breaker_degraded 0`,
		`fusebox_books_readable 1`,
		`fusebox_webhook_deliveries_total{provider="atlas",signature="valid",state="received"} 1`,
		`fusebox_http_request_duration_seconds_count{method="GET",route="/signin",status="200"} 1`,
		`fusebox_http_request_duration_seconds_count{method="other",route="none",status="404"} 1`,
		"go_goroutines",
	} {
		require.Contains(t, res.body, want)
	}
}

func TestMetricsAreReadOncePerTenSeconds(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.scrape()
	w.db.SeedPayment(t, nil)
	require.NotContains(t, w.scrape().body, "fusebox_payments_open{", "still fresh")
	w.clock.advance(stateFresh)
	require.Contains(t, w.scrape().body, `fusebox_payments_open{provider="atlas",status="unknown"} 1`)
}

func TestMetricsWithoutADatabaseLeaveTheBooksOut(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.SeedPayment(t, nil)
	w.breakDB()
	res := w.scrape()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.body, "fusebox_books_readable 0")
	require.NotContains(t, res.body, "fusebox_payments_open{")
}

func TestMetricsAreNotForStrangers(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	require.Equal(t, http.StatusNotFound, w.stranger().get("/metrics").StatusCode, "from the public internet")
	require.Equal(t, http.StatusNotFound, w.scrape("X-Forwarded-For", "203.0.113.9").StatusCode, "through a proxy")

	guarded := newWebtest(t, func(c *Config) { c.MetricsToken = "s3cret" })
	require.Equal(t, http.StatusNotFound, guarded.scrape().StatusCode)
	require.Equal(t, http.StatusNotFound, guarded.scrape("Authorization", "Bearer nope").StatusCode)
	require.Equal(t, http.StatusOK, guarded.scrape("Authorization", "Bearer s3cret", "X-Forwarded-For", "203.0.113.9").StatusCode)
}

func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "10.1.2.3:1": true, "172.17.0.2:1": true, "[::ffff:192.168.1.1]:1": true,
		"203.0.113.9:1": false, "172.32.0.1:1": false, "[2001:db8::1]:1": false, "": false, "localhost:1": false,
	} {
		require.Equal(t, want, isPrivate(addr), addr)
	}
}
