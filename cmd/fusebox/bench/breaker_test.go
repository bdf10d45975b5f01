package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

// TestMain lets the test binary be the worker process that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "bench" && os.Args[2] == LeakWorker {
		var o LeakOptions
		fs := flag.NewFlagSet(LeakWorker, flag.ExitOnError)
		o.Bind(fs)
		err := errors.Join(fs.Parse(os.Args[3:]), RunLeakWorker(context.Background(), o, os.Stdin, os.Stdout))
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The whole benchmark, made short: every figure is there, nothing is lost, and no more
// calls leak than the threshold allows. How fast it is, a test does not judge.
func TestBreakerBenchmark(t *testing.T) {
	t.Parallel()
	server := breakertest.Start(t)
	var out, progress bytes.Buffer
	err := Breaker(t.Context(), BreakerOptions{RedisURL: server.URL(), Rounds: 1, For: 120 * time.Millisecond, JSON: true,
		Progress: &progress}, &out)
	require.NoError(t, err)
	var r BreakerReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Cells, 6)
	for _, c := range r.Cells {
		require.Len(t, c.Arms, map[int]int{0: 4, 50: 5}[c.WorkMS])
		ours := c.Arms["ours"]
		require.Positive(t, ours.Made)
		require.Equal(t, ours.Made, ours.Recorded, "no count is lost")
		require.Zero(t, ours.Errors)
		require.Positive(t, c.Arms["floor"].Made)
		require.Equal(t, -1, c.Arms["floor"].Recorded)
	}
	require.Positive(t, r.RatioVsFloor64)
	require.Positive(t, r.RatioVsGobreaker64)
	require.GreaterOrEqual(t, r.LeakedTotal, leakThreshold)
	require.LessOrEqual(t, r.LeakedTotal, leakThreshold+leakProcesses-1)
	require.Zero(t, r.LeakedAfterOpen)
	require.Contains(t, progress.String(), "64 goroutines")
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, keys, "it leaves nothing behind")

	out.Reset()
	require.NoError(t, r.print(&out))
	require.Contains(t, out.String(), "work 50 ms, 64 at once")
}

func TestBreakerBenchmarkRefusesNonsense(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Breaker(t.Context(), BreakerOptions{For: time.Second}, nil), "--rounds")
	require.ErrorContains(t, Breaker(t.Context(), BreakerOptions{Rounds: 1, For: 1, RedisURL: "nonsense"}, nil), "Redis URL")
}
