package breaker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{{}, NonMoney(), Recommended(5 * time.Second), Recommended(30 * time.Second)} {
		require.NoError(t, s.Validate())
		require.Equal(t, s.WithDefaults(), s.WithDefaults().WithDefaults())
	}
	d := Settings{}.WithDefaults()
	require.Equal(t, 5, d.Failures)
	require.Equal(t, 30*time.Second, d.OpenFor)
	require.Equal(t, 1, d.Probes)
}

func TestValidateNamesTheSetting(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Settings{
		"Probes":      {Probes: 1, Successes: 2},
		"Failures":    {Failures: 1001},
		"no rule":     {Failures: -1},
		"Window":      {Window: -time.Second},
		"OpenFor":     {OpenFor: 25 * time.Hour},
		"OpenMax":     {OpenFor: time.Minute, OpenMax: time.Second},
		"Backoff":     {Backoff: 0.5},
		"Jitter":      {Jitter: 0.6},
		"ProbeTTL":    {ProbeTTL: time.Microsecond},
		"HalfOpenFor": {HalfOpenFor: time.Second},
		"Rate must":   {Rate: 1.1},
		"SlowRate":    {SlowCall: time.Second},
		"MinCalls":    {MinCalls: -1},
		"RateWindow":  {RateWindow: 1500 * time.Millisecond},
		"Quorum":      {Quorum: -1},
		"MaxInFlight": {MaxInFlight: -1},
		"ramp":        {RampFor: time.Second, RampStart: 9, RampFull: 3},
	} {
		require.ErrorContains(t, s.Validate(), want)
	}
}

func TestRefusedSettingsFallBackLoudly(t *testing.T) {
	t.Parallel()
	l := NewLocal(Options{Settings: func(Key) Settings { return Settings{Probes: 1, Successes: 9} }})
	s, err := l.Snapshot(context.Background(), charge)
	require.NoError(t, err)
	require.Equal(t, Settings{}.WithDefaults(), s.Settings)
}

func TestEncodedSettingsHoldNoExponent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t).WithDefaults()
		s.OpenFor = time.Duration(rapid.Int64Range(1e6, int64(24*time.Hour)).Draw(t, "open"))
		for _, f := range strings.Fields(s.encode()) {
			_, v, ok := strings.Cut(f, "=")
			require.True(t, ok)
			require.Regexp(t, `^[0-9]+(\.[0-9]+)?$`, v)
		}
	})
}

func TestReadableSettings(t *testing.T) {
	t.Parallel()
	got := readable(Recommended(5 * time.Second).WithDefaults().encode())
	require.Contains(t, got, "failures=5")
	require.Contains(t, got, "open_for=30s")
	require.Contains(t, got, "rate_window=60s")
	require.Contains(t, got, "rate=0.5")
	require.NotContains(t, got, "max_in_flight", "rules that are off are left out")
}
