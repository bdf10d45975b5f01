package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func taken(id, ref string, amount int64) provider.Object {
	return provider.Object{ID: id, Reference: ref, Outcome: provider.Succeeded, Money: provider.Money{Amount: amount, Currency: "EUR"}}
}

// TestVerifyReadsALedger: one reference charged twice is a double charge; charges
// without a reference are strangers, however many there are.
func TestVerifyReadsALedger(t *testing.T) {
	t.Parallel()
	l := charges{}
	for _, o := range []provider.Object{taken("a", "ours", 1), taken("b", "twice", 1), taken("c", "twice", 1), taken("d", "", 1), taken("e", "", 1)} {
		l.add(o)
	}
	l.add(provider.Object{ID: "f", Reference: "ours", Outcome: provider.Failed}) // took nothing
	var r report
	r.ledgerOnly("atlas", l, map[string]bool{"ours": true, "twice": true})
	require.Equal(t, []string{"twice at atlas: 2 successful charges"}, r.DoubleCharged)
	require.ElementsMatch(t, []string{`d at atlas under reference ""`, `e at atlas under reference ""`}, r.TheirsOnly)
}

// TestVerifyComparesOnePayment: lost, mismatched and in agreement.
func TestVerifyComparesOnePayment(t *testing.T) {
	t.Parallel()
	p := store.Payment{ID: uuid.New(), Provider: "atlas", Amount: 100, Currency: "EUR", Status: store.Succeeded, ProviderPaymentID: "a"}
	require.Empty(t, finding(p, []provider.Object{taken("a", "r", 100)}))
	require.Contains(t, finding(p, nil), "no successful charge")
	require.Contains(t, finding(p, []provider.Object{taken("a", "r", 90)}), "has 90 EUR")
	require.NotEmpty(t, finding(p, []provider.Object{taken("b", "r", 100)}), "another object than the one it rests on")
	p.Status = store.Unknown
	require.Contains(t, finding(p, []provider.Object{taken("a", "r", 100)}), "the payment is unknown")
	require.Empty(t, finding(p, nil))
}
