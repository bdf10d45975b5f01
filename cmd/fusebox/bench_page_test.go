package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/cmd/fusebox/bench"
	"fusebox/store/storetest"
)

// TestBenchPageMeasuresEveryPage runs the benchmark on small books: every page answers,
// every figure is there, and more viewers than one are counted.
func TestBenchPageMeasuresEveryPage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := benchPage(t.Context(), []string{"--json", "--quiet", "--payments", "2000", "--webhooks", "2000", "--rounds", "1", "--watch", "5s"}, &out)
	require.NoError(t, err)
	var r bench.PageReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Greater(t, len(r.Pages), 20)
	for name, p := range r.Pages {
		require.Positive(t, p.P50, name)
		require.GreaterOrEqual(t, p.Max, p.P95, name)
		require.Positive(t, r.Queries[name].Statements, name)
	}
	require.Positive(t, r.Fetches["1"])
	require.Greater(t, r.Fetches["100"], 10*r.Fetches["1"], "the viewers look")
}

func TestBenchPageRefusesTooFewPayments(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, benchPage(t.Context(), []string{"--quiet", "--payments", "1"}, nil), "--payments: at least 1000")
}

// TestBenchPageLeavesBooksAlone: a database with payments in it is somebody's.
func TestBenchPageLeavesBooksAlone(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	db.SeedPayment(t, nil)
	o := bench.PageOptions{DatabaseURL: db.DSN, Payments: 1000, Events: 1, Rounds: 1, Watch: time.Second, Serve: servePages}
	require.ErrorContains(t, bench.Page(t.Context(), o, io.Discard), "give an empty one")
}
