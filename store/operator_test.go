package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func resolve(p store.Payment, to store.Status) store.ResolveParams {
	return store.ResolveParams{ActionID: uuid.New(), PaymentID: p.ID, Version: p.Version, To: to,
		Reason: "seen in the provider's dashboard", Evidence: "TICKET-1", By: someone}
}

func TestResolveSettlesAnUnknownPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.unknown(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	r := resolve(p, store.Succeeded)
	after, err := w.Resolve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, store.Succeeded, after.Status)
	require.Equal(t, "operator", after.StatusEvidence)
	require.Equal(t, int64(1000), w.balance(wal.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.resolve' AND actor = $1 AND reason = $2`, someone.String(), r.Reason))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'operator' AND evidence->>'evidence' = 'TICKET-1'`))

	again, err := w.Resolve(ctx, r) // double click
	require.NoError(t, err)
	require.Equal(t, after, again)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'operator'`))

	w.hook(event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())) // the provider says so later
	require.Equal(t, int64(1000), w.balance(wal.ID), "a second settle adds nothing")
	require.Equal(t, "pay_1", w.get(p.ID).ProviderPaymentID)
}

func TestResolveRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending, unknown := w.create(), w.unknown()
	failed := w.charge(w.create().ID, answered(provider.Failed, nil))
	for name, r := range map[string]store.ResolveParams{
		"pending":               resolve(pending, store.Failed),
		"unknown to processing": resolve(unknown, store.Processing),
		"unknown to pending":    resolve(unknown, store.Pending),
		"failed to succeeded":   resolve(failed, store.Succeeded),
		"nothing to review":     resolve(failed, store.Failed),
		"unknown to itself":     resolve(unknown, store.Unknown),
	} {
		_, err := w.Resolve(ctx, r)
		require.ErrorIs(t, err, store.ErrNotAllowed, name)
		require.Zero(t, w.count(`SELECT count(*) FROM console_actions WHERE id = $1`, r.ActionID), "%s: the action is not spent", name)
	}
	silent := resolve(unknown, store.Failed)
	silent.Reason = "  "
	_, err := w.Resolve(ctx, silent)
	require.ErrorIs(t, err, store.ErrNotAllowed, "a reason is required")
	_, err = w.Resolve(ctx, resolve(store.Payment{ID: uuid.New()}, store.Failed))
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestResolveOfAChangedPaymentSaysWhoChangedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	seen := resolve(p, store.Failed)
	w.clock.add(time.Minute)
	w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	changed := w.Now()
	w.clock.add(time.Minute)
	_, err := w.Resolve(ctx, seen)
	var c *store.ConflictError
	require.ErrorAs(t, err, &c)
	require.Equal(t, store.Succeeded, c.Status)
	require.Equal(t, "lookup", c.What)
	require.Equal(t, changed, c.At)
	require.NotEmpty(t, c.By)
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
}

func TestLookupsThatFindNothingAreNoConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.lookup(p.ID, absentBy(provider.ByReference))
	w.lookup(p.ID, provider.LookedUp{Verdict: provider.LookupNoAnswer})
	_, err := w.Resolve(ctx, resolve(p, store.Failed))
	require.NoError(t, err)
}

func TestResolveClearsReviewReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	a, b := object(p, "pay_a", provider.Succeeded), object(p, "pay_b", provider.Succeeded)
	p = w.lookup(p.ID, foundBy(a, b))
	require.NotEmpty(t, p.NeedsReview)
	_, err := w.Resolve(ctx, resolve(p, store.Failed))
	require.ErrorIs(t, err, store.ErrNotAllowed, "succeeded never leaves, not even on a person's word")
	p, err = w.Resolve(ctx, resolve(p, store.Succeeded))
	require.NoError(t, err)
	require.Empty(t, p.NeedsReview)
	p = w.lookup(p.ID, foundBy(a, b))
	require.Empty(t, p.NeedsReview, "the same evidence again does not reopen what a person closed")
}

func TestReconcileNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.jobs.Clear(t)
	action := uuid.New()
	after, err := w.ReconcileNow(ctx, action, p.ID, p.Version, someone)
	require.NoError(t, err)
	require.Equal(t, w.Now(), *after.NextCheckAt)
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID))
	_, err = w.ReconcileNow(ctx, action, p.ID, p.Version, someone)
	require.NoError(t, err)
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID), "double click")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.reconcile'`))

	_, err = w.ReconcileNow(ctx, uuid.New(), p.ID, p.Version+7, someone)
	var c *store.ConflictError
	require.ErrorAs(t, err, &c)
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	_, err = w.ReconcileNow(ctx, uuid.New(), p.ID, p.Version, someone)
	require.ErrorIs(t, err, store.ErrNotAllowed)
	_, err = w.ReconcileNow(ctx, uuid.New(), uuid.New(), 1, someone)
	require.ErrorIs(t, err, store.ErrNotFound)
}
