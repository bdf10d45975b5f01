package gateway

import (
	"testing"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fake){
		"full":           func(*fake) {},
		"without keys":   func(f *fake) { f.noKeys = true },
		"without status": func(f *fake) { f.noAsk = true },
		"without either": func(f *fake) { f.noKeys, f.noAsk = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Harness{
				Money: provider.Money{Amount: 4900, Currency: "EUR"}, Refundable: 490,
				Secrets: []string{testKey, testSecret},
				New: func(t *testing.T) (provider.Adapter, providertest.Fake) {
					t.Helper()
					f := newFake(t)
					change(f)
					return f.adapter(t), f
				},
			})
		})
	}
}
