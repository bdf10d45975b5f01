package jobs

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// refunder is a provider in memory that refunds too. Its refunds have a script and a
// ledger of their own, in a fake whose charges are the refunds.
type refunder struct {
	*fake
	refunds *fake
	asked   chan provider.OperationQuery // the first lookups, if set
}

func (r *refunder) Capabilities() provider.Capabilities {
	c := r.fake.Capabilities()
	c.Operations, c.Disputes = []provider.OperationKind{provider.OpRefund}, true
	return c
}

func (r *refunder) FreezeOperation(q provider.OperationRequest) ([]byte, error) {
	if q.Money.Amount == 13 {
		return nil, &provider.FieldError{Field: "amount", Reason: "not divisible"}
	}
	return r.refunds.Freeze(provider.ChargeRequest{PaymentID: q.OperationID, Money: q.Money})
}

func (r *refunder) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	charged := r.refunds.Charge(ctx, c.Key, c.Body, c.Want)
	if charged.Object != nil {
		o := asRefund(*charged.Object, c.ProviderPaymentID)
		charged.Object = &o
	}
	return charged
}

func (r *refunder) LookupOperation(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	select {
	case r.asked <- q:
	default:
	}
	l := r.refunds.Lookup(ctx, provider.LookupQuery{PaymentID: q.OperationID, OperationKey: q.OperationKey, Want: q.Want})
	for i, o := range l.Objects {
		if i == 0 {
			l.Objects = append([]provider.Object(nil), l.Objects...)
		}
		l.Objects[i] = asRefund(o, q.ProviderPaymentID)
	}
	return l
}

func asRefund(o provider.Object, charge string) provider.Object {
	o.Kind, o.ID, o.Child = provider.ObjectRefund, "re_"+o.ID, provider.Child{ChargeID: charge}
	return o
}

var _ provider.Operator = (*refunder)(nil)

// newRefundBench is a bench whose one provider, atlas, refunds, with a payment that
// succeeded. The charge's own traces are wiped from the circuits.
func newRefundBench(t *testing.T, s provider.Settings, change func(*store.NewPayment)) (*bench, *refunder, store.Payment) {
	t.Helper()
	b := newBench(t, s)
	r := &refunder{fake: b.fakes[s.Name], refunds: newFake(s.Name)}
	r.refunds.caps = r.fake.caps
	b.registry = provider.NewRegistry(r)
	first := b.start("charges", nil)
	p := b.becomes(b.pay(s.Name, change).ID, store.Succeeded)
	b.idle(kindCharge)
	b.stopNow(first, 5e9)
	b.circuits.mu.Lock()
	b.circuits.reports = nil
	b.circuits.mu.Unlock()
	return b, r, p
}

// refund asks for one.
func (b *bench) refund(p store.Payment, amount int64) store.Operation {
	b.t.Helper()
	r, err := b.store.CreateRefund(context.Background(), store.NewRefund{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "test",
		IdempotencyKey: uuid.NewString(), Amount: amount}, store.Actor{Kind: "client", ID: "test"})
	require.NoError(b.t, err)
	return r.Operation
}

func (b *bench) operation(id uuid.UUID) store.Operation {
	b.t.Helper()
	op, err := b.store.Operation(context.Background(), id)
	require.NoError(b.t, err)
	return op
}

// refunded waits until an operation has the status.
func (b *bench) refunded(id uuid.UUID, want store.Status) store.Operation {
	b.t.Helper()
	var op store.Operation
	b.eventually("refund should become "+string(want), func() (bool, string) {
		op = b.operation(id)
		return op.Status == want, string(op.Status) + " (" + op.StatusReason + ", next " + op.NextCheckWhy + ")"
	})
	return op
}

// refundAttempts returns seq and outcome of a refund's attempts, "1:unknown 2:…".
func (b *bench) refundAttempts(op store.Operation) string {
	b.t.Helper()
	return b.text(`SELECT coalesce(string_agg(seq || ':' || coalesce(outcome, 'open'), ' ' ORDER BY seq), '')
		FROM attempts WHERE payment_id = $1 AND operation = $2`, op.PaymentID, op.AttemptName())
}

// made returns how many refunds the provider made for a request.
func (r *refunder) made(op store.Operation) int {
	r.refunds.mu.Lock()
	defer r.refunds.mu.Unlock()
	return len(r.refunds.ledger[op.ID.String()])
}
