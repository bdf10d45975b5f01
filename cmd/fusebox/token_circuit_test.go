package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/provider"
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
