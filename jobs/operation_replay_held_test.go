package jobs

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// holder is a provider in memory that holds money until it is captured or let go, answers
// no question and takes the same key again. What becomes of a charge shows in the charge.
type holder struct{ *refunder }

func (h *holder) Capabilities() provider.Capabilities {
	c := h.fake.Capabilities()
	c.Ways, c.Listing = []provider.Way{provider.ReplayKey, provider.WebhookOnly}, false
	c.Operations = []provider.OperationKind{provider.OpRefund, provider.OpCapture, provider.OpVoid}
	return c
}

func (h *holder) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	charged := h.refunds.Charge(ctx, c.Key, c.Body, c.Want)
	if charged.Object == nil {
		return charged
	}
	charge := provider.Object{ID: c.ProviderPaymentID, Status: "captured", Outcome: provider.Succeeded, Money: c.Want, Raw: []byte(`{}`)}
	kind := provider.ObjectCapture
	if c.Kind == provider.OpVoid {
		charge.Status, charge.Outcome, charge.Reason, kind = "canceled", provider.Failed, provider.ReasonVoided, provider.ObjectVoid
	}
	charged.Object = &provider.Object{ID: charge.ID, Kind: kind, Status: charge.Status, Outcome: provider.Succeeded, Money: c.Want,
		Child: provider.Child{ChargeID: charge.ID, Charge: &charge}}
	return charged
}

// holdsMoney authorises and takes nothing.
func holdsMoney(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
	o := f.book(ctx, key, body, true)
	o.Status, o.Outcome, o.Reason = "requires_capture", provider.Processing, provider.ReasonAuthorised
	o.Totals = &provider.Totals{Authorised: want.Amount}
	return classified(written(http.StatusOK), &o, want)
}

// An unknown capture or void is settled by its own key and bytes too, and with it its payment.
func TestAnUnknownCaptureOrVoidIsReplayed(t *testing.T) {
	t.Parallel()
	for kind, payment := range map[provider.OperationKind]store.Status{provider.OpCapture: store.Succeeded, provider.OpVoid: store.Failed} {
		for name, first := range map[string]answer{"made": cut, "lost": lost} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, quick("atlas"))
				h := &holder{&refunder{fake: b.fakes["atlas"], refunds: newFake("atlas")}}
				b.registry = provider.NewRegistry(h)
				h.fake.on(holdsMoney)
				h.refunds.on(first, succeeds)
				b.start("w1", nil)
				p := b.becomes(b.pay("atlas", func(n *store.NewPayment) { n.Capture = store.CaptureManual }).ID, store.Processing)
				create := b.store.CreateCapture
				if kind == provider.OpVoid {
					create = b.store.CreateVoid
				}
				a, err := create(context.Background(), store.NewAction{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "test",
					IdempotencyKey: uuid.NewString()}, store.Actor{Kind: "client", ID: "test"})
				require.NoError(t, err)
				op := b.refunded(a.Operation.ID, store.Succeeded)
				b.idle(kindOperation)
				b.idle(kindOpLookup)
				require.Equal(t, 1, h.made(op))
				require.Equal(t, "1:unknown 2:succeeded", b.refundAttempts(op))
				seen := h.refunds.seen()
				require.Len(t, seen, 2)
				require.Equal(t, seen[0].key, seen[1].key)
				require.Equal(t, seen[0].body, seen[1].body)
				require.Equal(t, payment, b.payment(p.ID).Status)
				require.Equal(t, 1, b.events(p.ID, string(kind)+"_resend_started"))
			})
		}
	}
}
