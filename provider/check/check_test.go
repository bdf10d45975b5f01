package check_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/check"
	"fusebox/provider/gateway"
	"fusebox/provider/simulator"
)

// atlas is a simulated provider and an adapter with its credentials.
func atlas(t *testing.T, change func(*provider.Settings)) check.Options {
	t.Helper()
	sim, err := simulator.Start(context.Background(), simulator.Options{Name: "atlas", APIKey: "key", WebhookSecrets: []string{"whsec-7f3"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sim.Close() })
	s := provider.Settings{Name: "atlas", BaseURL: sim.URL(), APIKey: "key", WebhookSecrets: []string{"whsec-7f3"}}.WithDefaults()
	if change != nil {
		change(&s)
	}
	return options(t, s)
}

func options(t *testing.T, s provider.Settings) check.Options {
	t.Helper()
	s.WebhookSecrets = []string{"whsec-7f3"}
	a, err := gateway.New(s, gateway.Options{})
	require.NoError(t, err)
	return check.Options{Settings: s, Adapter: a, Deliveries: &check.Deliveries{LastVerified: time.Now().Add(-time.Minute), LastSecret: "1"}}
}

// results are the findings by check.
func results(o check.Options) map[string]check.Finding {
	m := map[string]check.Finding{}
	for _, f := range check.Run(context.Background(), o) {
		m[f.Check] = f
	}
	return m
}

func TestARightProviderPassesEveryCheck(t *testing.T) {
	t.Parallel()
	list := check.Run(context.Background(), atlas(t, nil))
	require.Len(t, list, 4)
	for _, f := range list {
		require.Equal(t, check.OK, f.Result, "%s: %s", f.Check, f.Detail)
		require.NotContains(t, f.Detail, "whsec", "secrets are named by number")
	}
	require.False(t, check.Failed(list))
}

func TestAWrongKeyIsRefusedCredentials(t *testing.T) {
	t.Parallel()
	f := results(atlas(t, func(s *provider.Settings) { s.APIKey = "another" }))["credentials"]
	require.Equal(t, check.Fail, f.Result)
	require.Contains(t, f.Detail, "unauthorized")
	require.NotContains(t, f.Detail, "another")
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	list := check.Run(context.Background(), options(t, provider.Settings{Name: "atlas", BaseURL: "http://" + l.Addr().String(), APIKey: "k"}.WithDefaults()))
	require.Len(t, list, 2, "what depends on an answer is not asked")
	require.Equal(t, check.Fail, list[0].Result)
	require.Contains(t, list[0].Detail, "refused")
	require.True(t, check.Failed(list))
}

func TestClockRedirectsAndCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	handler := func(off time.Duration, location string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", now.Add(off).UTC().Format(http.TimeFormat))
			if location != "" {
				w.Header().Set("Location", location)
				w.WriteHeader(http.StatusFound)
			}
		})
	}
	at := func(off time.Duration, location string) map[string]check.Finding {
		srv := httptest.NewServer(handler(off, location))
		t.Cleanup(srv.Close)
		return results(options(t, provider.Settings{Name: "atlas", BaseURL: srv.URL, APIKey: "k"}.WithDefaults()))
	}
	require.Equal(t, check.OK, at(0, "")["clock"].Result)
	f := at(-time.Minute, "")["clock"]
	require.Equal(t, check.Warn, f.Result)
	require.Contains(t, f.Detail, "ahead")
	f = at(time.Hour, "")["clock"]
	require.Equal(t, check.Fail, f.Result)
	require.Contains(t, f.Detail, "behind")

	f = at(0, "https://user:pass@elsewhere.example/v2?key=1")["reachable"]
	require.Equal(t, check.Fail, f.Result)
	require.Contains(t, f.Detail, "https://elsewhere.example/v2")
	require.NotContains(t, f.Detail, "pass")

	untrusted := httptest.NewTLSServer(handler(0, ""))
	t.Cleanup(untrusted.Close)
	f = results(options(t, provider.Settings{Name: "atlas", BaseURL: untrusted.URL, APIKey: "k"}.WithDefaults()))["reachable"]
	require.Equal(t, check.Fail, f.Result)
	require.Contains(t, f.Detail, "not trusted")
}

func TestWebhookSecretIsJudgedByDeliveries(t *testing.T) {
	t.Parallel()
	o := atlas(t, nil)
	for _, c := range []struct {
		d    *check.Deliveries
		want check.Result
		says string
	}{
		{nil, check.Warn, "DATABASE_URL"},
		{&check.Deliveries{}, check.Warn, "/webhooks/atlas"},
		{&check.Deliveries{Rejected: 3, RejectedWhy: "invalid"}, check.Fail, "WEBHOOK_SECRETS"},
		{&check.Deliveries{LastVerified: time.Now().Add(-time.Hour), LastSecret: "1"}, check.OK, "secret 1 of 1"},
		{&check.Deliveries{LastVerified: time.Now().Add(-time.Hour), LastSecret: "1", Rejected: 1, RejectedWhy: "too_old"}, check.Warn, "too_old"},
		{&check.Deliveries{LastVerified: time.Now().Add(-48 * time.Hour), LastSecret: "2"}, check.Warn, "idle"},
	} {
		o.Deliveries = c.d
		f := results(o)["webhooks"]
		require.Equal(t, c.want, f.Result, f.Detail)
		require.Contains(t, f.Detail, c.says)
	}
}
