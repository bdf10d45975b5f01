package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider/simulator"
)

// What the command prints is enough to use the provider, and a signal (an ended
// context) ends it cleanly.
func TestSimulateRunsUntilSignalled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	ledger := filepath.Join(t.TempDir(), "ledger.jsonl")
	go func() {
		err := simulate(ctx, []string{"-name", "atlas", "-ledger", ledger, "-webhook-secret", "whsec_new", "-webhook-secret", "whsec_old", "-fault", "decline=1"}, w)
		_ = w.Close() // a pipe's Close cannot fail
		ended <- err
	}()
	printed := map[string]string{}
	lines := bufio.NewScanner(r)
	for printed["ledger"] == "" && lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), ": ")
		require.True(t, ok, lines.Text())
		printed[name] = value
	}
	require.Equal(t, "atlas", printed["name"])
	require.Equal(t, "whsec_old", printed["webhook_secret"])
	require.Equal(t, ledger, printed["ledger"])

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, printed["url"]+"/payments",
		strings.NewReader(`{"reference":"p1","amount":4900,"currency":"EUR"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+printed["api_key"])
	req.Header.Set("Idempotency-Key", "k1")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusPaymentRequired, res.StatusCode)

	res, err = http.Get(printed["control"] + "/_sim/ledger")
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(body), `"reference":"p1"`)

	cancel()
	require.NoError(t, <-ended)
}

func TestSimulateOptions(t *testing.T) {
	t.Parallel()
	opts, list, err := simulateOptions([]string{"-preset", "settling", "-fault", "hang=0", "-outage", "refuse", "-no-keys", "-no-status-api", "-key-life", "1h", "-seed", "7"}, io.Discard)
	require.NoError(t, err)
	require.False(t, list)
	want := simulator.Settling().With(simulator.Hang, 0)
	require.Equal(t, want.Rates, opts.Faults.Rates)
	require.Equal(t, simulator.OutageRefuse, opts.Faults.Outage)
	require.True(t, opts.NoKeys && opts.NoStatusAPI)
	require.EqualValues(t, 7, opts.Seed)
	require.Equal(t, "1h0m0s", opts.KeyLife.String())
}

func TestSimulateRefusesBadFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"unknown fault":               {"-fault", "oops=0.1"},
		"must be between 0 and 1":     {"-fault", "hang=2"},
		"must be name=rate":           {"-fault", "hang"},
		"rate must be a number":       {"-fault", "hang=often"},
		"more than 1":                 {"-fault", "hang=0.6", "-fault", "slow=0.6"},
		"healthy, settling":           {"-preset", "chaos"},
		"none, refuse, black_hole":    {"-outage", "flood"},
		`unexpected argument "extra"`: {"extra"},
		"must not be empty":           {"-webhook-secret", ""},
		"webhook_url":                 {"-webhook-url", "nowhere"},
		"not defined":                 {"-nonsense"},
	} {
		require.ErrorContains(t, simulate(t.Context(), args, io.Discard), want)
	}
	require.ErrorIs(t, simulate(t.Context(), []string{"-h"}, io.Discard), flag.ErrHelp)
}

func TestSimulateListsFaults(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, simulate(t.Context(), []string{"-list-faults"}, &out))
	require.Equal(t, len(simulator.Catalogue()), strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "charged_then_502")
	require.Contains(t, out.String(), "66604")
}
