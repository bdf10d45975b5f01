package mollie

import (
	"testing"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// FuzzAnswers: whatever Mollie answers to a charge, refund, capture, release or question.
func FuzzAnswers(f *testing.F) {
	a := verifier(f, "s")
	call := func(kind provider.OperationKind) provider.OperationCall {
		return provider.OperationCall{Kind: kind, OperationID: "op1", ProviderPaymentID: "tr_1", Key: "k1", Want: asked49}
	}
	query := func(kind provider.OperationKind) provider.OperationQuery {
		return provider.OperationQuery{Kind: kind, OperationID: "op1", ProviderPaymentID: "tr_1", PaymentID: "p1", Want: asked49}
	}
	fresh := func() *lookup { return &lookup{Adapter: a, q: provider.LookupQuery{PaymentID: "p1", Want: asked49}} }
	providertest.FuzzAnswers(f, providertest.Readings{
		Want: asked49,
		Money: []func(provider.Exchange) provider.Answer{
			func(ex provider.Exchange) provider.Answer {
				return a.read(ex, []byte(`{"metadata":{"payment_id":"p1"}}`))
			},
			func(ex provider.Exchange) provider.Answer { return a.readRefund(ex, call(provider.OpRefund)) },
			func(ex provider.Exchange) provider.Answer { return a.readCaptured(ex, call(provider.OpCapture)) },
			func(ex provider.Exchange) provider.Answer { return a.readReleased(ex, call(provider.OpVoid)) },
		},
		Asked: []func([]byte) provider.LookupAnswer{
			func(raw []byte) provider.LookupAnswer { return fresh().readOne(raw, "tr_1") },
			func(raw []byte) provider.LookupAnswer { // the captures and chargebacks that come with a payment
				l := fresh()
				ans := l.readOne(raw, "tr_1")
				if len(ans.Objects) == 0 {
					return ans
				}
				if o, said := l.fetched.captureOf(query(provider.OpCapture)); said && o != nil {
					ans.Objects = append(ans.Objects, *o)
				}
				if e, ok := l.fetched.chargedBack(ans.Objects[0]); ok {
					ans.Objects = append(ans.Objects, e.Object)
				}
				return ans
			},
			func(raw []byte) provider.LookupAnswer { return fresh().readRefunds(raw, query(provider.OpRefund)) },
			func(raw []byte) provider.LookupAnswer {
				p, ans := readPage(raw, "", newestFirst)
				for _, e := range p.entries {
					if e.err == nil && e.ID != "" {
						ans.Objects = append(ans.Objects, e.payment.object(e.raw))
					}
				}
				return ans
			},
		},
		Seeds: []string{
			said(), said("status", "authorized", "captureMode", "manual", "_embedded", map[string]any{"captures": []any{renderedCapture("cpt_1", "op1", "tr_1", "failed", asked49)}}),
			said("captureMode", "manual", "amountCaptured", euros("10.00")), saidRefund(),
			`{"resource":"capture","id":"cpt_1","mode":"test","amount":{"currency":"EUR","value":"49.00"},"status":"pending","paymentId":"tr_1","metadata":{"operation_id":"op1"}}`,
			`{"_embedded":{"payments":[` + said() + `]},"_links":{"next":{"href":"https://api.mollie.com/v2/payments?from=tr_2"}}}`,
			`{"_embedded":{"refunds":[` + saidRefund() + `]},"_links":{"next":null}}`,
			`{"status":422,"title":"Unprocessable Entity","detail":"No.","field":"amount"}`,
			said("amount", euros("49.000")), said("amount", euros("1e3")), said("amount", map[string]any{"currency": "EUR", "value": 49}),
		},
	})
}
