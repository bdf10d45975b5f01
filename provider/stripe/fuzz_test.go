package stripe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// FuzzAnswers: whatever Stripe answers to a charge, refund, capture, void or question.
func FuzzAnswers(f *testing.F) {
	a, err := New(provider.Settings{Name: "s", BaseURL: "http://stripe.test", APIKey: testKey, WebhookSecrets: []string{"s"}}, Options{})
	require.NoError(f, err)
	want := provider.Money{Amount: 4900, Currency: "EUR"}
	call := func(kind provider.OperationKind) provider.OperationCall {
		return provider.OperationCall{Kind: kind, OperationID: "op1", ProviderPaymentID: "pi_1", Key: "k1", Want: want}
	}
	l := lookup{Adapter: a, q: provider.LookupQuery{PaymentID: "p1", Want: want}}
	providertest.FuzzAnswers(f, providertest.Readings{
		Want: want,
		Money: []func(provider.Exchange) provider.Answer{
			func(ex provider.Exchange) provider.Answer { return a.read(ex, []byte("metadata[payment_id]=p1")) },
			func(ex provider.Exchange) provider.Answer { return readRefunded(ex, call(provider.OpRefund)) },
			func(ex provider.Exchange) provider.Answer { return a.readActed(ex, call(provider.OpCapture)) },
			func(ex provider.Exchange) provider.Answer { return a.readActed(ex, call(provider.OpVoid)) },
		},
		Asked: []func([]byte) provider.LookupAnswer{
			func(raw []byte) provider.LookupAnswer { return l.readOne(raw, "pi_1") },
			func(raw []byte) provider.LookupAnswer {
				_, ans := l.readPage(raw, time.Unix(0, 0), time.Unix(1<<40, 0))
				return ans
			},
			func(raw []byte) provider.LookupAnswer {
				_, ans := readRefunds(raw, provider.OperationQuery{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "pi_1", Want: want})
				return ans
			},
		},
		Seeds: []string{
			`{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":4900,"amount_received":4900,"currency":"eur","livemode":false,"created":1770000000,"metadata":{"payment_id":"p1"}}`,
			`{"id":"pi_1","object":"payment_intent","status":"requires_capture","amount":4900,"amount_capturable":4900,"currency":"eur","latest_charge":{"id":"ch_1","payment_method_details":{"card":{"capture_before":1770600000}}}}`,
			`{"id":"pi_1","object":"payment_intent","status":"requires_action","amount":4900,"currency":"eur","next_action":{"type":"redirect_to_url","redirect_to_url":{"url":"https://hooks.stripe.test/3ds"}}}`,
			`{"id":"re_1","object":"refund","status":"succeeded","amount":4900,"currency":"eur","payment_intent":"pi_1","metadata":{"operation_id":"op1"}}`,
			`{"error":{"type":"card_error","code":"card_declined","decline_code":"do_not_honor","payment_intent":{"id":"pi_1","status":"requires_payment_method","amount":4900,"currency":"eur"}}}`,
			`{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`,
			`{"object":"list","data":[{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":4900,"currency":"eur","metadata":{"payment_id":"p1"}}],"has_more":true}`,
			`{"data":[{"id":"re_1","status":"succeeded","amount":4900,"currency":"eur","payment_intent":{"id":"pi_1"},"metadata":{"operation_id":"op1"}}],"has_more":false}`,
			`{"id":"pi_1","status":"succeeded","amount":4900.5,"currency":"eur"}`, `{"id":"pi_1","status":"succeeded","amount":"4900","currency":"isk"}`,
		},
	})
}
