package breaker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

func TestALoneCallerGoesAloneACrowdShares(t *testing.T) {
	t.Parallel()
	c := breakertest.Shared(t).Client()
	s := newStore(c, Options{Pipelining: PipelineBusy}.withDefaults())
	require.False(t, s.pipelined(1))
	require.False(t, s.pipelined(crowd-1))
	require.True(t, s.pipelined(crowd))
	for range crowdMemory {
		require.True(t, s.pipelined(1), "the first of the next burst")
	}
	for range 3 {
		require.False(t, s.pipelined(1), "alone again")
	}
	never := newStore(c, Options{Pipelining: PipelineNever}.withDefaults())
	require.False(t, never.pipelined(1000))
	always := newStore(c, Options{Pipelining: PipelineAlways}.withDefaults())
	require.True(t, always.pipelined(1))
}

func TestJunkRepliesAreErrorsNotPanics(t *testing.T) {
	t.Parallel()
	for _, junk := range [][]any{nil, {}, {"admit"}, {"admit", "x", "0", "1", "2"}, {"admit", nil, nil, nil, nil},
		{"admit", "0", "0", "1", "2", "open"}} {
		_, err := parseAnswer(junk)
		require.ErrorIs(t, err, errReply)
		_, _, err = parseSnapshot([]any{junk, nil, nil, nil, nil}, &shared{})
		require.ErrorIs(t, err, errReply)
	}
	a, err := parseAnswer([]any{"admit", "0", int64(3), "1", "2"})
	require.NoError(t, err)
	require.Equal(t, 3, a.fails)
	require.Equal(t, Failure{Class: "nonsense"}, parseFailure("nonsense"))
}
