package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
	"fusebox/store"
)

func disputeObject(p store.Payment, id, state string, amount int64, due time.Time) provider.Object {
	return provider.Object{Kind: provider.ObjectDispute, ID: id, Status: state, Reason: "fraudulent", Money: provider.Money{Amount: amount, Currency: "EUR"},
		Child: provider.Child{ChargeID: p.ProviderPaymentID, DueBy: due}}
}

func (w *world) disputes(p store.Payment) []store.Dispute {
	w.t.Helper()
	list, err := w.DisputesOfPayment(ctx, p.ID)
	require.NoError(w.t, err)
	return list
}

func TestDisputeIsItsOwnRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.paid(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	due := w.Now().Add(7 * 24 * time.Hour)
	require.Equal(t, "applied", w.hook(event("d1", disputeObject(p, "dp_1", provider.DisputeOpened, 1000, due), w.Now())))
	d := w.disputes(p)
	require.Len(t, d, 1)
	require.Equal(t, provider.DisputeOpened, d[0].State)
	require.Equal(t, int64(1000), d[0].Amount)
	require.True(t, due.Equal(*d[0].DueBy))
	open, more, err := w.OpenDisputes(ctx, 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, open, 1)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'dispute_opened' AND detail LIKE '%UTC%'`))

	w.clock.add(time.Hour)
	w.hook(event("d2", disputeObject(p, "dp_1", provider.DisputeLost, 1000, time.Time{}), w.Now()))
	w.hook(event("d2", disputeObject(p, "dp_1", provider.DisputeLost, 1000, time.Time{}), w.Now()))
	w.clock.add(time.Hour)
	w.hook(event("d3", disputeObject(p, "dp_1", provider.DisputeWon, 1000, time.Time{}), w.Now()))
	d = w.disputes(p)
	require.Equal(t, provider.DisputeWon, d[0].State, "either may follow the other")
	require.NotNil(t, d[0].DueBy)
	require.Equal(t, 3, w.count(`SELECT count(*) FROM alerts WHERE kind LIKE 'dispute_%'`))
	require.Equal(t, 3, w.count(`SELECT count(*) FROM payment_events WHERE kind LIKE 'dispute_%'`), "one entry per event")
	after := w.get(p.ID)
	require.Equal(t, p, after, "the payment is as it was")
	require.Equal(t, int64(1000), w.balance(wal.ID))
	open, _, err = w.OpenDisputes(ctx, 10)
	require.NoError(t, err)
	require.Empty(t, open)

	stranger := disputeObject(p, "dp_2", provider.DisputeOpened, 1, due)
	stranger.Child.ChargeID = "nobody's"
	require.Equal(t, "unmatched", w.hook(event("d4", stranger, w.Now())))
	require.Equal(t, "unmatched", w.hook(event("d5", disputeObject(p, "dp_1", "under_review", 1, due), w.Now())), "a word that is not ours")
}

func TestPropertyDisputeEventsInEveryOrderEndInTheSameState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.Now()
	rapid.Check(t, func(rt *rapid.T) {
		type word struct {
			state       string
			second, due int
			amount      int64
		}
		history := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) word {
			return word{rapid.SampledFrom([]string{provider.DisputeOpened, provider.DisputeWon, provider.DisputeLost}).Draw(rt, "state"),
				rapid.IntRange(-5, 0).Draw(rt, "second"), rapid.IntRange(0, 3).Draw(rt, "due"), rapid.SampledFrom([]int64{0, 500, 1000}).Draw(rt, "amount")}
		}), 1, 5).Draw(rt, "history")
		tell := func(list []word) store.Dispute {
			p := w.paid()
			for i, h := range list {
				due := time.Time{}
				if h.due > 0 {
					due = base.Add(time.Duration(h.due) * time.Hour)
				}
				o := disputeObject(p, "dp_"+p.ID.String(), h.state, h.amount, due)
				w.hook(event(fmt.Sprintf("d%d_%s", i, p.ID), o, base.Add(time.Duration(h.second)*time.Second)))
			}
			return w.disputes(p)[0]
		}
		x, y := tell(history), tell(rapid.Permutation(append(history, history...)).Draw(rt, "order"))
		require.Equal(rt, []any{x.State, x.Amount, x.Currency, x.DueBy, x.StateAt, x.OpenedAt}, []any{y.State, y.Amount, y.Currency, y.DueBy, y.StateAt, y.OpenedAt})
	})
}
