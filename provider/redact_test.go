package provider

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestRedactKeepsNoCardAndNoSecret(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{ //nolint:gosec // G101: made-up secrets are the point
		`{"id":"pay_1", "amount": 4900}`:                                                `{"id":"pay_1","amount":4900}`,
		`{"card":{"number":"4111 1111 1111 1111","cvc":"123"}}`:                         `{"card":{"number":"[card 1111]","cvc":"[redacted]"}}`,
		`{"pan":4111111111111111}`:                                                      `{"pan":"[redacted]"}`,
		`{"x":4111111111111111,"y":[5500-0]}`:                                           `{"x":[card 1111],"y":[5500-0]}`, // not JSON: text
		`{"x":4111111111111111,"y":[1,null,true]}`:                                      `{"x":"[card 1111]","y":[1,null,true]}`,
		`{"client_secret":{"deep":["a",1]},"b":"<&>"}`:                                  `{"client_secret":{"deep":["[redacted]","[redacted]"]},"b":"<&>"}`,
		`{"note":"use Bearer abcdefgh12345678 or sk_live_abcdefgh"}`:                    `{"note":"use [redacted] or [redacted]"}`,
		`{"webhook_secret":"x","API-KEY":"y","apikey":"z","token":"t","tokens_left":3}`: `{"webhook_secret":"[redacted]","API-KEY":"[redacted]","apikey":"[redacted]","token":"[redacted]","tokens_left":3}`,
		`{"id":"1234567890123456"}`:                                                     `{"id":"1234567890123456"}`, // no card: the check digit is wrong
		`{"t":"2026-03-01T12:00:00Z"}`:                                                  `{"t":"2026-03-01T12:00:00Z"}`,
		`{"n":1e999999,"m":0.5}`:                                                        `{"n":"1e999999","m":0.5}`,
		`{"a":1,"a":2}`:                                                                 `{"a":1,"a":2}`,
		`"4111111111111111"`:                                                            `"[card 1111]"`,
		``:                                                                              ``,
		`<p>4111-1111-1111-1111</p>`:                                                    `<p>[card 1111]</p>`,
		`{"id":"pay_1","card":"4111111111111111`:                                        `{"id":"pay_1","card":"[card 1111]`,
		"a\x00b\xffc":                                                                   "a\uFFFDb\uFFFDc",
		`{"s":"\u0000\ud800"}`:                                                          "{\"s\":\"\uFFFD\uFFFD\"}",
		`{"4111111111111111":1}`:                                                        `{"[card 1111]":1}`,
		`{"client_secret":"abc`:                                                         `{"client_secret":"[redacted]"`,
		`{"client_secret" : "a\"b", "x":1, "cvc":12`:                                    `{"client_secret" : "[redacted]", "x":1, "cvc":"[redacted]"`,
		`{"password":"ends in a backslash\`:                                             `{"password":"[redacted]"`,
		"{\"pan\":\"a\x00b\"}":                                                          `{"pan":"[redacted]"}`,
		`{} {}`:                                                                         `{} {}`,
		strings.Repeat("[", 200) + "1":                                                  strings.Repeat("[", 200) + "1",
	} {
		require.Equal(t, want, string(Redact([]byte(body))), body)
	}
}

func TestRedactMasksCamelCaseMembers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cardToken", "accessToken", "clientSecret", "cardNumber", "encryptedCardNumber", "encryptedSecurityCode", "securityCode",
		"userPassword", "webhookAPIKey", "liveApiKey", "cardCvc", "cardCVV2", "cardPan", "cardPIN", "rsaPrivateKey", "x_cardToken", "proxyAuthorization"} {
		require.Equal(t, `{"`+name+`":"[redacted]","id":"a"}`, string(Redact([]byte(`{"`+name+`":"abc","id":"a"}`))), name)
		require.Equal(t, `{"`+name+`":"[redacted]"`, string(Redact([]byte(`{"`+name+`":"ab`))), "cut: %s", name)
	}
	for _, name := range []string{"japan", "timespan", "spin", "tokensLeft", "secretary", "pspReference", "timeSpan", "numberOfCards", "cardNumberLength"} {
		body := `{"` + name + `":"abc"}`
		require.Equal(t, body, string(Redact([]byte(body))), name)
	}
}

func TestRedactRawIsAlwaysOneJSONValue(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "<html>", `{"a":1}`, `{"a":`, `{} {}`, `{"s":"` + strings.Repeat("x", maxRedactedRaw) + `"}`} {
		out := RedactRaw([]byte(raw))
		require.True(t, json.Valid(out), raw)
		require.LessOrEqual(t, len(out), maxRedactedRaw)
	}
	require.Equal(t, `{"a":1}`, string(RedactRaw([]byte(`{"a":1}`))))
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"pan":"4111111111111111"}`, `{"cardToken":"a`, "<html>", `{"s":"\ud800"}`, `[1e9,{"x":[]}]`, "4111 1111 1111 1111"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out := Redact(body)
		require.True(t, utf8.Valid(out))
		require.NotContains(t, string(out), "\x00")
		// Inside a longer number it is a part of an id, and ids are evidence.
		require.NotRegexp(t, `(?:^|[^0-9 -])4111111111111111(?:$|[^0-9 -])`, string(out))
		if json.Valid(body) && !strings.Contains(string(body), strings.Repeat("[", 50)) && !strings.Contains(string(body), strings.Repeat(`{"":`, 30)) {
			require.True(t, json.Valid(out), "%s → %s", body, out)
		}
		require.True(t, json.Valid(RedactRaw(body)))
		if quick, ok := redactClean(body); ok {
			require.Equal(t, string(quick), string(out))
			slow, err := redactTokens(body)
			require.NoError(t, err)
			require.Equal(t, string(slow), string(out))
		}
	})
}

func TestRedactAnswerSharesWhatIsTheSame(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"id":"pay_1","amount":4900}`, `{"id": "pay_1"}`, `{"pan":"4111111111111111"}`, "<html>", "", `{"s":"` + strings.Repeat("x", maxRedactedRaw) + `"}`} {
		require.Equal(t, string(Redact([]byte(body))), string(RedactAnswer([]byte(body), nil)), body)
		require.Equal(t, string(Redact([]byte(body))), string(RedactAnswer([]byte(body), &Object{Raw: RedactRaw([]byte(body))})), body)
		require.Equal(t, string(Redact([]byte(body))), string(RedactAnswer([]byte(body), &Object{})), body)
	}
	o := Object{Raw: RedactRaw([]byte(`{"id":"pay_1"}`))}
	require.Same(t, &o.Raw[0], &RedactAnswer([]byte(`{"id":"pay_1"}`), &o)[0])
}
