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
		"abcdefgh12345678", "4111 1111 1111 1111", "4111", "1111-", "  ", "ri", "sk_live_12345678", "network_", "\u212a", "\u017f", "x", "A", "\"", "é", "ü", "\xc3", "\xbf", "\xff", "\u2028", "\x00", "日本"}
	rapid.Check(t, func(rt *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "pieces"), "")
		require.Equal(t, secretName.MatchString(s), isSecretName(s), "%q", s)
		require.True(t, look(s)&(maySecret|unplain) != 0 || !secretText.MatchString(s), "%q", s)
		require.True(t, look(s)&mayCard != 0 || !cardLike.MatchString(s), "%q", s)
		require.Equal(t, look(s), look([]byte(s)), "%q", s)
		require.Equal(t, byPatterns(s), RedactText(s), "%q", s)
	})
}

// byPatterns is RedactText without a look first.
func byPatterns(s string) string {
	return cardLike.ReplaceAllStringFunc(secretText.ReplaceAllString(storable(s), Redacted), maskCard)
}

// What is called clean comes out of the patterns as it is, but for white space.
func TestCleanJSONIsWhatThePatternsMakeOfIt(t *testing.T) {
	t.Parallel()
	pieces := []string{`{`, `}`, `[`, `]`, `"`, `:`, `,`, ` `, "\n", `"a"`, `"api_key"`, `"risk_score"`, `"sk_live_12345678"`, `-`, `12`, `0.5`, `1e9`, `1234567890123`,
		`"4111 1111 1111 1111"`, `"2026-03-02T15:02:11.123456789Z"`, `"01a22c8c-a5a5-770e-822c-123456789012"`, `true`, `null`, `\n`, "\x7f", `<`, `é`, `"a":`, `{"a":1}`, `[1,"x"]`,
		`0`, `.`, `e`, `tru`, `"idempotency_key":`, `"japan":`, `"PAN":`, `"card-Number" :`, "\t", "\r", "\x00", `"ask_12345678"`, `"a.eyJ"`, "[[", "]]", `"é"`, `"sk_é"`, `"日本"`, "\"\xc3\"", "\xbc", "\"\u2028\"", "\"\u017f\"", `1234567890128`, `"1234567890128"`}
	found := 0
	check := func(tt require.TestingT, s string) {
		got, ok := redactClean([]byte(s))
		if !ok {
			return
		}
		found++
		want, err := redactTokens([]byte(s))
		require.NoError(tt, err, "%q", s)
		require.Equal(tt, string(want), string(got), "%q", s)
	}
	rapid.Check(t, func(rt *rapid.T) {
		check(rt, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "pieces"), ""))
	})
	for _, s := range []string{`{"id":"pay_1","amount":4900,"created_at":"2026-03-02T15:02:11.123456789Z","nested":{"a":[1,2.50,-0,true,null,""]}}`, "  [ 1 , {} ]\n", `{"é":"Grüße aus Łódź"}`} {
		_, ok := redactClean([]byte(s))
		require.True(t, ok, s)
		check(t, s)
	}
	require.Positive(t, found)
	for _, s := range []string{`{"token":"x"}`, `{"pan" :1}`, `["4111-1111-1111-1111"]`, `[4111111111111111]`, `["Bearer abcdefgh"]`, `["x sk_live_12345678"]`, `[1E5]`, `["\u0041"]`, `{`, `["\xc3"]`, "[\"\xc3\"]", "[\"\u2028\"]", "[\"\u017f\u212a\"]"} {
		_, ok := redactClean([]byte(s))
		require.False(t, ok, s)
	}
}
