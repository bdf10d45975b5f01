package paypal

import (
	"testing"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// FuzzAnswers: whatever PayPal answers to a charge, refund, capture, void, question or
// request for a token.
func FuzzAnswers(f *testing.F) {
	want := provider.Money{Amount: 4900, Currency: "EUR"}
	call := func(kind provider.OperationKind) provider.OperationCall {
		return provider.OperationCall{Kind: kind, OperationID: "op1", ProviderPaymentID: "5O190127TN364715T", Key: "k1", Want: want}
	}
	hold := authorization{ID: "AUTH1", Status: "CREATED", CustomID: "p1", Amount: &amount{Currency: "EUR", Value: "49.00"}}
	query := provider.OperationQuery{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "5O190127TN364715T", Want: want}
	providertest.FuzzAnswers(f, providertest.Readings{
		Want: want,
		Money: []func(provider.Exchange) provider.Answer{
			func(ex provider.Exchange) provider.Answer {
				return read(ex, []byte(`{"purchase_units":[{"custom_id":"p1"}]}`))
			},
			func(ex provider.Exchange) provider.Answer { return readRefund(ex, call(provider.OpRefund)) },
			func(ex provider.Exchange) provider.Answer { return readActed(ex, call(provider.OpCapture), hold) },
			func(ex provider.Exchange) provider.Answer { return readActed(ex, call(provider.OpVoid), hold) },
		},
		Asked: []func([]byte) provider.LookupAnswer{
			func(raw []byte) provider.LookupAnswer { return readRefunds(raw, query) },
			func(raw []byte) provider.LookupAnswer {
				p, ans := readFound(raw, time.Unix(0, 0), time.Unix(1<<40, 0))
				if p.Details != nil && ans.DecodeErr == nil && !ans.Malformed {
					p.naming("p1", codePayment)
				}
				return ans
			},
			func(raw []byte) provider.LookupAnswer { // an order, with what the operations on it read of it
				o, err := decodeOrder(raw)
				if err != nil || o.ID == "" {
					return provider.LookupAnswer{DecodeErr: err, Ignored: true}
				}
				for _, u := range o.Units {
					_, _ = u.target(provider.OpRefund)
					_, _ = u.target(provider.OpCapture)
				}
				return provider.LookupAnswer{Objects: []provider.Object{o.object(raw)}}
			},
			func(raw []byte) provider.LookupAnswer {
				_, err := readToken(provider.Exchange{Status: 200, Body: raw, BodyComplete: true}, time.Unix(1_770_000_000, 0))
				return provider.LookupAnswer{DecodeErr: err}
			},
		},
		Seeds: []string{
			`{"id":"5O190127TN364715T","status":"COMPLETED","intent":"CAPTURE","purchase_units":[{"custom_id":"p1","payments":{"captures":[{"id":"3C679366HH908993F","status":"COMPLETED","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"p1","final_capture":true}],"refunds":[{"id":"R1","status":"COMPLETED","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"op1"}]}}]}`,
			`{"id":"5O190127TN364715T","status":"COMPLETED","intent":"AUTHORIZE","purchase_units":[{"custom_id":"p1","payments":{"authorizations":[{"id":"AUTH1","status":"CREATED","amount":{"currency_code":"EUR","value":"49.00"},"expiration_time":"2026-03-08T12:00:00Z"}]}}]}`,
			`{"id":"3C679366HH908993F","status":"PENDING","status_details":{"reason":"ECHECK"},"amount":{"currency_code":"EUR","value":"49.00"},"supplementary_data":{"related_ids":{"order_id":"5O190127TN364715T","authorization_id":"AUTH1"}}}`,
			`{"id":"AUTH1","status":"VOIDED","amount":{"currency_code":"EUR","value":"49.00"}}`,
			`{"id":"R1","status":"FAILED","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"op1","links":[{"rel":"up","href":"https://api.paypal.test/v2/payments/captures/3C679366HH908993F"}]}`,
			`{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"INSTRUMENT_DECLINED","description":"No."}],"debug_id":"d"}`,
			`{"transaction_details":[{"transaction_info":{"transaction_id":"T1","transaction_event_code":"T0006","custom_field":"p1","transaction_initiation_date":"2026-03-01T12:00:00+0000"}}],"total_pages":1}`,
			`{"access_token":"A21","token_type":"Bearer","expires_in":32400}`, `{"access_token":"A21","expires_in":1e99}`,
		},
	})
}
