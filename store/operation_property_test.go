package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
	"fusebox/store"
)

// told is one event about a refund: which, what, when.
type told struct {
	which   int // 0, 1: ours; 2, 3: made outside
	outcome provider.Outcome
	second  int
}

var anyRefundOutcome = rapid.SampledFrom([]provider.Outcome{provider.Succeeded, provider.Failed, provider.Processing, ""})

// tellRefunds makes a payment with two refunds of ours in flight, delivers a history,
// and returns what became of each refund, by its number.
func (w *world) tellRefunds(wallet uuid.UUID, history []told) (out map[string]string, f store.Refundable, review []string) {
	p := w.paid(func(n *store.NewPayment) { n.WalletID = &wallet })
	mine := []store.Operation{w.refund(p, 300), w.refund(p, 300)}
	for _, op := range mine {
		w.send(op.ID, timedOut())
	}
	amounts := []int64{300, 300, 200, 500}
	for i, h := range history {
		id := fmt.Sprintf("re_%d_%s", h.which, p.ID)
		o := outsideRefund(p, id, amounts[h.which], h.outcome)
		if h.which < 2 {
			o.Reference = mine[h.which].ID.String()
		}
		w.hook(event(fmt.Sprintf("e%d_%s", i, p.ID), o, w.Now().Add(time.Duration(h.second)*time.Second)))
	}
	out = map[string]string{}
	for id, op := range w.ops(p.ID) {
		for n := range amounts {
			if id == fmt.Sprintf("re_%d_%s", n, p.ID) {
				// Of refunds that exceed the charge the wallet covers those that come first.
				reasons := slices.DeleteFunc(op.NeedsReview, func(r string) bool { return r == store.ReviewWalletShort })
				out[fmt.Sprint(n)] = fmt.Sprintf("%s %d beyond %d %v", op.Status, op.Amount, op.Beyond, reasons)
			}
		}
	}
	f = w.figures(p.ID)
	f.ChargeID = ""
	return out, f, w.get(p.ID).NeedsReview
}

// Whatever is said of refunds, in whatever order and however often: the same end, row
// by row, in the figures and in the wallet.
func TestPropertyRefundEventsInEveryOrderEndInTheSameState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) told {
			return told{rapid.IntRange(0, 3).Draw(rt, "which"), anyRefundOutcome.Draw(rt, "outcome"), rapid.IntRange(-20, 0).Draw(rt, "second")}
		}), 1, 6).Draw(rt, "history")
		other := rapid.Permutation(append(slices.Clone(history), history...)).Draw(rt, "other order")
		wal1, wal2 := w.wallet(), w.wallet()
		x, f, r := w.tellRefunds(wal1.ID, history)
		y, g, q := w.tellRefunds(wal2.ID, other)
		require.Equal(rt, x, y)
		require.Equal(rt, f, g)
		require.Equal(rt, r, q)
		if f.Refunded <= 1000 {
			require.Equal(rt, 1000-f.Refunded, w.balance(wal1.ID))
			require.Equal(rt, w.balance(wal1.ID), w.balance(wal2.ID))
		}
	})
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
}

// ledger is a provider that refunds what it is asked for once per key, and refuses what
// is not there, as providers do.
type ledger struct {
	left    int64
	refunds map[string]provider.Object // by key, or id
}

func (l *ledger) operate(op store.Operation) (provider.Object, bool) {
	if o, done := l.refunds[op.OperationKey]; done {
		return o, true
	}
	if op.Amount > l.left {
		return provider.Object{}, false
	}
	l.left -= op.Amount
	o := refundObject(op, "re_"+op.ID.String(), provider.Succeeded)
	l.refunds[op.OperationKey] = o
	return o, true
}

// A random life of a payment's refunds, through every way in, at a provider that keeps
// its own books: after each step nothing exceeds what was captured, and once everything
// was asked about, our books and theirs are equal.
func TestPropertyRefundsNeverExceedTheCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		wal := w.wallet()
		p := w.paid(func(n *store.NewPayment) { n.WalletID = &wal.ID })
		l := &ledger{left: p.Amount, refunds: map[string]provider.Object{}}
		for range rapid.IntRange(3, 12).Draw(rt, "length") {
			w.refundStep(rt, p, l)
			f := w.figures(p.ID)
			require.LessOrEqual(rt, f.Refunded, f.Captured)
			require.LessOrEqual(rt, w.count(`SELECT refunds_held FROM payments WHERE id = $1`, p.ID), 1000)
			require.Equal(rt, store.Succeeded, w.get(p.ID).Status)
			require.Equal(rt, 1000-f.Refunded, w.balance(wal.ID))
		}
		w.settleRefunds(rt, p, l)
		f := w.figures(p.ID)
		require.Equal(rt, 1000-l.left, f.Refunded)
		require.Zero(rt, f.Pending+f.Unknown)
		require.Equal(rt, l.left, f.Refundable)
		require.Equal(rt, l.left, w.balance(wal.ID))
		require.Zero(rt, w.count(`SELECT coalesce(sum(beyond), 0) FROM operations WHERE payment_id = $1`, p.ID))
	})
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
	require.Empty(t, books.Refunds)
	require.Zero(t, w.count(`SELECT count(*) FROM (SELECT payment_id, operation FROM attempts WHERE operation <> 'charge' AND outcome NOT IN ('not_sent', 'not_executed')
		GROUP BY 1, 2 HAVING count(*) > 1) x`), "what may have been sent is never sent again")
}

func (w *world) refundStep(rt *rapid.T, p store.Payment, l *ledger) {
	list, err := w.OperationsOfPayment(ctx, p.ID)
	require.NoError(rt, err)
	pick := func() (store.Operation, bool) {
		if len(list) == 0 {
			return store.Operation{}, false
		}
		return rapid.SampledFrom(list).Draw(rt, "refund"), true
	}
	switch rapid.SampledFrom([]string{"ask", "ask", "send", "send", "event", "lookup", "outside", "time"}).Draw(rt, "step") {
	case "ask":
		n := newRefund(p, rapid.SampledFrom([]int64{100, 300, 600, 1000}).Draw(rt, "amount"))
		_, err := w.CreateRefund(ctx, n, apiClient)
		var refused *store.NotRefundableError
		if err != nil {
			require.ErrorAs(rt, err, &refused)
		}
	case "send":
		if op, ok := pick(); ok && op.Origin != store.OriginExternal {
			w.sendTo(rt, op, l)
		}
	case "event":
		if op, ok := pick(); ok {
			if o, done := l.refunds[op.OperationKey]; done {
				w.hook(event("e_"+uuid.NewString(), o, w.Now()))
			}
		}
	case "lookup":
		if op, ok := pick(); ok {
			w.lookInto(op, l)
		}
	case "outside":
		amount := rapid.SampledFrom([]int64{50, 200}).Draw(rt, "amount")
		if amount <= l.left {
			l.left -= amount
			o := outsideRefund(p, "re_x_"+uuid.NewString(), amount, provider.Succeeded)
			l.refunds[o.ID] = o
			w.hook(event("e_"+o.ID, o, w.Now()))
		}
	case "time":
		w.clock.add(time.Duration(rapid.IntRange(1, 20).Draw(rt, "minutes")) * time.Minute)
		w.sweep(store.SweepParams{})
	}
}

// sendTo sends a refund and loses the answer now and then.
func (w *world) sendTo(rt *rapid.T, op store.Operation, l *ledger) {
	a, op, err := w.BeginOperation(ctx, beginOp(op.ID))
	if err != nil {
		return
	}
	switch rapid.SampledFrom([]string{"answer", "answer", "lost before", "lost after", "not sent", "killed before", "killed after"}).Draw(rt, "wire") {
	case "answer":
		if o, ok := l.operate(op); ok {
			w.finishOp(a, answered(provider.Succeeded, &o))
		} else {
			w.finishOp(a, answered(provider.Failed, nil))
		}
	case "lost before":
		w.finishOp(a, timedOut())
	case "lost after":
		l.operate(op)
		w.finishOp(a, timedOut())
	case "not sent":
		w.finishOp(a, notSent())
	case "killed after":
		l.operate(op)
	}
}

func (w *world) lookInto(op store.Operation, l *ledger) store.Operation {
	if o, done := l.refunds[op.OperationKey]; done {
		return w.lookupOp(op.ID, foundBy(o))
	}
	return w.lookupOp(op.ID, absentBy(provider.ByReference))
}

// settleRefunds asks and sends until nothing is open.
func (w *world) settleRefunds(rt *rapid.T, p store.Payment, l *ledger) {
	for range 50 {
		w.clock.add(horizon + deadline)
		w.sweep(store.SweepParams{})
		open := 0
		list, err := w.OperationsOfPayment(ctx, p.ID)
		require.NoError(rt, err)
		for _, op := range list {
			switch {
			case op.Status == store.Pending:
				open++
				if a, op, err := w.BeginOperation(ctx, beginOp(op.ID)); err == nil {
					if o, ok := l.operate(op); ok {
						w.finishOp(a, answered(provider.Succeeded, &o))
					} else {
						w.finishOp(a, answered(provider.Failed, nil))
					}
				}
			case !op.Status.Final():
				open++
				w.lookInto(op, l)
			}
		}
		if open == 0 {
			return
		}
	}
	rt.Fatal("still open")
}
