package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/store/storetest"
	opcircuits "fusebox/web/circuits"
)

var whatIfNow = time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)

func TestWhatIfReadsItsFlags(t *testing.T) {
	t.Parallel()
	c, err := readWhatIf([]string{"--provider", "atlas", "--failures", "8", "--window", "60s", "--since", "2h", "--json"}, whatIfNow)
	require.NoError(t, err)
	require.Equal(t, breaker.Key{Name: "atlas", Class: "charge"}, c.key)
	require.Equal(t, whatIfNow.Add(-2*time.Hour), c.from)
	require.True(t, c.asJSON)
	inForce := breaker.Recommended(5 * time.Second).WithDefaults()
	s, err := c.settings(inForce)
	require.NoError(t, err)
	want := inForce
	want.Failures, want.Window = 8, time.Minute
	require.Equal(t, want, s, "what is not given stays as it is in force")

	c, err = readWhatIf([]string{"--provider", "atlas", "--class", "status", "--from", "2026-03-02T10:00:00Z", "--to", "2026-03-02T11:00:00Z"}, whatIfNow)
	require.NoError(t, err)
	require.Equal(t, time.Hour, c.to.Sub(c.from))
}

func TestWhatIfRefusesBadFlagsByName(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--provider: is required":                 {},
		`--class: "refund" is not one of`:         {"--provider", "a", "--class", "refund"},
		"--since: must be positive":               {"--provider", "a", "--since", "-1h"},
		"--since and --from: give one of them":    {"--provider", "a", "--since", "1h", "--from", "2026-03-02T10:00:00Z"},
		`--from: "yesterday" is not a time like`:  {"--provider", "a", "--from", "yesterday"},
		`--to: "now" is not a time like`:          {"--provider", "a", "--to", "now"},
		"--from: is not before --to":              {"--provider", "a", "--from", "2026-03-02T10:00:00Z", "--to", "2026-03-02T09:00:00Z"},
		`"atlas" is no flag`:                      {"--provider", "a", "atlas"},
		`invalid value "many" for flag -failures`: {"--provider", "a", "--failures", "many"},
	} {
		_, err := readWhatIf(args, whatIfNow)
		require.ErrorContains(t, err, want)
	}
	for want, args := range map[string][]string{
		"--failures: must be 0 to 1,000":  {"--failures", "-1"},
		"--rate: must be 0 % to 100 %":    {"--rate", "1.5"},
		"--min-calls: must be 1 to":       {"--min-calls", "0"},
		"--open-for: must be 1 s to 24 h": {"--open-for", "0s"},
		"nothing could open it":           {"--failures", "0", "--rate", "0", "--slow", "0s"},
	} {
		c, err := readWhatIf(append([]string{"--provider", "a"}, args...), whatIfNow)
		require.NoError(t, err)
		_, err = c.settings(breaker.Recommended(5 * time.Second))
		require.ErrorContains(t, err, want)
	}
}

// history is an outage in a database: failures for two minutes until the real circuit
// opens, and health after it.
func history(t *testing.T) *storetest.DB {
	t.Helper()
	db := storetest.New(t)
	db.Exec(t, `INSERT INTO call_outcomes (at, provider, class, verdict, outcome, error_class, latency_us, worker)
		SELECT $1::timestamptz + i * interval '10 seconds', 'atlas', 'charge', CASE WHEN i BETWEEN 30 AND 42 THEN 'fail' ELSE 'ok' END, 'x', 'timeout', 100000, 'w1'
		FROM generate_series(0, 120) i WHERE i NOT BETWEEN 43 AND 60`, whatIfNow.Add(-time.Hour))
	s := store.New(db.Pool, store.Options{Enqueuer: storetest.NewJobs(t, db)})
	for _, e := range []store.BreakerEvent{
		{Epoch: "1", From: "closed", To: "open", Reason: breaker.ReasonConsecutive, At: whatIfNow.Add(-53 * time.Minute)},
		{Epoch: "2", From: "half_open", To: "closed", Reason: breaker.ReasonProbesSucceeded, At: whatIfNow.Add(-50 * time.Minute)},
	} {
		e.Provider, e.Class = "atlas", "charge"
		_, err := s.RecordBreakerEvent(t.Context(), e)
		require.NoError(t, err)
	}
	return db
}

func TestWhatIfNeedsNothingButTheBooks(t *testing.T) {
	t.Parallel()
	db := history(t)
	cfg, err := loadConfig([]string{"DATABASE_URL=" + db.DSN, "FUSEBOX_PROVIDERS=atlas",
		"PROVIDER_ATLAS_BASE_URL=http://127.0.0.1:1", "PROVIDER_ATLAS_API_KEY=k", "PROVIDER_ATLAS_WEBHOOK_SECRETS=s"})
	require.NoError(t, err)
	args := []string{"--provider", "atlas", "--failures", "4", "--window", "60s", "--rate", "0", "--slow", "0s",
		"--from", whatIfNow.Add(-2 * time.Hour).Format(time.RFC3339), "--to", whatIfNow.Format(time.RFC3339)}
	c, err := readWhatIf(args, whatIfNow)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, c.run(t.Context(), cfg, &out))
	require.Contains(t, out.String(), "atlas/charge, 2026-03-02 13:00:00 to 2026-03-02 15:00:00 UTC, 103 calls\n")
	require.Contains(t, out.String(), "Replayed: 4 failures in 1 min.\nWith 4 failures in 1 min and no failure rate and no rule for slow calls it would have opened at 14:05:30, 1 min earlier. 8 failed calls saved.")
	require.Regexp(t, `(?m)^replayed  14:05:30Z  .* failures_in_window +1 min earlier$`, out.String())
	require.Regexp(t, `(?m)^real      14:07:00Z  14:10:00Z +consecutive_failures`, out.String())
	require.Contains(t, out.String(), "What this replay cannot know:\n- Calls that the open circuit blocked have no outcome.")
	require.NotContains(t, out.String(), "\u00a0")

	c.asJSON = true
	out.Reset()
	require.NoError(t, c.run(t.Context(), cfg, &out))
	var j reportJSON
	require.NoError(t, json.Unmarshal(out.Bytes(), &j))
	require.Equal(t, 103, j.Calls)
	require.Len(t, j.Replayed, 1)
	require.Equal(t, "earlier", j.Replayed[0].Compared)
	require.True(t, *j.Replayed[0].Sound)
	require.InDelta(t, 90, j.Replayed[0].Earlier, 0)
	require.Len(t, j.Real, 1)
	require.Nil(t, j.Real[0].Sound, "only a replay has to be proved")
	require.NotEmpty(t, j.Cannot)

	c.key.Name = "nobody"
	require.ErrorContains(t, c.run(t.Context(), cfg, &out), `--provider: "nobody" is not in FUSEBOX_PROVIDERS`)
}

func TestWhatIfPrintsAnOpenPeriodAndAPersons(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	at := whatIfNow.Add(-30 * time.Hour)
	require.NoError(t, printReport(&out, opcircuits.Report{Key: breaker.Key{Name: "atlas", Class: "status"}, From: at, To: whatIfNow, Calls: 3,
		Settings: breaker.Settings{}.WithDefaults(),
		Real:     []opcircuits.RealOpening{{Period: opcircuits.Period{At: at, Reason: "forced_open"}, ByHand: true}}}))
	require.Contains(t, out.String(), "2026-03-01 09:00:00Z  still open  forced_open  by a person, not by settings")
}
