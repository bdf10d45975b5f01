package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The quick looks before the patterns never say no where a pattern would match.
func TestQuickLooksMissNothing(t *testing.T) {
	t.Parallel()
	pieces := []string{"pass", "word", "Password", "passwd", "SECRET", "Token", "authorization", "api", "Key", "_", "-", "cvc", "2", "Cvv2",
		"csc", "security", "Code", "card", "Number", "pan", "PIN", "private", "key", " ", "bearer ", "Basic ", "sk_", "RK_", "whsec_", "eyJ", ".",
		"abcdefgh12345678", "4111 1111 1111 1111", "4111", "1111-", "\u212a", "\u017f", "x", "A", "\""}
	rapid.Check(t, func(rt *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "pieces"), "")
		require.Equal(t, secretName.MatchString(s), isSecretName(s), "%q", s)
		require.True(t, mayHoldSecret(s) || !secretText.MatchString(s), "%q", s)
		require.True(t, mayHoldCard(s) || !cardLike.MatchString(s), "%q", s)
	})
}
