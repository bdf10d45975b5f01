package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/breaker"
	"fusebox/jobs"
	"fusebox/provider/simulator"
)

func circuitOf(t *testing.T, name, class string, extra ...string) breaker.Settings {
	t.Helper()
	c, err := loadConfig(goodEnv(extra...))
	require.NoError(t, err)
	return c.circuit(breaker.Key{Name: name, Class: class})
}

// TestCircuitsHaveEveryRuleOn: without a word in the environment, all rules of the
// breaker are on, and both classes are settings that the breaker accepts.
func TestCircuitsHaveEveryRuleOn(t *testing.T) {
	t.Parallel()
	for _, class := range []string{classCharge, classStatus} {
		s := circuitOf(t, "atlas", class)
		require.NoError(t, s.Validate())
		require.Positive(t, s.Failures)
		require.Positive(t, s.Rate)
		require.Positive(t, s.SlowRate)
		require.Less(t, s.SlowCall, 5*time.Second, "an answer within the timeout can be slow")
		require.Greater(t, s.Backoff, 1.0)
		require.Positive(t, s.Jitter)
		require.Positive(t, s.RampFor)
		require.Equal(t, 2, s.Quorum)
		require.Zero(t, s.MaxInFlight)
	}
	charge, status := circuitOf(t, "atlas", classCharge), circuitOf(t, "atlas", classStatus)
	require.Less(t, status.OpenFor, charge.OpenFor, "lookups settle what is unknown: they come back sooner")
	require.Less(t, status.OpenMax, charge.OpenMax)
	require.NoError(t, func() error {
		c, err := loadConfig(goodEnv())
		require.NoError(t, err)
		return c.circuit(breaker.Key{Name: "nobody", Class: classCharge}).Validate()
	}())
}

// TestCircuitLeasesOutliveEveryCall: with any answer timeout that a provider may have,
// a slot never frees itself under a call, and half-open never ends before its probe.
func TestCircuitLeasesOutliveEveryCall(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"2500ms", "5s", "30s", "2m"} {
		c, err := loadConfig(goodEnv("PROVIDER_BIRCH_ANSWER_TIMEOUT=" + answer))
		require.NoError(t, err)
		for _, p := range c.providers {
			for _, class := range []string{classCharge, classStatus} {
				s := c.circuit(breaker.Key{Name: p.Name, Class: class})
				require.NoError(t, s.Validate())
				require.GreaterOrEqual(t, s.LeaseTTL, jobs.PermitHeld(p, class))
				require.GreaterOrEqual(t, s.ProbeTTL, jobs.PermitHeld(p, class))
				require.Greater(t, s.HalfOpenFor, s.ProbeTTL)
				require.Greater(t, s.ProbeTTL, p.AnswerTimeout)
			}
		}
	}
}

// TestCircuitSettingsLayer: all circuits, one provider's, its lookups': the more
// special setting wins, and a zero is a value.
func TestCircuitSettingsLayer(t *testing.T) {
	t.Parallel()
	env := []string{
		"FUSEBOX_CIRCUIT_FAILURES=9", "FUSEBOX_CIRCUIT_RATE=0", "FUSEBOX_CIRCUIT_OPEN_FOR=2s", "FUSEBOX_CIRCUIT_RAMP_FOR=0s",
		"FUSEBOX_CIRCUIT_SLOW=0s", "FUSEBOX_CIRCUIT_WINDOW=90s", "FUSEBOX_CIRCUIT_QUORUM=3",
		"PROVIDER_BIRCH_CIRCUIT_FAILURES=4", "PROVIDER_BIRCH_STATUS_CIRCUIT_FAILURES=2", "PROVIDER_BIRCH_CIRCUIT_SLOW=1s",
		"PROVIDER_BIRCH_CIRCUIT_SLOW_RATE=0.9", "PROVIDER_BIRCH_MAX_IN_FLIGHT=12", "PROVIDER_BIRCH_STATUS_MAX_IN_FLIGHT=3",
	}
	atlas := circuitOf(t, "atlas", classCharge, env...)
	require.Equal(t, 9, atlas.Failures)
	require.Equal(t, 9, circuitOf(t, "atlas", classStatus, env...).Failures)
	require.Zero(t, atlas.Rate)
	require.Zero(t, atlas.SlowCall)
	require.Zero(t, atlas.SlowRate, "half of the rule off is the rule off")
	require.Zero(t, atlas.RampFor)
	require.Equal(t, 90*time.Second, atlas.Window)
	require.Equal(t, 3, atlas.Quorum)
	require.Equal(t, 20*time.Second, atlas.OpenMax, "grows with the open time unless set")
	birch, lookups := circuitOf(t, "birch", classCharge, env...), circuitOf(t, "birch", classStatus, env...)
	require.Equal(t, 4, birch.Failures)
	require.Equal(t, 2, lookups.Failures)
	require.Equal(t, time.Second, birch.SlowCall)
	require.InDelta(t, 0.9, birch.SlowRate, 1e-9)
	require.Equal(t, 12, birch.MaxInFlight)
	require.Equal(t, 3, lookups.MaxInFlight)
	require.Zero(t, atlas.MaxInFlight)
}

// TestCircuitsBadAreRefusedByName: what cannot work is refused at start, by the
// setting that a person has to change.
func TestCircuitsBadAreRefusedByName(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"FUSEBOX_CIRCUIT_FAILURES=many":               `FUSEBOX_CIRCUIT_FAILURES: "many" is not a valid`,
		"FUSEBOX_CIRCUIT_FAILURES=0":                  "FUSEBOX_CIRCUIT_FAILURES: 0",
		"FUSEBOX_CIRCUIT_WINDOW=25h":                  "FUSEBOX_CIRCUIT_WINDOW: 25h",
		"FUSEBOX_CIRCUIT_RATE=1.5":                    "FUSEBOX_CIRCUIT_RATE: 1.5",
		"FUSEBOX_CIRCUIT_RATE=NaN":                    "FUSEBOX_CIRCUIT_RATE: NaN",
		"FUSEBOX_CIRCUIT_SLOW_RATE=-1":                "FUSEBOX_CIRCUIT_SLOW_RATE: -1",
		"FUSEBOX_CIRCUIT_MIN_CALLS=0":                 "FUSEBOX_CIRCUIT_MIN_CALLS: 0",
		"FUSEBOX_CIRCUIT_RATE_WINDOW=6m":              "FUSEBOX_CIRCUIT_RATE_WINDOW: 6m",
		"FUSEBOX_CIRCUIT_RATE_WINDOW=1500ms":          "FUSEBOX_CIRCUIT_RATE_WINDOW: 1.5s",
		"FUSEBOX_CIRCUIT_SLOW=5s":                     "FUSEBOX_CIRCUIT_SLOW: 5s is not below PROVIDER_ATLAS_ANSWER_TIMEOUT",
		"PROVIDER_BIRCH_CIRCUIT_SLOW=7s":              "PROVIDER_BIRCH_CIRCUIT_SLOW: 7s is not below PROVIDER_BIRCH_ANSWER_TIMEOUT",
		"FUSEBOX_CIRCUIT_OPEN_FOR=0s":                 "FUSEBOX_CIRCUIT_OPEN_FOR: 0s",
		"FUSEBOX_CIRCUIT_OPEN_MAX=1s":                 "FUSEBOX_CIRCUIT_OPEN_MAX: 1s is below FUSEBOX_CIRCUIT_OPEN_FOR",
		"FUSEBOX_CIRCUIT_BACKOFF=0.5":                 "FUSEBOX_CIRCUIT_BACKOFF: 0.5",
		"FUSEBOX_CIRCUIT_JITTER=0.6":                  "FUSEBOX_CIRCUIT_JITTER: 0.6",
		"FUSEBOX_CIRCUIT_SUCCESSES=2":                 "FUSEBOX_CIRCUIT_PROBES: 1 is below FUSEBOX_CIRCUIT_SUCCESSES (2)",
		"PROVIDER_ATLAS_STATUS_CIRCUIT_SUCCESSES=3":   "below PROVIDER_ATLAS_STATUS_CIRCUIT_SUCCESSES (3)",
		"FUSEBOX_CIRCUIT_PROBES=0":                    "FUSEBOX_CIRCUIT_PROBES: 0",
		"FUSEBOX_CIRCUIT_HALF_OPEN_FOR=1s":            "FUSEBOX_CIRCUIT_HALF_OPEN_FOR: 1s",
		"FUSEBOX_CIRCUIT_QUORUM=0":                    "FUSEBOX_CIRCUIT_QUORUM: 0",
		"FUSEBOX_CIRCUIT_ACTIVE_FOR=0s":               "FUSEBOX_CIRCUIT_ACTIVE_FOR: 0s",
		"FUSEBOX_CIRCUIT_RAMP_FOR=-1s":                "FUSEBOX_CIRCUIT_RAMP_FOR: -1s",
		"FUSEBOX_CIRCUIT_RAMP_START=0":                "FUSEBOX_CIRCUIT_RAMP_START: 0",
		"PROVIDER_ATLAS_CIRCUIT_RAMP_START=60":        "FUSEBOX_CIRCUIT_RAMP_FULL: 50 is below PROVIDER_ATLAS_CIRCUIT_RAMP_START",
		"PROVIDER_ATLAS_MAX_IN_FLIGHT=-1":             "PROVIDER_ATLAS_MAX_IN_FLIGHT: -1",
		"PROVIDER_ATLAS_STATUS_MAX_IN_FLIGHT=-4":      "PROVIDER_ATLAS_STATUS_MAX_IN_FLIGHT: -4",
		"PROVIDER_ATLAS_MAX_IN_FLIGHT=lots":           `PROVIDER_ATLAS_MAX_IN_FLIGHT: "lots"`,
		"FUSEBOX_CIRCUIT_FALIURES=3":                  "FUSEBOX_CIRCUIT_FALIURES: no such setting",
		"PROVIDER_CEDAR_CIRCUIT_FAILURES=3":           "PROVIDER_CEDAR_CIRCUIT_FAILURES: no such setting",
		"FUSEBOX_PROVIDERS=atlas,birch,atlas-status,": `FUSEBOX_PROVIDERS: the settings of "atlas-status" and of the lookups of "atlas"`,
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			_, err := loadConfig(goodEnv(setting))
			require.ErrorContains(t, err, want)
		})
	}
	_, err := loadConfig(goodEnv("FUSEBOX_CIRCUIT_JITTER=2"))
	require.Equal(t, "FUSEBOX_CIRCUIT_JITTER: 2 is not 0 to 0.5", err.Error(), "said once, not once per circuit")
}

// TestCircuitSettingsAcceptedAreValid: whatever passes the start-up check is accepted
// by the breaker, which would otherwise fall back to its defaults.
func TestCircuitSettingsAcceptedAreValid(t *testing.T) {
	t.Parallel()
	names := []string{"FAILURES", "MIN_CALLS", "PROBES", "SUCCESSES", "QUORUM"}
	spans := []string{"WINDOW", "RATE_WINDOW", "SLOW", "OPEN_FOR", "OPEN_MAX", "HALF_OPEN_FOR", "ACTIVE_FOR", "RAMP_FOR"}
	shares := []string{"RATE", "SLOW_RATE", "BACKOFF", "JITTER", "RAMP_START", "RAMP_FULL"}
	rapid.Check(t, func(t *rapid.T) {
		var env []string
		set := func(name, v string) {
			prefix := rapid.SampledFrom([]string{allCircuits, "PROVIDER_ATLAS_CIRCUIT_", "PROVIDER_BIRCH_STATUS_CIRCUIT_"}).Draw(t, "prefix")
			env = append(env, prefix+name+"="+v)
		}
		for range rapid.IntRange(0, 6).Draw(t, "settings") {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				set(rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom([]string{"-1", "0", "1", "2", "7", "2000"}).Draw(t, "n"))
			case 1:
				set(rapid.SampledFrom(spans).Draw(t, "name"), rapid.SampledFrom([]string{"-1s", "0s", "1ms", "2s", "90s", "10m", "30h"}).Draw(t, "d"))
			default:
				set(rapid.SampledFrom(shares).Draw(t, "name"), rapid.SampledFrom([]string{"-1", "0", "0.3", "1", "2.5", "80"}).Draw(t, "f"))
			}
		}
		c, err := loadConfig(goodEnv(env...))
		if err != nil {
			return // refused, and by name: TestCircuitsBadAreRefusedByName
		}
		for _, p := range c.providers {
			for _, class := range []string{classCharge, classStatus} {
				if err := c.circuit(breaker.Key{Name: p.Name, Class: class}).Validate(); err != nil {
					t.Fatalf("%v: %v", env, err)
				}
			}
		}
	})
}

// TestDemoCircuitsFitTheDemo: the demo's pace is accepted with the demo's timeouts, and
// what a person sets in the environment wins.
func TestDemoCircuitsFitTheDemo(t *testing.T) {
	t.Parallel()
	c, err := loadConfig(goodEnv("FUSEBOX_CIRCUIT_OPEN_FOR=3s"))
	require.NoError(t, err)
	for i := range c.providers {
		c.providers[i].ConnectTimeout, c.providers[i].AnswerTimeout = 500*time.Millisecond, 1500*time.Millisecond
	}
	c.circuits.suggest(demoCircuits)
	require.NoError(t, c.validateCircuits())
	s := c.circuit(breaker.Key{Name: "atlas", Class: classCharge})
	require.Equal(t, 3*time.Second, s.OpenFor)
	require.Equal(t, 12*time.Second, s.OpenMax)
	require.Equal(t, 800*time.Millisecond, s.SlowCall)
	for turn := range 2 {
		var long time.Duration
		for _, ph := range outagePhases(50*time.Second, turn) {
			require.NoError(t, simulator.Faults{Outage: ph.mode}.Validate())
			long += ph.long
		}
		require.Equal(t, 50*time.Second, long)
		require.Equal(t, simulator.OutageCharges, outagePhases(time.Minute, turn)[0].mode, "while lookups still answer")
	}
}
