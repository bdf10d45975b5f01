package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// A refund read back from the provider after a bare hint is matched as one whose event
// said everything, also when its charge is not known yet.
func TestHintAboutARefund(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	charge := "pay_" + p.ID.String()
	r, err := w.ReceiveHint(ctx, delivery(provider.Event{Key: "hint"}), "re_1")
	require.NoError(t, err)
	_, err = w.BeginFetch(ctx, r.EventIDs[0])
	require.NoError(t, err)
	p.ProviderPaymentID = charge
	refund := outsideRefund(p, "re_1", 300, provider.Succeeded)
	e := event("re_1:succeeded", refund, w.Now())
	var state string
	require.NoError(t, w.tx(func(tx pgx.Tx) (err error) {
		state, err = w.ApplyFetched(ctx, tx, r.EventIDs[0], e)
		return err
	}))
	require.Equal(t, "unmatched", state)
	w.jobs.Clear(t)
	o := object(p, charge, provider.Succeeded)
	w.charge(p.ID, answered(provider.Succeeded, &o))
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", r.EventIDs[0]), "its charge is known now")
	require.NoError(t, w.tx(func(tx pgx.Tx) (err error) {
		state, err = w.ApplyFetched(ctx, tx, r.EventIDs[0], e)
		return err
	}))
	require.Equal(t, "applied", state)
	require.Equal(t, int64(300), w.figures(p.ID).Refunded)
}

// A payment that comes to rest on another charge whose refunds exceed it is not stuck
// for that: verify tells.
func TestRefundsOfAnotherChargeNeverBlockThePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a, b := object(p, "pay_a", provider.Processing), object(p, "pay_b", provider.Succeeded)
	b.Money.Amount = 1500
	w.hook(event("a", a, w.Now()))
	w.hook(event("b", b, w.Now()))
	own := w.get(p.ID).ProviderPaymentID
	back := outsideRefund(p, "re_b", 1500, provider.Succeeded)
	back.Child.ChargeID = "pay_b"
	require.Equal(t, "applied", w.hook(event("re_b", back, w.Now())))
	a.Outcome = provider.Failed
	require.Equal(t, "applied", w.hook(event("a2", a, w.Now())))
	require.NotEmpty(t, own)
	require.Equal(t, "pay_b", w.get(p.ID).ProviderPaymentID)
	require.NotEqual(t, store.Succeeded, w.get(p.ID).Status, "it took other money than was asked for")
}
