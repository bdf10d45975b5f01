package stripe

import (
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// signature is a Stripe-Signature header: one v1 per secret, newest first.
func signature(raw []byte, at time.Time, secrets ...string) string {
	parts := []string{"t=" + strconv.FormatInt(at.Unix(), 10)}
	for _, s := range secrets {
		parts = append(parts, "v1="+hex.EncodeToString(webhook.ComputeSignature(at, raw, s)))
	}
	return strings.Join(parts, ",")
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]provider.Money{
		"EUR": {Amount: 4900, Currency: "EUR"},
		"UGX": {Amount: 4900, Currency: "UGX"},
		"KWD": {Amount: 18600, Currency: "KWD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Harness{
				Money: m, Refundable: m.Amount / 10,
				Secrets: []string{testKey, testSecret},
				Refused: []provider.Money{
					{Amount: 18605, Currency: "KWD"}, // the last decimal has to be zero
					{Amount: 150, Currency: "MGA"},   // sent without decimals
					{Amount: 100, Currency: "IQD"},   // a currency Stripe does not charge in
				},
				New: func(t *testing.T) (provider.Adapter, providertest.Fake) {
					t.Helper()
					f := newFake(t)
					return f.adapter(t), f
				},
			})
		})
	}
}
