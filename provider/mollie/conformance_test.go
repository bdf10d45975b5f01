package mollie

import (
	"testing"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// onFile charges a stored mandate where the suite's request names no customer: Mollie
// charges nothing else without the customer being there.
type onFile struct{ *Adapter }

func (a onFile) Freeze(r provider.ChargeRequest) ([]byte, error) {
	r.CustomerID, r.PaymentMethod = "cst_1", "mdt_1"
	return a.Adapter.Freeze(r)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]provider.Money{
		"EUR": {Amount: 4900, Currency: "EUR"},
		"JPY": {Amount: 500, Currency: "JPY"},
		"KWD": {Amount: 18600, Currency: "KWD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Harness{
				Money: m, Refundable: m.Amount / 10,
				ActionsLater: []provider.OperationKind{provider.OpVoid}, Chargebacks: true,
				Refusals: []provider.OperationKind{provider.OpCapture},
				Secrets:  []string{testKey, testSecret},
				New: func(t *testing.T) (provider.Adapter, providertest.Fake) {
					t.Helper()
					f := newFake(t)
					return onFile{f.adapter(t)}, f
				},
			})
		})
	}
}
