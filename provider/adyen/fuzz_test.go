package adyen

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// encoded is the signature over a text under the adapter's first key.
func encoded(a *Adapter, words string) string {
	return base64.StdEncoding.EncodeToString(sign(a.keys[0], words))
}

func fuzzed(t testing.TB) *Adapter {
	t.Helper()
	a, err := New(provider.Settings{Name: "adyen", BaseURL: "http://127.0.0.1:1", APIKey: "k", WebhookSecrets: []string{testHMAC}, Account: testAccount}, Options{})
	require.NoError(t, err)
	return a
}

// FuzzNotification: whatever arrives, parsing neither panics nor believes what Verify
// did not read, and a valid delivery can be parsed.
func FuzzNotification(f *testing.F) {
	f.Add(notify(testHMAC, about("AUTHORISATION", "true")))
	f.Add(notify(testHMAC, about("REFUND", "false"), about("CHARGEBACK", "true")))
	f.Add([]byte(strings.ReplaceAll(string(notify(testHMAC, about("AUTHORISATION", "true"), about("CAPTURE", "false"))), order.PaymentID, "hold-"+order.PaymentID)))
	f.Add([]byte(`{"live":true,"notificationItems":[{"NotificationRequestItem":{"pspReference":"a","eventCode":"b","success":true,"amount":null}}]}`))
	f.Add([]byte(`{"notificationItems":[{"NotificationRequestItem":{"pspReference":"a","eventCode":"b","success":"true","additionalData":{"hmacSignature":"ipnxGCaUZ4l8TUW75a71/ghd2Fe5ffvX0pV4TLTntIc="}}}]}`))
	f.Add([]byte(strings.ReplaceAll(string(notify(testHMAC, about("CAPTURE", "false"), about("CAPTURE_FAILED", "true"), about("CANCELLATION", "false"))), order.PaymentID, "op-"+order.PaymentID)))
	a := fuzzed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := a.Parse(raw)
		v := a.Verify(nil, raw, noon)
		if err != nil {
			require.Equal(t, provider.SignatureMissing, v.Verdict)
			return
		}
		require.NotEmpty(t, events)
		for _, e := range events {
			require.NotEmpty(t, e.Key)
			if e.Interesting {
				require.NotEmpty(t, e.Object.ID)
				require.False(t, bytes.Contains(e.Object.Raw, []byte(`additionalData"`)) && bytes.Contains(e.Object.Raw, []byte("hmacSignature")))
			}
			if e.Object.Kind == provider.ObjectCapture || e.Object.Kind == provider.ObjectVoid {
				require.Equal(t, provider.Failed, e.Object.Outcome)
				require.NotEmpty(t, e.Object.Reference)
			}
			require.LessOrEqual(t, e.Object.Money.Amount, provider.MaxAmount*1000)
			require.GreaterOrEqual(t, e.Object.Money.Amount, int64(0))
		}
	})
}

// FuzzSignedFields: two items with one plain signature are the same item, unless both
// are ambiguous.
func FuzzSignedFields(f *testing.F) {
	f.Add("PSP1", "", "Shop", "a:b", "PSP1:", "Shop", "a", "b")
	f.Add("a", "b", "c", "d", "a", "b", "c", "d")
	f.Add(`a\`, ":b", "c", "d", "a", `\:b`, "c", "d")
	f.Fuzz(func(t *testing.T, p1, o1, a1, r1, p2, o2, a2, r2 string) {
		x := item{PSP: p1, Original: o1, Account: a1, Reference: r1, Code: "CAPTURE", Success: "true"}
		y := item{PSP: p2, Original: o2, Account: a2, Reference: r2, Code: "CAPTURE", Success: "true"}
		same := strings.Join(x.fields(), "\x00") == strings.Join(y.fields(), "\x00")
		if !x.ambiguous() && !y.ambiguous() {
			require.Equal(t, same, x.signed()[0] == y.signed()[0])
		}
	})
}

// FuzzAnswers: whatever Adyen answers to a charge, refund, capture or cancellation.
func FuzzAnswers(f *testing.F) {
	read := func(kind provider.OperationKind) func(provider.Exchange) provider.Answer {
		return func(ex provider.Exchange) provider.Answer {
			return readReceived(ex, provider.OperationCall{Kind: kind, OperationID: "1", ProviderPaymentID: "PSP1", Key: "k1", Want: euros})
		}
	}
	providertest.FuzzAnswers(f, providertest.Readings{
		Want: euros,
		Money: []func(provider.Exchange) provider.Answer{
			func(ex provider.Exchange) provider.Answer {
				return readCharge(ex, []byte(`{"reference":"p1","amount":{"currency":"EUR","value":4900}}`))
			},
			func(ex provider.Exchange) provider.Answer {
				return readCharge(ex, []byte(`{"reference":"hold-p1","amount":{"currency":"EUR","value":4900},"additionalData":{"manualCapture":"true"}}`))
			},
			read(provider.OpRefund), read(provider.OpCapture), read(provider.OpVoid),
		},
		Seeds: []string{
			`{"pspReference":"PSP1","resultCode":"Authorised","amount":{"currency":"EUR","value":4900},"merchantReference":"p1"}`,
			`{"pspReference":"PSP1","resultCode":"Refused","refusalReason":"Not enough balance","refusalReasonCode":"12","merchantReference":"p1"}`,
			`{"resultCode":"RedirectShopper","action":{"type":"redirect","url":"https://test.adyen.com/3ds","method":"GET"}}`,
			`{"pspReference":"MOD1","paymentPspReference":"PSP1","status":"received","reference":"op-1","amount":{"currency":"EUR","value":4900}}`,
			`{"status":422,"errorCode":"704","message":"request already processed or in progress","errorType":"validation","pspReference":"PSP1"}`,
			`{"pspReference":"PSP1","resultCode":"Authorised","amount":{"currency":"EUR","value":4900.0}}`,
		},
	})
}
