package messages

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMoneyUsesTheISOExponentAndTheReadersDigits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lang   Lang
		amount int64
		code   string
		want   string
	}{
		{English, 4900, "EUR", "49.00\u00a0EUR"},
		{English, 123456789, "USD", "1,234,567.89\u00a0USD"},
		{French, 123456, "EUR", "1\u202f234,56\u00a0EUR"},
		{Spanish, 1234567, "EUR", "12.345,67\u00a0EUR"},
		{Ukrainian, 4900, "UAH", "49,00\u00a0UAH"},
		{English, 4900, "JPY", "4,900\u00a0JPY"},
		{English, 18600, "KWD", "18.600\u00a0KWD"},
		{English, 500, "ISK", "500\u00a0ISK"},
		{English, 1, "EUR", "0.01\u00a0EUR"},
		{English, -4900, "EUR", "-49.00\u00a0EUR"},
		{English, math.MaxInt64, "EUR", "92,233,720,368,547,758.07\u00a0EUR"},
		{English, 4900, "XYZ", "4900\u00a0XYZ"},
	} {
		require.Equal(t, c.want, Money(in(c.lang), c.amount, c.code))
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	t.Parallel()
	require.Equal(t, "12,480", Num(in(English), 12480))
	require.Equal(t, "10,000+", Bounded(in(English), 10_001, 10_000))
	require.Equal(t, "9,999", Bounded(in(English), 9_999, 10_000))
}

func TestPercentNeverRoundsToAllOrNothing(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{
		1: "100\u00a0%", 0.99999: "99.9\u00a0%", 0.994: "99.4\u00a0%", 0.5: "50\u00a0%", 0.00001: "0.1\u00a0%", 0: "0\u00a0%",
	} {
		require.Equal(t, want, Percent(in(English), share))
	}
	require.Equal(t, "99,4\u00a0%", Percent(in(French), 0.994))
}

func TestRelativeTimesSayBothDirections(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 14, 2, 11, 0, time.UTC)
	at := func(l Lang, d time.Duration) string {
		ctx := With(context.Background(), Locale{Lang: l, Now: now})
		return Relative(ctx, now.Add(d))
	}
	require.Equal(t, "40\u00a0s ago", at(English, -40*time.Second))
	require.Equal(t, "in 8\u00a0min", at(English, 8*time.Minute+59*time.Second))
	require.Equal(t, "47\u00a0h ago", at(English, -47*time.Hour))
	require.Equal(t, "2\u00a0d ago", at(English, -48*time.Hour))
	require.Equal(t, "il y a 3\u00a0min", at(French, -3*time.Minute))
	require.Equal(t, "hace 3\u00a0min", at(Spanish, -3*time.Minute))
	require.Equal(t, "через 5\u00a0год", at(Ukrainian, 5*time.Hour))
}

func TestTimesAreInTheReadersZone(t *testing.T) {
	t.Parallel()
	kyiv, err := time.LoadLocation("Europe/Kyiv")
	require.NoError(t, err)
	at := time.Date(2026, 3, 2, 22, 30, 0, 0, time.UTC)
	ctx := With(context.Background(), Locale{Lang: Ukrainian, Zone: kyiv, Now: at.Add(time.Minute)})
	require.Equal(t, "2026-03-03 00:30:00 EET", Absolute(ctx, at))
	require.Equal(t, "00:30:00", Clock(ctx, at), "today in Kyiv, though yesterday in UTC")
	require.Equal(t, "2026-03-02 23:59", Clock(ctx, at.Add(-31*time.Minute)))
}

func TestLatency(t *testing.T) {
	t.Parallel()
	require.Equal(t, "84\u00a0ms", Latency(in(English), 84*time.Millisecond))
	require.Equal(t, "1.2\u00a0s", Latency(in(English), 1230*time.Millisecond))
	require.Equal(t, "1,2\u00a0с", Latency(in(Ukrainian), 1230*time.Millisecond))
}

func TestPatternsAreWhatTheScriptFills(t *testing.T) {
	t.Parallel()
	require.Equal(t, "% ago", Patterns(in(English))["ago"])
	require.Equal(t, "dans %", Patterns(in(French))["in"])
}

func TestJoinDropsNothings(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a, c", Join("a", "", "c"))
	require.Empty(t, Join("", ""))
}
