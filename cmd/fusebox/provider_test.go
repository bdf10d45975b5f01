package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider/check"
	"fusebox/provider/simulator"
)

// TestProviderCheck: an operator learns what is wrong with a provider without moving money.
func TestProviderCheck(t *testing.T) {
	s := newShell(t)
	sim, err := simulator.Start(context.Background(), simulator.Options{Name: "atlas", APIKey: "right", WebhookSecrets: []string{"whsec-7f3"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sim.Close() })
	t.Setenv("PROVIDER_ATLAS_BASE_URL", sim.URL())
	t.Setenv("PROVIDER_ATLAS_API_KEY", "right")
	s.db.Exec(t, `INSERT INTO webhook_events (provider, event_key, raw, signature, secret_label, state, received_at, last_delivery_at)
		VALUES ('atlas', 'evt_1', '{}', 'valid', '1', 'applied', now(), now())`)
	out := s.ok("provider", "check", "atlas")
	require.Equal(t, 4, strings.Count(out, "ok  "), out)

	var list []check.Finding
	require.NoError(t, json.Unmarshal([]byte(s.ok("provider", "check", "--json", "atlas")), &list))
	require.Len(t, list, 4)

	t.Setenv("PROVIDER_ATLAS_API_KEY", "wrong")
	out, err = s.run("provider", "check", "atlas")
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, out, "fail  credentials")
	charges, err := sim.Charges()
	require.NoError(t, err)
	require.Empty(t, charges, "no money moved")

	_, err = s.run("provider", "check", "nobody")
	require.ErrorContains(t, err, "nobody")
	require.Contains(t, s.ok("provider", "list"), "atlas")
}
