package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/provider"
	"fusebox/provider/paypal"
	"fusebox/store"
	"fusebox/store/storetest"
)

// TestTokenCircuitSettings: those of a call that moves no money, whatever is set for
// circuits of charges, and always such as can work.
func TestTokenCircuitSettings(t *testing.T) {
	t.Parallel()
	k := breaker.Key{Name: "birch", Class: provider.ClassToken}
	c, err := loadConfig(goodEnv())
	require.NoError(t, err)
	s := c.circuit(k)
	require.NoError(t, s.Validate())
	require.Equal(t, 5, s.Failures)
	require.Equal(t, time.Minute, s.Window)
	require.Equal(t, 2*time.Minute, s.OpenFor)
	require.Zero(t, s.Rate)

	c, err = loadConfig(goodEnv("FUSEBOX_CIRCUIT_OPEN_MAX=1m", "FUSEBOX_CIRCUIT_SLOW_RATE=0.9", "FUSEBOX_CIRCUIT_FAILURES=7",
		"PROVIDER_BIRCH_CIRCUIT_OPEN_FOR=40s"))
	require.NoError(t, err)
	s = c.circuit(k)
	require.NoError(t, s.Validate())
	require.Equal(t, 7, s.Failures)
	require.Equal(t, 40*time.Second, s.OpenFor)
	require.Zero(t, s.SlowRate)
}

// TestGuard: what an adapter knows of a circuit in Redis.
func TestGuard(t *testing.T) {
	t.Parallel()
	redis := breakertest.Start(t)
	client, err := breaker.NewClient(redis.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	a := &app{}
	k := breaker.Key{Name: "paypal-eu", Class: provider.ClassToken}
	guard := a.guard(k)
	report, err := guard(t.Context())
	require.NoError(t, err, "a process without circuits lets calls through")
	report(provider.HealthFail, time.Second, "http_503")

	a.circuits = breaker.NewRedis(client, breaker.Options{
		Settings: func(breaker.Key) breaker.Settings {
			return breaker.Settings{Failures: 2, OpenFor: time.Hour, Quorum: 1}
		},
		Names: []string{"paypal-eu"}, Worker: "one", Timeout: 5 * time.Second, Log: discard,
	})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		report, err := guard(ctx)
		require.NoError(t, err)
		cancel() // who asked may be gone when the answer comes
		report(provider.HealthFail, time.Second, "http_503")
	}
	_, err = guard(t.Context())
	var held *provider.HeldBackError
	require.ErrorAs(t, err, &held)
	require.Greater(t, held.RetryAfter, 59*time.Minute)
	require.ErrorContains(t, err, "paypal-eu/token")
	var denied *breaker.Denied
	require.ErrorAs(t, err, &denied)
}

// TestTokenCallsAreRecorded: the call that fetches a token stands among the provider's
// calls, in a class of its own, with nothing that is secret.
func TestTokenCallsAreRecorded(t *testing.T) {
	t.Parallel()
	redis := breakertest.Start(t)
	client, err := breaker.NewClient(redis.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	db := storetest.New(t)
	a := &app{log: discard, cfg: config{Worker: "one"}, store: store.New(db.Pool, store.Options{Log: discard})}
	a.circuits = breaker.NewRedis(client, breaker.Options{
		Settings: func(breaker.Key) breaker.Settings {
			return breaker.Settings{Failures: 9, OpenFor: time.Hour, Quorum: 1}
		},
		Names: []string{"paypal-eu"}, Worker: "one", Timeout: 5 * time.Second, Log: discard,
	})
	const secret, token = "the-secret-of-the-app", "A21AA-the-token"
	answers := make(chan int, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/oauth2/token" {
			_, _ = io.WriteString(w, `{"webhooks":[]}`)
			return
		}
		w.WriteHeader(<-answers)
		_, _ = io.WriteString(w, `{"access_token":"`+token+`","token_type":"Bearer","expires_in":32400}`)
	}))
	t.Cleanup(srv.Close)
	adapter, err := a.guarded()[paypal.Kind](provider.Settings{
		Name: "paypal-eu", BaseURL: srv.URL, APIKey: "client:" + secret, WebhookSecrets: []string{"8PT597110X687430LKGECATA"},
		AnswerTimeout: 30 * time.Second,
	})
	require.NoError(t, err)
	pinger, ok := provider.AsPinger(adapter)
	require.True(t, ok)

	answers <- http.StatusServiceUnavailable
	require.NotEqual(t, provider.HealthOK, pinger.Ping(t.Context()).Health)
	answers <- http.StatusOK
	require.Equal(t, provider.HealthOK, pinger.Ping(t.Context()).Health)
	rows, err := db.Pool.Query(t.Context(), `SELECT class, verdict, outcome, error_class, worker, latency_us > 0, to_jsonb(c)::text FROM call_outcomes c ORDER BY id`)
	require.NoError(t, err)
	type row struct {
		Class, Verdict, Outcome, Error, Worker string
		Took                                   bool
		All                                    string
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	require.Len(t, got, 2)
	for i := range got {
		require.NotContains(t, got[i].All, secret)
		require.NotContains(t, got[i].All, token)
		got[i].All = ""
	}
	require.Equal(t, []row{
		{Class: "token", Verdict: "fail", Outcome: "no_token", Error: "http_503", Worker: "one", Took: true},
		{Class: "token", Verdict: "ok", Outcome: "token", Worker: "one", Took: true},
	}, got)
	health, err := a.store.CallHealths(t.Context())
	require.NoError(t, err)
	require.Equal(t, "token", health[0].Class, "as the provider's page shows it")
	require.Equal(t, 2, health[0].Calls())
}
