package providertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// parsed reads one event that has to be about something of ours.
func parsed(t *testing.T, a provider.Adapter, raw []byte) provider.Event {
	t.Helper()
	events, err := a.Parse(raw)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.True(t, events[0].Interesting)
	require.NotEmpty(t, events[0].Key)
	require.NotEmpty(t, events[0].Object.ID)
	require.NotEmpty(t, events[0].Object.Raw)
	return events[0]
}

// testRefundEvents: an event about a refund never looks like one about its charge.
func testRefundEvents(t *testing.T, h Harness) {
	r := h.refunds(t)
	if !r.Capabilities().Webhooks {
		return
	}
	now := time.Now()
	seen := map[string]bool{}
	for name, about := range map[string]provider.Object{
		"succeeded":  r.refund("ref_1", "op1", provider.Succeeded),
		"processing": r.refund("ref_1", "op1", provider.Processing),
		"failed":     r.refund("ref_1", "op1", provider.Failed),
		"external":   r.refund("ref_2", "", provider.Succeeded), // made in the provider's dashboard
	} {
		header, raw := r.fake.OperationEvent("evt_"+name, about, now)
		require.Equal(t, provider.SignatureValid, r.Verify(header, raw, now).Verdict, name)
		e := parsed(t, r.Adapter, raw)
		require.False(t, seen[e.Key], "each event is an event of its own")
		seen[e.Key] = true
		o := e.Object
		require.Equal(t, provider.ObjectRefund, o.Kind, name)
		require.Equal(t, about.ID, o.ID, name)
		require.Equal(t, about.Reference, o.Reference, name)
		require.Equal(t, about.Outcome, o.Outcome, name)
		require.Equal(t, r.money, o.Money, name)
		if o.Child.ChargeID == "" { // an event that names its payment instead
			require.Equal(t, "p1", o.Child.PaymentID, name)
		} else {
			require.Equal(t, r.charge.ID, o.Child.ChargeID, name)
		}
		again, err := r.Parse(raw)
		require.NoError(t, err)
		require.Equal(t, []provider.Event{e}, again, "a redelivery is the same event")
	}
}

func testDisputeEvents(t *testing.T, h Harness) {
	a, fake := h.New(t)
	if !a.Capabilities().Disputes {
		t.Skip("the adapter declares no disputes")
	}
	f, ok := fake.(DisputeFake)
	require.True(t, ok, "the fake of an adapter that declares disputes has to be a DisputeFake")
	now := time.Now()
	due := now.Add(7 * 24 * time.Hour).Truncate(time.Second)
	words := []string{provider.DisputeOpened, provider.DisputeWon, provider.DisputeLost}
	if h.Chargebacks {
		words = words[:2]
	}
	for _, word := range words {
		about := provider.Object{
			ID: "dsp_1", Status: word, Money: h.Money, Reason: "fraudulent", CreatedAt: now,
			Kind: provider.ObjectDispute, Child: provider.Child{ChargeID: "pay_1", PaymentID: "p1", DueBy: due},
		}
		header, raw := f.DisputeEvent("evt_"+word, about, now)
		require.Equal(t, provider.SignatureValid, a.Verify(header, raw, now).Verdict, word)
		o := parsed(t, a, raw).Object
		require.Equal(t, provider.ObjectDispute, o.Kind, word)
		require.Equal(t, "dsp_1", o.ID, word)
		require.Equal(t, word, o.Status)
		require.Equal(t, h.Money, o.Money, "the amount at risk")
		require.Equal(t, "fraudulent", o.Reason)
		if o.Child.ChargeID == "" { // an event that names its payment instead
			require.Equal(t, "p1", o.Child.PaymentID, word)
		} else {
			require.Equal(t, "pay_1", o.Child.ChargeID, word)
		}
		if word == provider.DisputeOpened && !h.Chargebacks {
			require.WithinDuration(t, due, o.Child.DueBy, 0, "evidence has to be there in time")
		}
	}
}
