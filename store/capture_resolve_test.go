package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// TestAPersonSettlesACaptureThatWasAcknowledgedAndNeverMade: once it has been without a
// decision for too long, and not before.
func TestAPersonSettlesACaptureThatWasAcknowledgedAndNeverMade(t *testing.T) {
	t.Parallel()
	for _, to := range []store.Status{store.Succeeded, store.Failed} {
		t.Run(string(to), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.authorised()
			op := w.send(w.capture(p, 700).ID, answered(provider.Processing, nil))
			require.Equal(t, store.Processing, op.Status)
			_, err := w.decide(op, to)
			require.ErrorIs(t, err, store.ErrNotAllowed, "the provider may still decide")

			absent := provider.LookedUp{Verdict: provider.LookupAbsent, Way: provider.ByID, Reason: provider.ReasonNotFound}
			op = w.lookupOp(op.ID, absent, func(l *store.LookupPolicy) { l.MaxLookups = 1 })
			require.Equal(t, store.Processing, op.Status, "that it is still held proves nothing about what was acknowledged")
			require.Equal(t, []string{store.ReviewAged}, op.NeedsReview)
			op, err = w.decide(op, to)
			require.NoError(t, err)
			require.Equal(t, to, op.Status)
			require.Empty(t, op.NeedsReview)
			p = w.get(p.ID)
			if to == store.Succeeded {
				require.Equal(t, store.Succeeded, p.Status)
				require.Equal(t, int64(700), p.CapturedAmount)
				return
			}
			require.True(t, p.Authorised(), "another one may be asked for")
			w.capture(p, 1000)
		})
	}
}

func (w *world) decide(op store.Operation, to store.Status) (store.Operation, error) {
	return w.ResolveOperation(ctx, store.ResolveOperationParams{ActionID: uuid.New(), OperationID: op.ID, Version: op.Version, To: to,
		Reason: "seen in the dashboard", Evidence: "screenshot 12", By: someone})
}

// TestAPersonSettlesAnUnknownCapture: what was captured is paid, in the amount of the
// capture, and what was let go is failed; what was not done leaves the money held.
func TestAPersonSettlesAnUnknownCapture(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		kind    provider.OperationKind
		to      store.Status
		payment store.Status
		took    int64
	}{
		{"captured", provider.OpCapture, store.Succeeded, store.Succeeded, 700},
		{"not captured", provider.OpCapture, store.Failed, store.Processing, 0},
		{"let go", provider.OpVoid, store.Succeeded, store.Failed, 0},
		{"not let go", provider.OpVoid, store.Failed, store.Processing, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.authorised()
			var op store.Operation
			if c.kind == provider.OpCapture {
				op = w.capture(p, 700)
			} else {
				op = w.void(p)
			}
			op = w.send(op.ID, timedOut())
			require.Equal(t, store.Unknown, op.Status)
			_, err := w.Resolve(ctx, store.ResolveParams{ActionID: uuid.New(), PaymentID: p.ID, Version: w.get(p.ID).Version, To: store.Succeeded, Reason: "x", By: someone})
			require.ErrorIs(t, err, store.ErrNotAllowed, "the payment itself is not unknown")

			op, err = w.decide(op, c.to)
			require.NoError(t, err)
			require.Equal(t, c.to, op.Status)
			p = w.get(p.ID)
			require.Equal(t, c.payment, p.Status)
			require.Equal(t, c.took, p.CapturedAmount)
			if c.payment == store.Processing {
				require.True(t, p.Authorised(), "another one may be asked for")
				w.capture(p, 1000)
			}
		})
	}
}

// TestAPersonIsLateToSettleACapture: evidence that came first stays.
func TestAPersonIsLateToSettleACapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.authorised()
	op := w.send(w.capture(p, 700).ID, timedOut())
	w.clock.add(time.Minute)
	o := done(op, taken(p, "pay_"+p.ID.String(), 700), provider.Succeeded)
	w.lookupOp(op.ID, provider.LookedUp{Verdict: provider.LookupFound, Way: provider.ByID, Objects: []provider.Object{o}})
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	_, err := w.decide(op, store.Failed)
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	require.EqualValues(t, 700, w.get(p.ID).CapturedAmount)
}
