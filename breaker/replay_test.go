package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// outage is a call a second: good ones, then failing ones, then good ones again.
func outage(good, bad, goodAgain int) []Call {
	var calls []Call
	for i := range good + bad + goodAgain {
		c := Call{At: epochStart.Add(time.Duration(i) * time.Second), Latency: 100 * time.Millisecond, Verdict: OK, Worker: "w0"}
		if i >= good && i < good+bad {
			c.Verdict, c.Class = Fail, "timeout"
		}
		calls = append(calls, c)
	}
	return calls
}

func TestReplaySaysWhenItWouldHaveOpened(t *testing.T) {
	t.Parallel()
	r := Replay(Settings{Failures: 8, Window: time.Minute, OpenFor: 30 * time.Second}, outage(100, 60, 100))
	require.Len(t, r.Openings, 1)
	o := r.Openings[0]
	require.WithinDuration(t, epochStart.Add(107*time.Second), o.At, 0, "the eighth failure")
	require.Equal(t, ReasonWindow, o.Reason)
	require.Equal(t, map[string]int{"timeout": 8}, o.Evidence.ErrorClass)
	require.Equal(t, 260, r.Calls)
	require.Equal(t, r.Calls, r.Made+r.Spared+r.Lost)
	// 60 failures: 8 opened it, one probe after 30 s failed, the rest were spared.
	require.Equal(t, 51, r.Spared)
	require.False(t, o.Until.IsZero())
}

func TestReplayOfGentlerSettingsOpensLater(t *testing.T) {
	t.Parallel()
	calls := outage(10, 60, 0)
	early, later := Replay(Settings{Failures: 3}, calls), Replay(Settings{Failures: 20}, calls)
	require.True(t, early.Openings[0].At.Before(later.Openings[0].At))
	require.Greater(t, early.Spared, later.Spared)
	require.Empty(t, Replay(Settings{Failures: 100}, calls).Openings)
	require.Zero(t, later.Openings[0].Until, "never closed")
}

func TestReplayOfNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, Replayed{}, Replay(Settings{}, nil))
}

func TestReplayAccountsForEveryCallInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t)
		var calls []Call
		neutral := 0
		for i := range rapid.IntRange(0, 80).Draw(t, "calls") {
			v := rapid.SampledFrom([]Verdict{OK, Fail, Neutral}).Draw(t, "verdict")
			if v == Neutral {
				neutral++
			}
			calls = append(calls, Call{At: epochStart.Add(time.Duration(i) * 700 * time.Millisecond), Verdict: v,
				Latency: time.Duration(rapid.IntRange(0, 3000).Draw(t, "latency")) * time.Millisecond, Worker: "w0"})
		}
		r := Replay(s, calls)
		denied := r.Calls - r.Made
		require.LessOrEqual(t, r.Spared+r.Lost, denied)
		require.LessOrEqual(t, denied-r.Spared-r.Lost, neutral)
		shuffled := append([]Call(nil), calls...)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, r, Replay(s, shuffled))
	})
}
