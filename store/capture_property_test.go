package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
	"fusebox/store"
)

// What may be said of a payment that is held.
var captureSayings = []string{"authorised", "capture answer", "capture event", "charge event", "void", "expiry", "refusal"}

// tellCapture makes a payment with a capture of 600, or a void, on its way, says things
// about it, and returns where it ended.
func (w *world) tellCapture(kind provider.OperationKind, history []string, at map[string]int) string {
	wal := w.wallet()
	p := w.authorised(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	op := w.capture
	if kind == provider.OpVoid {
		op = func(p store.Payment, _ int64) store.Operation { return w.void(p) }
	}
	mine := op(p, 600)
	amount := int64(600)
	if kind == provider.OpVoid {
		amount = 1000 // captured by somebody else
	}
	a, _, err := w.BeginOperation(ctx, beginOp(mine.ID))
	require.NoError(w.t, err)
	id := p.ProviderPaymentID
	for i, what := range history {
		when := w.Now().Add(time.Duration(at[what]) * time.Second)
		key := fmt.Sprintf("e%d_%s", i, p.ID)
		switch what {
		case "authorised":
			w.hook(event(key, held(p, id), when))
		case "capture answer":
			o := done(mine, taken(p, id, amount), provider.Succeeded)
			outcome := provider.Succeeded
			if kind == provider.OpVoid {
				o.Outcome, outcome = "", provider.Unknown
			}
			w.finishOp(a, answered(outcome, &o))
		case "capture event", "charge event":
			w.hook(event(key, taken(p, id, amount), when))
		case "void":
			w.hook(event(key, released(p, id, provider.ReasonVoided), when))
		case "refusal":
			w.hook(event(key, refusal(mine, "mod_"+p.ID.String()), when))
		case "expiry":
			w.hook(event(key, released(p, id, provider.ReasonExpired), when))
		}
	}
	p, mine = w.get(p.ID), w.op(mine.ID)
	return fmt.Sprint(p.Status, p.NeedsReview, p.CapturedAmount, mine.Status, mine.NeedsReview, w.balance(wal.ID))
}

// W-04: whatever is said of a held payment, in whatever order and however often: the
// same end, of the payment, its capture or void, and the wallet.
func TestW04CaptureEventsInEveryOrderEndInTheSameState(t *testing.T) {
	t.Parallel()
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rapid.Check(t, func(rt *rapid.T) {
				told := rapid.SliceOfNDistinct(rapid.SampledFrom(captureSayings), 1, len(captureSayings), rapid.ID[string]).Draw(rt, "told")
				at := map[string]int{}
				for _, s := range captureSayings {
					at[s] = rapid.IntRange(-20, -1).Draw(rt, s)
				}
				twice := append(slices.Clone(told), told...)
				one := rapid.Permutation(twice).Draw(rt, "order")
				other := rapid.Permutation(twice).Draw(rt, "other order")
				require.Equal(rt, w.tellCapture(kind, one, at), w.tellCapture(kind, other, at))
			})
			books, err := w.Books(ctx)
			require.NoError(t, err)
			require.Empty(t, books.WalletDrift)
		})
	}
}
