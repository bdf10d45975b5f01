package adyen

import (
	"testing"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// onFile charges a stored token where the suite's request names none: nothing else can
// be charged without the customer being there.
type onFile struct{ *Adapter }

func (a onFile) Freeze(r provider.ChargeRequest) ([]byte, error) {
	r.CustomerID, r.PaymentMethod = "shopper_1", "8415718415172204"
	return a.Adapter.Freeze(r)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]provider.Money{
		"EUR": {Amount: 4900, Currency: "EUR"},
		"ISK": {Amount: 4900, Currency: "ISK"},
		"KWD": {Amount: 18600, Currency: "KWD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Harness{
				Money: m, Refundable: m.Amount / 10, RefundsLater: true,
				ActionsLater: []provider.OperationKind{provider.OpCapture, provider.OpVoid},
				Refusals:     []provider.OperationKind{provider.OpCapture, provider.OpVoid},
				Secrets:      []string{testKey, testHMAC},
				Refused: []provider.Money{
					{Amount: 150, Currency: "IDR"}, // sent without decimals
					{Amount: 150, Currency: "CVE"},
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
