package paypal

import (
	"testing"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// onFile charges a vaulted card where the suite's request names no payment method: PayPal
// charges nothing else without the payer being there.
type onFile struct{ *Adapter }

func (a onFile) Freeze(r provider.ChargeRequest) ([]byte, error) {
	r.PaymentMethod = "card:8kk8451t"
	return a.Adapter.Freeze(r)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]provider.Money{
		"EUR": {Amount: 49000, Currency: "EUR"},
		"JPY": {Amount: 5000, Currency: "JPY"},
		"HUF": {Amount: 105000, Currency: "HUF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Harness{
				Money: m, Refundable: m.Amount / 10 / 100 * 100,
				Refusals: []provider.OperationKind{provider.OpCapture}, RefusalsByID: []provider.OperationKind{provider.OpCapture},
				Secrets: []string{testID + ":" + testSecret, testSecret, testHook},
				Refused: []provider.Money{
					{Amount: 104550, Currency: "HUF"}, // taken without decimals
					{Amount: 80045, Currency: "TWD"},
					{Amount: 18600, Currency: "KWD"}, // not held at all
				},
				New: func(t *testing.T) (provider.Adapter, providertest.Fake) {
					t.Helper()
					f := newFake(t)
					return onFile{f.adapter(t)}, f
				},
			})
		})
	}
}
