package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"junk":                           0,
		"-5":                             0,
		"1.5":                            0,
		"+3":                             0,
		"１０":                             0,
		"0":                              MinRetryAfter,
		"1":                              time.Second,
		" 120 ":                          2 * time.Minute,
		"900":                            15 * time.Minute,
		"901":                            MaxRetryAfter,
		"999999999":                      MaxRetryAfter,
		"99999999999999999999999":        MaxRetryAfter,
		"Sun, 01 Mar 2026 12:00:30 GMT":  30 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT":  MinRetryAfter,
		"Mon, 01 Mar 2027 12:00:00 GMT":  MaxRetryAfter,
		"Sunday, 01-Mar-26 12:00:30 GMT": 30 * time.Second,
		"Sun Mar  1 12:00:30 2026":       30 * time.Second,
		"2026-03-01T12:00:30Z":           0,
	} {
		require.Equal(t, want, ParseRetryAfter(value, now), value)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"", "7", "Sun, 01 Mar 2026 12:00:30 GMT", "-1", "1e9"} {
		f.Add(s, int64(1772366400))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		d := ParseRetryAfter(value, time.Unix(unix%(1<<40), 0))
		require.True(t, d == 0 || d >= MinRetryAfter && d <= MaxRetryAfter, d)
	})
}
