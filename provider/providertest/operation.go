package providertest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// Behaviours of operations beside those of charges. "Charge…" ones execute the operation
// before they misbehave.
const (
	NotAllowed  Behaviour = "not_allowed"     // 405 with a page for people; not executed
	ChargeJunk  Behaviour = "charge_junk"     // 200, whole, and not JSON
	ChargeOther Behaviour = "charge_of_other" // the answer is about another operation
)

// OperationFake is what the Fake of an adapter that declares operations is as well. What
// Fake says of charges, it says of operations.
type OperationFake interface {
	Fake
	// NextOperation makes the following operation calls behave so, in order; later ones
	// succeed.
	NextOperation(...Behaviour)
	// ReceivedOperations returns the operation calls that arrived, in order.
	ReceivedOperations() []ReceivedOperation
	// BookedOperations returns the operations in the books, oldest first.
	BookedOperations() []provider.Object
	// BookOperation puts one into the books as if made elsewhere.
	BookOperation(provider.Object)
	// OperationEvent renders an event about an operation as the provider sends it.
	OperationEvent(id string, about provider.Object, at time.Time) (http.Header, []byte)
}

// ReceivedOperation is one operation call as it arrived.
type ReceivedOperation struct {
	ChargeID string // the provider's id of the charge
	Key      string // empty when the dialect sent none
	Body     []byte
}

// DisputeFake is what the Fake of an adapter that declares disputes is as well.
type DisputeFake interface {
	// DisputeEvent renders an event about a dispute as the provider sends it; the
	// object's Status is one of the words of package provider.
	DisputeEvent(id string, about provider.Object, at time.Time) (http.Header, []byte)
}

// refunds is an adapter that can refund, with a charge to do it to.
type refunds struct {
	provider.Adapter
	provider.Operator
	fake   OperationFake
	charge provider.Object
	money  provider.Money // of one refund: a part of the charge
	done   meaning        // of an answer without a fault
}

// refunds charges a payment, p1. The connection is warm afterwards: on a fresh one
// net/http never resends. A test of an adapter that declares no refunds is skipped.
func (h Harness) refunds(t *testing.T) refunds {
	t.Helper()
	a, fake := h.New(t)
	if !a.Capabilities().Can(provider.OpRefund) {
		t.Skip("the adapter declares no refunds")
	}
	op, ok := a.(provider.Operator)
	require.True(t, ok, "Capabilities.Operations promises an Operator")
	f, ok := fake.(OperationFake)
	require.True(t, ok, "the fake of an adapter that declares operations has to be an OperationFake")
	body, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	got := a.Charge(t.Context(), "charge-key", body, h.Money)
	require.Equal(t, provider.Succeeded, got.Outcome, "%+v", got.Classification)
	part := h.Money
	if h.Refundable != 0 {
		part.Amount = h.Refundable
	}
	return refunds{a, op, f, *got.Object, part, h.refundDone()}
}

// refundDone is what a refund's answer without a fault means.
func (h Harness) refundDone() meaning {
	if h.RefundsLater {
		return meanings[Accept]
	}
	return meanings[Succeed]
}

func (r refunds) request(id string) provider.OperationRequest {
	return provider.OperationRequest{
		OperationID: id, Kind: provider.OpRefund, PaymentID: "p1", ProviderPaymentID: r.charge.ID,
		Charged: r.charge.Money, Money: r.money,
	}
}

// call freezes a refund.
func (r refunds) call(t *testing.T, id, key string) provider.OperationCall {
	t.Helper()
	body, err := r.FreezeOperation(r.request(id))
	require.NoError(t, err)
	return provider.OperationCall{
		Kind: provider.OpRefund, OperationID: id, ProviderPaymentID: r.charge.ID, Key: key, Body: body, Want: r.money,
	}
}

func (r refunds) query(id, key string) provider.OperationQuery {
	return provider.OperationQuery{
		Kind: provider.OpRefund, OperationID: id, OperationKey: key, PaymentID: "p1", ProviderPaymentID: r.charge.ID, Want: r.money,
	}
}

// refund is one in the books or in an event.
func (r refunds) refund(id, reference string, outcome provider.Outcome) provider.Object {
	return provider.Object{
		ID: id, Reference: reference, Outcome: outcome, Money: r.money, CreatedAt: time.Now(),
		Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: r.charge.ID, PaymentID: "p1"},
	}
}

func testRefundFreeze(t *testing.T, h Harness) {
	r := h.refunds(t)
	first, err := r.FreezeOperation(r.request("op1"))
	require.NoError(t, err)
	again, err := r.FreezeOperation(r.request("op1"))
	require.NoError(t, err)
	require.Equal(t, first, again, "the same request freezes to the same bytes")
	other, err := r.FreezeOperation(r.request("op2"))
	require.NoError(t, err)
	require.NotEqual(t, first, other)

	for name, spoil := range map[string]func(*provider.OperationRequest){
		"no reference":     func(q *provider.OperationRequest) { q.OperationID = "" },
		"no charge":        func(q *provider.OperationRequest) { q.ProviderPaymentID = "" },
		"a path":           func(q *provider.OperationRequest) { q.ProviderPaymentID = "../payments" },
		"nothing":          func(q *provider.OperationRequest) { q.Money.Amount = 0 },
		"less":             func(q *provider.OperationRequest) { q.Money.Amount = -1 },
		"too much":         func(q *provider.OperationRequest) { q.Money.Amount = provider.MaxAmount + 1 },
		"no such currency": func(q *provider.OperationRequest) { q.Money.Currency = "XQQ" },
		"no such kind":     func(q *provider.OperationRequest) { q.Kind = "gift" },
	} {
		q := r.request("op1")
		spoil(&q)
		_, err := r.FreezeOperation(q)
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe, name)
		require.NotEmpty(t, fe.Field, name)
		require.NotEmpty(t, fe.Reason, name)
	}
	require.Empty(t, r.fake.ReceivedOperations())
}

// testRefundAnswers walks the behaviours: a refund's answers mean what a charge's do.
func testRefundAnswers(t *testing.T, h Harness) {
	for b, want := range with(map[Behaviour]meaning{
		Succeed:     h.refundDone(),
		NotAllowed:  {provider.Failed, provider.HealthNeutral, provider.NextNone, false, false, nil},
		ChargeJunk:  {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
		ChargeOther: {provider.Unknown, provider.HealthNeutral, provider.NextReconcile, true, true, nil},
	}) {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			r := h.refunds(t)
			if want.needs != nil && !want.needs(r.Capabilities()) {
				return // the dialect has no such answer
			}
			call := r.call(t, "op1", "k1")
			r.fake.NextOperation(b)

			got := r.Operate(t.Context(), call)

			require.Len(t, r.fake.ReceivedOperations(), 1)
			requireMeaning(t, b, want, got)
			if want.object {
				require.Equal(t, provider.ObjectRefund, got.Object.Kind)
			}
			if b == NotAllowed {
				require.NotEmpty(t, got.Alert, "the endpoint refuses: every refund will end like this one")
			}
			require.Len(t, r.fake.Received(), 1, "no charge call but the first")
		})
	}
}

func testRefundFrozenBytes(t *testing.T, h Harness) {
	r := h.refunds(t)
	call := r.call(t, "op1", "k1")
	got := r.Operate(t.Context(), call)
	require.Equal(t, r.done.outcome, got.Outcome, "%+v", got.Classification)
	arrived := r.fake.ReceivedOperations()
	require.Len(t, arrived, 1)
	require.Equal(t, string(call.Body), string(arrived[0].Body), "what was frozen is what is sent")
	require.Equal(t, r.charge.ID, arrived[0].ChargeID)
	if r.Capabilities().IdempotencyKeys {
		require.Equal(t, "k1", arrived[0].Key, "a key of its own, never the charge's")
	}
	booked := r.fake.BookedOperations()
	require.Len(t, booked, 1)
	require.Equal(t, r.money, booked[0].Money, "the provider's literal, not a value converted back by us")
	require.Equal(t, "op1", booked[0].Reference)
	require.Equal(t, booked[0].ID, got.Object.ID)
	require.Equal(t, provider.ObjectRefund, got.Object.Kind)
	require.Equal(t, "op1", got.Object.Reference)
	require.Equal(t, r.charge.ID, got.Object.Child.ChargeID)
	require.NotEmpty(t, got.Object.Raw)
}

// testRefundKeys: the same key and bytes after a lost answer bring the first refund back,
// and two refunds that differ in nothing but key and reference are two refunds.
func testRefundKeys(t *testing.T, h Harness) {
	r := h.refunds(t)
	if !r.Capabilities().IdempotencyKeys {
		return
	}
	call := r.call(t, "op1", "k1")
	r.fake.NextOperation(ChargeCut)
	require.Equal(t, provider.Unknown, r.Operate(t.Context(), call).Outcome)
	again := r.Operate(t.Context(), call)
	require.Equal(t, r.done.outcome, again.Outcome, "%+v", again.Classification)
	require.Len(t, r.fake.BookedOperations(), 1)
	require.Equal(t, r.fake.BookedOperations()[0].ID, again.Object.ID)

	equal := r.Operate(t.Context(), r.call(t, "op2", "k2"))
	require.Equal(t, r.done.outcome, equal.Outcome, "%+v", equal.Classification)
	require.NotEqual(t, again.Object.ID, equal.Object.ID)
	require.Len(t, r.fake.BookedOperations(), 2)
}

// testRefundTotals: what a provider says it gave back in all is the sum of its refunds.
func testRefundTotals(t *testing.T, h Harness) {
	r := h.refunds(t)
	if !r.Capabilities().CanAsk() {
		return
	}
	for i := range 2 {
		id := fmt.Sprintf("op%d", i)
		require.Equal(t, r.done.outcome, r.Operate(t.Context(), r.call(t, id, "k-"+id)).Outcome)
	}
	got := r.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", OperationKey: "charge-key", ProviderPaymentID: r.charge.ID, Want: h.Money})
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Len(t, got.Objects, 1, "a refund is no charge")
	require.Equal(t, provider.Succeeded, got.Objects[0].Outcome, "and changes nothing about it")
	require.Equal(t, h.Money, got.Objects[0].Money)
	if totals := got.Objects[0].Totals; totals != nil && r.done.outcome == provider.Succeeded {
		require.Equal(t, h.Money.Amount, totals.Captured)
		require.Equal(t, 2*r.money.Amount, totals.Refunded)
	}
}
