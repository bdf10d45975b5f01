package gateway

import (
	"testing"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// FuzzAnswers: whatever the provider answers to a charge, refund, capture, void or question.
func FuzzAnswers(f *testing.F) {
	a := verifier(f, "s")
	call := func(kind provider.OperationKind) provider.OperationCall {
		return provider.OperationCall{Kind: kind, OperationID: "op1", ProviderPaymentID: "pay_1", Key: "k1", Want: asked}
	}
	about := question{way: provider.ByReference, read: readPayment, about: func(o provider.Object) bool { return o.Reference == "p1" }}
	one := question{way: provider.ByID, read: readPayment, about: func(o provider.Object) bool { return o.ID == "pay_1" }}
	providertest.FuzzAnswers(f, providertest.Readings{
		Want: asked,
		Money: []func(provider.Exchange) provider.Answer{
			func(ex provider.Exchange) provider.Answer { return a.read(ex, "k1", []byte(`{"reference":"p1"}`)) },
			func(ex provider.Exchange) provider.Answer { return a.readRefunded(ex, call(provider.OpRefund)) },
			func(ex provider.Exchange) provider.Answer { return a.readActed(ex, call(provider.OpCapture)) },
			func(ex provider.Exchange) provider.Answer { return a.readActed(ex, call(provider.OpVoid)) },
		},
		Asked: []func([]byte) provider.LookupAnswer{
			func(raw []byte) provider.LookupAnswer { return readAsked(raw, about) },
			func(raw []byte) provider.LookupAnswer { return readAsked(raw, one) },
			func(raw []byte) provider.LookupAnswer { ans, _ := readPage(raw, readPayment); return ans },
			func(raw []byte) provider.LookupAnswer { ans, _ := readPage(raw, readRefund); return ans },
		},
		Seeds: []string{
			`{"id":"pay_1","status":"succeeded","amount":4900,"currency":"EUR","reference":"p1","idempotency_key":"k1","amount_captured":4900,"amount_refunded":100}`,
			`{"id":"pay_1","status":"requires_capture","amount":4900,"currency":"EUR","capture":"manual","amount_authorized":4900,"expires_at":"2026-03-08T12:00:00Z"}`,
			`{"id":"re_1","status":"succeeded","amount":4900,"currency":"EUR","reference":"op1","payment_id":"pay_1"}`,
			`{"id":"pay_1","status":"failed","error":{"code":"card_declined","message":"No."}}`,
			`{"error":{"code":"idempotency_key_in_use","message":"Wait."}}`,
			`{"data":[{"id":"pay_1","status":"succeeded","amount":4900,"currency":"EUR","reference":"p1"}],"next_cursor":"c"}`,
			`{"id":"pay_1","status":"succeeded","amount":4900.0,"currency":"EUR"}`, `{"id":"pay_1","status":"succeeded","amount":-4900,"currency":"EUR"}`,
		},
	})
}
