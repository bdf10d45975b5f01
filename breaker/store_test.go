package breaker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
