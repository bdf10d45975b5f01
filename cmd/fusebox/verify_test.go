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
	ours := owned{"ours": "a", "twice": "b"}
	r.theirsOnly("atlas", l, ours)
	r.doubleCharged("atlas", ledger{charges: l}, ours, nil)
	require.Equal(t, []string{"twice at atlas: 2 successful charges"}, r.DoubleCharged)
	require.ElementsMatch(t, []string{`d at atlas under reference ""`, `e at atlas under reference ""`}, r.TheirsOnly)
}

// TestVerifyTakesARefundedDuplicateAsSettled: R-05. Only the charge beside the payment's
// own may have gone back, and it must have gone back whole.
func TestVerifyTakesARefundedDuplicateAsSettled(t *testing.T) {
	t.Parallel()
	back := func(of string, amount int64) refundLedger {
		l := refundLedger{whole: true}
		l.add(provider.Object{Kind: provider.ObjectRefund, ID: "re", Outcome: provider.Succeeded, Money: provider.Money{Amount: amount, Currency: "EUR"},
			Child: provider.Child{ChargeID: of}})
		return l
	}
	for name, c := range map[string]struct {
		refunds refundLedger
		given   map[string]int64
		settled int
	}{
		"the duplicate, whole":              {back("b", 100), nil, 1},
		"the duplicate, in part":            {back("b", 99), nil, 0},
		"the payment's own":                 {back("a", 100), nil, 0},
		"our word against a whole ledger":   {refundLedger{whole: true}, map[string]int64{"b": 100}, 0},
		"our word beside a list of charges": {refundLedger{}, map[string]int64{"b": 100}, 1},
	} {
		l := ledger{charges: charges{}, refunds: c.refunds}
		l.charges.add(taken("a", "twice", 100))
		l.charges.add(taken("b", "twice", 100))
		var r report
		r.doubleCharged("atlas", l, owned{"twice": "a"}, c.given)
		require.Equal(t, c.settled, r.DuplicatesRefunded, name)
		require.Len(t, r.DoubleCharged, 1-c.settled, name)
	}
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
