package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
)

func goodEnv(extra ...string) []string {
	return append([]string{
		"DATABASE_URL=postgres://u:p@127.0.0.1/db", "REDIS_URL=redis://127.0.0.1:6379",
		"FUSEBOX_PROVIDERS=atlas, birch",
		"PROVIDER_ATLAS_BASE_URL=http://127.0.0.1:9000", "PROVIDER_ATLAS_API_KEY=k1", "PROVIDER_ATLAS_WEBHOOK_SECRETS=s1,s0",
		"PROVIDER_BIRCH_BASE_URL=http://127.0.0.1:9001", "PROVIDER_BIRCH_API_KEY=k2", "PROVIDER_BIRCH_WEBHOOK_SECRETS=s2",
	}, extra...)
}

func TestConfigReadsProviders(t *testing.T) {
	t.Parallel()
	c, err := loadConfig(goodEnv("PROVIDER_BIRCH_ANSWER_TIMEOUT=3s", "PROVIDER_BIRCH_RETRY_PAUSES=1s,2s", "FUSEBOX_CIRCUIT_FAILURES=7"))
	require.NoError(t, err)
	require.Len(t, c.providers, 2)
	atlas, birch := c.providers[0], c.providers[1]
	require.Equal(t, "atlas", atlas.Name)
	require.Equal(t, []string{"s1", "s0"}, atlas.WebhookSecrets)
	require.Equal(t, 2*time.Second, atlas.ConnectTimeout)
	require.Equal(t, 5*time.Second, atlas.AnswerTimeout)
	require.Equal(t, 3*time.Second, birch.AnswerTimeout)
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, birch.RetryPauses)
	require.Equal(t, 7, c.circuit(breaker.Key{Name: "atlas", Class: classCharge}).Failures)
}

// TestConfigBadIsRefusedByName: what is wrong is refused at start, and the error
// names the setting and never shows a secret.
func TestConfigBadIsRefusedByName(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"FUSEBOX_SWEEP_EVERY=soon":                 "FUSEBOX_SWEEP_EVERY",
		"FUSEBOX_SWEEP_EVERY=-1s":                  "FUSEBOX_SWEEP_EVERY",
		"FUSEBOX_DB_CONNS=many":                    "FUSEBOX_DB_CONNS",
		"FUSEBOX_DB_CONNS=1":                       "FUSEBOX_DB_CONNS",
		"FUSEBOX_LOG_LEVEL=loud":                   "FUSEBOX_LOG_LEVEL",
		"FUSEBOX_LOG_FORMAT=xml":                   "FUSEBOX_LOG_FORMAT",
		"FUSEBOX_CIRCUIT_FAILURES=0":               "FUSEBOX_CIRCUIT_FAILURES",
		"FUSEBOX_PUBLIC_URL=pay.example.org":       "FUSEBOX_PUBLIC_URL",
		"FUSEBOX_SLACK_URL=ftp://example.org/hook": "FUSEBOX_SLACK_URL",
		"FUSEBOX_TRUSTED_PROXIES=10.0.0.1":         "FUSEBOX_TRUSTED_PROXIES",
		"FUSEBOX_SWEEP_EVRY=1m":                    "FUSEBOX_SWEEP_EVRY: no such setting",
		"PROVIDER_ATLAS_BASE_URL=not a url":        "PROVIDER_ATLAS_BASE_URL",
		"PROVIDER_ATLAS_ANSWER_TIMEOUT=fast":       "PROVIDER_ATLAS_ANSWER_TIMEOUT",
		"PROVIDER_ATLAS_ANSWER_TIMEOUT=1s":         "PROVIDER_ATLAS_", // shorter than connect
		"PROVIDER_ATLAS_WEBHOOK_SECRETS=":          "PROVIDER_ATLAS_WEBHOOK_SECRETS",
		"PROVIDER_ATLAS_KIND=abacus":               "PROVIDER_ATLAS_KIND",
		"PROVIDER_ATLAS_ON_ABSENT=shrug":           "PROVIDER_ATLAS_ON_ABSENT",
		"PROVIDER_ATLAS_CHARGE_WORKERS=-2":         "PROVIDER_ATLAS_CHARGE_WORKERS",
		"PROVIDER_CEDAR_API_KEY=x":                 "PROVIDER_CEDAR_API_KEY: no such setting",
		"FUSEBOX_PROVIDERS=atlas,birch,atlas":      "FUSEBOX_PROVIDERS",
		"FUSEBOX_PROVIDERS=atlas,birch,Bad Name!":  `FUSEBOX_PROVIDERS: "Bad Name!"`,
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			_, err := loadConfig(goodEnv(setting))
			require.ErrorContains(t, err, want)
		})
	}
}

func TestConfigServicesAreRequiredWithoutShowingSecrets(t *testing.T) {
	t.Parallel()
	c, err := loadConfig(nil)
	require.NoError(t, err)
	require.ErrorContains(t, c.requireDatabase(), "DATABASE_URL")
	require.ErrorContains(t, c.requireRedis(), "REDIS_URL")
	c, err = loadConfig([]string{"DATABASE_URL=mysql://root:hunter2@localhost/x"})
	require.NoError(t, err)
	require.ErrorContains(t, c.requireDatabase(), "DATABASE_URL")
	require.NotContains(t, c.requireDatabase().Error(), "hunter2")
}
