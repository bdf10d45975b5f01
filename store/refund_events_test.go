package store_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// ops lists a payment's refunds by the provider's id, or ours before it is known.
func (w *world) ops(id uuid.UUID) map[string]store.Operation {
	w.t.Helper()
	list, err := w.OperationsOfPayment(ctx, id)
	require.NoError(w.t, err)
	out := map[string]store.Operation{}
	for _, op := range list {
		out[cmp.Or(op.ProviderObjectID, op.ID.String())] = op
	}
	require.Len(w.t, out, len(list))
	return out
}

// charged is an event's view of the charge, with the provider's running figure.
func chargedTotal(p store.Payment, refunded int64) provider.Object {
	o := object(p, p.ProviderPaymentID, provider.Succeeded)
	o.Totals = &provider.Totals{Captured: p.Amount, Refunded: refunded}
	return o
}

// W-05: the event of a refund comes before our answer, then one is made outside, then
// two equal ones are meant.
func TestW05_RefundCountedTwiceOrThePartialOneDropped(t *testing.T) {
	t.Parallel()
	for name, carries := range map[string]bool{"the provider repeats our reference": true, "it repeats nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.paid()
			op := w.refund(p, 300)
			a, _, err := w.BeginOperation(ctx, beginOp(op.ID))
			require.NoError(t, err)
			o := refundObject(op, "re_1"+p.ID.String(), provider.Succeeded)
			if !carries {
				o.Reference, o.Child.PaymentID = "", ""
			}
			early := event("re_1_"+p.ID.String(), o, w.Now())
			id := w.receive(early)
			want := "applied"
			if !carries {
				want = "unmatched" // it may be ours: only our answer can tell
			}
			require.Equal(t, want, w.applyRow(id, early))
			op = w.finishOp(a, answered(provider.Succeeded, &o))
			require.Equal(t, store.Succeeded, op.Status)
			if !carries {
				require.GreaterOrEqual(t, w.jobs.Asked(t, "webhook", id), 2, "woken by the answer")
				require.Equal(t, "applied", w.applyRow(id, early))
			}
			require.Equal(t, "applied", w.hook(event("total_1"+p.ID.String(), chargedTotal(p, 300), w.Now())))

			outside := outsideRefund(p, "re_x"+p.ID.String(), 200, provider.Succeeded)
			require.Equal(t, "applied", w.hook(event("re_x_"+p.ID.String(), outside, w.Now())))
			require.Equal(t, "applied", w.hook(event("re_x_again_"+p.ID.String(), outside, w.Now())))
			for _, ref := range []string{"re_3", "re_4"} {
				next := w.refund(p, 100)
				n := refundObject(next, ref+p.ID.String(), provider.Succeeded)
				w.send(next.ID, answered(provider.Succeeded, &n))
				w.hook(event(ref+"_"+p.ID.String(), n, w.Now()))
			}
			w.hook(event("total_2"+p.ID.String(), chargedTotal(p, 700), w.Now()))

			require.Equal(t, store.Refundable{ChargeID: p.ProviderPaymentID, Currency: "EUR", Captured: 1000, Refunded: 700, Refundable: 300}, w.figures(p.ID))
			ops := w.ops(p.ID)
			require.Len(t, ops, 4)
			require.Equal(t, store.OriginExternal, ops["re_x"+p.ID.String()].Origin)
			w.clock.add(time.Hour)
			w.sweep(store.SweepParams{})
			after := w.get(p.ID)
			require.Equal(t, store.Succeeded, after.Status)
			require.Empty(t, after.NeedsReview, "the provider's figure agrees and is never added")
		})
	}
}

// The running figure is a check: a refund whose event was lost shows after a while, and
// the reason goes when the event comes.
func TestW05_TheRunningFigureIsACheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	w.hook(event("total", chargedTotal(p, 200), w.Now()))
	w.sweep(store.SweepParams{})
	require.Empty(t, w.get(p.ID).NeedsReview, "the refund's own event may be on its way")
	w.clock.add(20 * time.Minute)
	require.Equal(t, 1, w.sweep(store.SweepParams{}).Differ)
	require.Equal(t, []string{store.ReviewRefundsDiffer}, w.get(p.ID).NeedsReview)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'refunds_differ'`))
	require.Equal(t, int64(1000), w.figures(p.ID).Refundable, "a figure is never an addition")

	w.hook(event("re", outsideRefund(p, "re_1", 200, provider.Succeeded), w.Now()))
	require.Empty(t, w.get(p.ID).NeedsReview)
	require.Equal(t, int64(800), w.figures(p.ID).Refundable)

	// An older, lower figure says nothing.
	w.hook(event("late", chargedTotal(p, 0), w.Now().Add(-time.Hour)))
	w.clock.add(20 * time.Minute)
	require.Zero(t, w.sweep(store.SweepParams{}).Differ)

	// What a person has cleared stays cleared.
	w.hook(event("more", chargedTotal(p, 500), w.Now()))
	w.clock.add(20 * time.Minute)
	require.Equal(t, 1, w.sweep(store.SweepParams{}).Differ)
	p = w.get(p.ID)
	_, err := w.Resolve(ctx, resolve(p, store.Succeeded))
	require.NoError(t, err)
	w.clock.add(20 * time.Minute)
	require.Zero(t, w.sweep(store.SweepParams{}).Differ)
	w.hook(event("same", chargedTotal(p, 500), w.Now()))
	w.clock.add(20 * time.Minute)
	require.Zero(t, w.sweep(store.SweepParams{}).Differ)
	require.Empty(t, w.get(p.ID).NeedsReview)

	// Until there is another figure.
	w.hook(event("most", chargedTotal(p, 600), w.Now()))
	w.clock.add(20 * time.Minute)
	require.Equal(t, 1, w.sweep(store.SweepParams{}).Differ)
	require.Equal(t, []string{store.ReviewRefundsDiffer}, w.get(p.ID).NeedsReview)
}

// W-04: the refund's event may come before those of the charge it is of.
func TestW04_RefundBeforeItsCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events := func(p store.Payment) []provider.Event {
		key := p.ID.String()
		refund := outsideRefund(p, "re_"+key, 300, provider.Succeeded)
		refund.Child = provider.Child{ChargeID: "pay_2" + key, PaymentID: key}
		at := w.Now()
		return []provider.Event{
			event("a"+key, object(p, "pay_2"+key, provider.Processing), at.Add(-4*time.Second)),
			event("b"+key, object(p, "pay_1"+key, provider.Failed), at.Add(-3*time.Second)),
			event("c"+key, object(p, "pay_2"+key, provider.Succeeded), at.Add(-2*time.Second)),
			event("d"+key, refund, at.Add(-2*time.Second)),
		}
	}
	for _, order := range permutations(4) {
		wal := w.wallet()
		p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
		list := events(p)
		for range 2 {
			for _, i := range order {
				w.hook(list[i])
			}
		}
		after := w.get(p.ID)
		require.Equal(t, store.Succeeded, after.Status, order)
		require.Empty(t, after.NeedsReview, order)
		require.Equal(t, "pay_2"+p.ID.String(), after.ProviderPaymentID)
		require.Equal(t, int64(300), w.figures(p.ID).Refunded, order)
		require.Equal(t, int64(700), w.figures(p.ID).Refundable, order)
		require.Len(t, w.ops(p.ID), 1, order)
		require.Equal(t, int64(700), w.balance(wal.ID), order)
	}
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
}

// refunding a duplicate touches that object only.
func TestR05_RefundOfTheDuplicateTouchesItOnly(t *testing.T) {
	t.Parallel()
	for name, ours := range map[string]bool{"made outside": false, "asked for here": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wal := w.wallet()
			p := w.paid(func(n *store.NewPayment) { n.WalletID = &wal.ID })
			b := object(p, "pay_b"+p.ID.String(), provider.Succeeded)
			w.hook(event("b", b, w.Now()))
			require.Contains(t, w.get(p.ID).NeedsReview, store.ReviewDuplicate)
			if ours {
				n := newRefund(p, 1000)
				n.ChargeID = b.ID
				r, err := w.CreateRefund(ctx, n, apiClient)
				require.NoError(t, err)
				require.Equal(t, b.ID, r.Operation.ProviderPaymentID)
				o := refundObject(r.Operation, "re_b", provider.Succeeded)
				w.send(r.Operation.ID, answered(provider.Succeeded, &o))
				more := newRefund(p, 1)
				more.ChargeID = b.ID
				_, err = w.CreateRefund(ctx, more, apiClient)
				var refused *store.NotRefundableError
				require.ErrorAs(t, err, &refused)
			} else {
				o := outsideRefund(p, "re_b", 1000, provider.Succeeded)
				o.Child.ChargeID = b.ID
				require.Equal(t, "applied", w.hook(event("re_b", o, w.Now())))
			}
			after := w.get(p.ID)
			require.Equal(t, store.Succeeded, after.Status)
			require.Equal(t, p.ProviderPaymentID, after.ProviderPaymentID)
			require.Empty(t, after.NeedsReview, "the duplicate was given back")
			require.Equal(t, int64(1000), w.figures(p.ID).Refundable, "the payment's own charge is untouched")
			require.Equal(t, int64(1000), w.balance(wal.ID), "and so is the wallet, which was credited once")
			b.Totals = &provider.Totals{Captured: 1000, Refunded: 1000}
			w.hook(event("b2", b, w.Now().Add(time.Second)))
			w.clock.add(time.Hour)
			w.sweep(store.SweepParams{})
			require.Empty(t, w.get(p.ID).NeedsReview)
		})
	}
}

func TestRefundEventsWaitForTheirCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	p.ProviderPaymentID = "pay_" + p.ID.String()
	e := event("re", outsideRefund(p, "re_1", 300, provider.Succeeded), w.Now())
	id := w.receive(e)
	require.Equal(t, "unmatched", w.applyRow(id, e))
	w.jobs.Clear(t)
	o := object(p, p.ProviderPaymentID, provider.Succeeded)
	w.charge(p.ID, answered(provider.Succeeded, &o))
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", id), "its charge is known now")
	require.Equal(t, "applied", w.applyRow(id, e))
	require.Equal(t, int64(300), w.figures(p.ID).Refunded)

	none := outsideRefund(p, "re_2", 0, provider.Succeeded)
	require.Equal(t, "unmatched", w.hook(event("re2", none, w.Now())), "it does not say how much")
	foreign := outsideRefund(p, "re_3", 100, provider.Succeeded)
	foreign.Money.Currency = "USD"
	require.Equal(t, "applied", w.hook(event("re3", foreign, w.Now())))
	require.Contains(t, w.get(p.ID).NeedsReview, store.ReviewRefundsDiffer, "amounts of two currencies are never added")
	require.Equal(t, int64(300), w.figures(p.ID).Refunded)
}

func TestRefundThatComesBackStaysSucceededAndIsReviewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.refund(w.paid(), 300)
	o := refundObject(op, "re_1", provider.Succeeded)
	w.send(op.ID, answered(provider.Succeeded, &o))
	o.Outcome, o.Status = provider.Failed, "failed"
	w.clock.add(time.Minute)
	w.hook(event("back", o, w.Now()))
	op = w.op(op.ID)
	require.Equal(t, store.Succeeded, op.Status)
	require.Equal(t, []string{store.ReviewContradiction}, op.NeedsReview)
	action := uuid.New()
	resolve := store.ResolveOperationParams{ActionID: action, OperationID: op.ID, Version: op.Version, To: store.Succeeded, Reason: "paid by bank transfer", By: someone}
	stale := resolve
	stale.ActionID, stale.Version = uuid.New(), op.Version-1
	_, err := w.ResolveOperation(ctx, stale)
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "refund_webhook", conflict.What)
	op, err = w.ResolveOperation(ctx, resolve)
	require.NoError(t, err)
	require.Empty(t, op.NeedsReview)
	again, err := w.ResolveOperation(ctx, resolve)
	require.NoError(t, err)
	require.Equal(t, op, again)
	resolve.ActionID, resolve.To = uuid.New(), store.Failed
	resolve.Version = op.Version
	_, err = w.ResolveOperation(ctx, resolve)
	require.ErrorIs(t, err, store.ErrNotAllowed)
}

func TestL01_RefundTakesItsMoneyOutOfTheWalletOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.paid(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	require.Equal(t, int64(1000), w.balance(wal.ID))
	op := w.refund(p, 300)
	require.Equal(t, int64(1000), w.balance(wal.ID), "only success has effects")
	o := refundObject(op, "re_1", provider.Succeeded)
	w.send(op.ID, answered(provider.Succeeded, &o))
	w.hook(event("e", o, w.Now()))
	w.lookupOp(op.ID, foundBy(o))
	require.Equal(t, int64(700), w.balance(wal.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM wallet_entries WHERE operation_id = 'refund:' || $1::text AND kind = 'refund'`, op.ID))
	_, _, err := w.Move(ctx, wal.ID, "refund:"+uuid.NewString(), -1, "", apiClient)
	require.ErrorIs(t, err, store.ErrOperationReused, "nobody else uses these ids")
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
	require.Empty(t, books.Refunds)
}

func TestRefundOfMoneyTheWalletHasSpent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.paid(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	_, _, err := w.Move(ctx, wal.ID, "spent", -900, "", apiClient)
	require.NoError(t, err)
	op := w.refund(p, 300)
	o := refundObject(op, "re_1", provider.Succeeded)
	op = w.send(op.ID, answered(provider.Succeeded, &o))
	op = w.op(op.ID)
	require.Equal(t, store.Succeeded, op.Status, "the provider gave the money back")
	require.Equal(t, []string{store.ReviewWalletShort}, op.NeedsReview)
	require.Equal(t, int64(100), w.balance(wal.ID), "never negative, and never half")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'wallet_short' AND severity = 'critical'`))
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift, "a person is on it")

	r := store.ResolveOperationParams{ActionID: uuid.New(), OperationID: op.ID, Version: op.Version, To: store.Succeeded, Reason: "topped up", By: someone}
	_, err = w.ResolveOperation(ctx, r)
	require.ErrorIs(t, err, store.ErrInsufficient)
	waived := r
	waived.WaiveWallet = true
	other := w.refund(p, 200)
	n := refundObject(other, "re_2", provider.Succeeded)
	w.send(other.ID, answered(provider.Succeeded, &n))
	_, _, err = w.Move(ctx, wal.ID, "back", 250, "", apiClient)
	require.NoError(t, err)
	op, err = w.ResolveOperation(ctx, r)
	require.NoError(t, err)
	require.Empty(t, op.NeedsReview)
	require.Equal(t, int64(50), w.balance(wal.ID))
	second := w.op(other.ID)
	waived.ActionID, waived.OperationID, waived.Version = uuid.New(), second.ID, second.Version
	second, err = w.ResolveOperation(ctx, waived)
	require.NoError(t, err)
	require.True(t, second.WalletWaived)
	require.Equal(t, int64(50), w.balance(wal.ID))
	books, err = w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
}
