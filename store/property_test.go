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

var anyOutcome = rapid.SampledFrom([]provider.Outcome{provider.Succeeded, provider.Failed, provider.Processing, provider.RequiresAction, ""})

// saying is one event in a random history: what the provider said of which object, when.
type saying struct {
	object  string
	outcome provider.Outcome
	second  int
	amount  int64
}

func sayings(objects []string, amounts []int64) *rapid.Generator[[]saying] {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) saying {
		return saying{rapid.SampledFrom(objects).Draw(rt, "object"), anyOutcome.Draw(rt, "outcome"),
			rapid.IntRange(-20, 0).Draw(rt, "second"), rapid.SampledFrom(amounts).Draw(rt, "amount")}
	}), 1, 6)
}

// tell delivers a history as webhooks to a new payment and returns where it ended.
func (w *world) tell(wallet uuid.UUID, history []saying) store.Payment {
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wallet })
	for i, s := range history {
		o := object(p, s.object+p.ID.String(), s.outcome)
		o.Money.Amount = s.amount
		w.hook(event(fmt.Sprintf("evt_%d_%s", i, p.ID), o, w.Now().Add(time.Duration(s.second)*time.Second)))
	}
	return w.get(p.ID)
}

// Whatever events say and in whatever order: with one object, every order and
// repetition ends in the same state; and money that moved as asked always ends in
// succeeded, credited once.
func TestPropertyEventsInEveryOrderEndInTheSameState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		history := sayings([]string{"a"}, []int64{1000}).Draw(rt, "history")
		other := rapid.Permutation(append(slices.Clone(history), history...)).Draw(rt, "other order")
		wal1, wal2 := w.wallet(), w.wallet()
		x, y := w.tell(wal1.ID, history), w.tell(wal2.ID, other)
		require.Equal(rt, x.Status, y.Status)
		require.Equal(rt, x.NeedsReview, y.NeedsReview)
		require.Equal(rt, w.balance(wal1.ID), w.balance(wal2.ID))
	})
}

func TestPropertyMoneyAsAskedAlwaysEndsInSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		history := sayings([]string{"a", "b"}, []int64{1000, 1000, 900, 0}).Draw(rt, "history")
		paid := slices.ContainsFunc(history, func(s saying) bool { return s.outcome == provider.Succeeded && s.amount == 1000 })
		wal := w.wallet()
		p := w.tell(wal.ID, history)
		require.Equal(rt, paid, p.Status == store.Succeeded, "%s", p.Status)
		if paid {
			require.Equal(rt, int64(1000), w.balance(wal.ID))
		} else {
			require.Zero(rt, w.balance(wal.ID))
		}
	})
}

// step is one thing that happens to a payment, from any way in.
type step struct {
	name string
	do   func()
}

// steps that can happen to payment id at any time. Errors the store gives for bad
// timing are part of life.
func (w *world) steps(rt *rapid.T, id uuid.UUID, open *[]store.Attempt) []step {
	p := w.get(id)
	obj := func() provider.Object {
		o := object(p, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "object")+id.String(), anyOutcome.Draw(rt, "outcome"))
		o.Money.Amount = rapid.SampledFrom([]int64{1000, 1000, 1000, 900}).Draw(rt, "amount")
		return o
	}
	return []step{
		{"begin", func() {
			b := begin(id)
			b.Recharge = rapid.Bool().Draw(rt, "recharge")
			if a, _, err := w.BeginAttempt(ctx, b); err == nil {
				*open = append(*open, a)
			}
		}},
		{"finish", func() {
			if len(*open) == 0 {
				return
			}
			a := (*open)[0]
			*open = (*open)[1:]
			out := rapid.SampledFrom([]provider.Outcome{provider.NotSent, provider.NotExecuted, provider.Unknown, provider.Processing, provider.Failed, provider.Succeeded}).Draw(rt, "answer")
			o := obj()
			o.Outcome, o.Money.Amount = out, 1000
			c := answered(out, nil)
			if out == provider.Succeeded || rapid.Bool().Draw(rt, "with object") && out != provider.NotSent && out != provider.NotExecuted && out != provider.Unknown {
				c.Object = &o
			}
			w.finish(a, c)
		}},
		{"event", func() { w.hook(event("evt_"+uuid.NewString(), obj(), w.Now())) }},
		{"found", func() { w.lookup(id, foundBy(obj())) }},
		{"absent", func() {
			w.lookup(id, absentBy(provider.ByReference), func(l *store.LookupPolicy) {
				l.OnAbsent = rapid.SampledFrom([]string{"fail", "recharge"}).Draw(rt, "on absent")
			})
		}},
		{"no answer", func() { w.lookup(id, provider.LookedUp{Verdict: provider.LookupNoAnswer}) }},
		{"time", func() { w.clock.add(time.Duration(rapid.IntRange(1, 20).Draw(rt, "minutes")) * time.Minute) }},
		{"sweep", func() { w.sweep(store.SweepParams{UnknownAged: time.Hour}) }},
		{"operator", func() {
			_, _ = w.Resolve(ctx, resolve(p, rapid.SampledFrom(store.Statuses).Draw(rt, "to")))
		}},
	}
}

// A random life of a payment, through every way in: the rules hold after each step.
func TestPropertyRulesHoldOverAnyLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		wal := w.wallet()
		p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
		var open []store.Attempt
		for range rapid.IntRange(3, 10).Draw(rt, "length") {
			before := w.get(p.ID)
			s := rapid.SampledFrom(w.steps(rt, p.ID, &open)).Draw(rt, "step")
			s.do()
			w.checkRules(rt, s.name, before, w.get(p.ID), wal.ID)
		}
	})
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
	require.Zero(t, w.count(`SELECT count(*) FROM (SELECT payment_id FROM attempts WHERE outcome IS NULL GROUP BY payment_id HAVING count(*) > 1) x`))
	require.Zero(t, w.count(`SELECT count(*) FROM (SELECT payment_id FROM attempts GROUP BY payment_id HAVING count(DISTINCT operation_key) + count(DISTINCT request_hash) > 2) x`), "one key and one body per payment")
}

func (w *world) checkRules(rt *rapid.T, step string, before, after store.Payment, wallet uuid.UUID) {
	moved := fmt.Sprintf("%s: %s to %s", step, before.Status, after.Status)
	if before.Status == store.Succeeded {
		require.Equal(rt, store.Succeeded, after.Status, moved)
	}
	if before.Status != store.Pending {
		require.NotEqual(rt, store.Pending, after.Status, moved)
	}
	if before.Status == store.Failed {
		require.Contains(rt, []store.Status{store.Failed, store.Succeeded}, after.Status, moved)
	}
	if after.Status != before.Status && (step == "sweep" || step == "time" || step == "begin") {
		require.Equal(rt, store.Unknown, after.Status, "time decides nothing: "+moved)
	}
	if before.UnknownSeen {
		require.True(rt, after.UnknownSeen)
	}
	require.Equal(rt, after.Status == store.Unknown, after.UnknownSince != nil, moved)
	require.Equal(rt, after.Status.Final(), after.SettledAt != nil, moved)
	require.GreaterOrEqual(rt, after.Version, before.Version)
	if after.Status != before.Status {
		require.Greater(rt, after.Version, before.Version)
	}
	if !after.Status.Final() {
		require.True(rt, after.NextCheckAt != nil || len(after.NeedsReview) > 0, "no next step: "+moved)
	}
	want := int64(0)
	if after.Status == store.Succeeded {
		want = 1000
	}
	require.Equal(rt, want, w.balance(wallet), moved)
}
