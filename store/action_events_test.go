package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// refusal is what a provider says of a capture or void of ours that it did not make.
func refusal(op store.Operation, id string) provider.Object {
	return provider.Object{ID: id, Kind: provider.ObjectKind(op.Kind), Reference: op.ID.String(), Status: "CAPTURE failed", Outcome: provider.Failed,
		Reason: "capture_refused", Message: "Insufficient balance", Money: op.Money(), Raw: []byte(`{}`),
		Child: provider.Child{ChargeID: op.ProviderPaymentID}}
}

// acknowledged is a capture or void of a held payment that the provider said it received.
func (w *world) acknowledged(kind provider.OperationKind) (store.Payment, store.Operation) {
	w.t.Helper()
	p := w.authorised()
	op := w.void
	if kind == provider.OpCapture {
		op = func(p store.Payment) store.Operation { return w.capture(p, 600) }
	}
	sent := w.send(op(p).ID, answered(provider.Processing, nil))
	require.Equal(w.t, store.Processing, sent.Status)
	return w.get(p.ID), sent
}

// A capture or void that was acknowledged and then refused is over, its charge is held as
// before, and another one can be ordered.
func TestARefusedCaptureOrVoidFails(t *testing.T) {
	t.Parallel()
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		w := newWorld(t)
		p, op := w.acknowledged(kind)
		e := event("refused", refusal(op, "mod_1"), w.Now())
		require.Equal(t, "applied", w.hook(e))
		after := w.op(op.ID)
		require.Equal(t, store.Failed, after.Status)
		require.Equal(t, "capture_refused", after.StatusReason)
		require.Equal(t, "Insufficient balance", after.ProviderMessage)
		require.Equal(t, string(store.ByEvent), after.StatusEvidence)
		require.Nil(t, after.NextCheckAt, "nobody asks any more")
		require.Empty(t, after.NeedsReview)
		now := w.get(p.ID)
		require.True(t, now.Authorised())
		require.Empty(t, now.NeedsReview)
		require.Equal(t, int64(1000), w.held(p.ID).Capturable)
		require.Equal(t, []string{"failed"}, w.outcomesOf(op))

		// Once more, and as an event of its own: nothing happens.
		w.hook(e)
		w.hook(event("refused again", refusal(op, "mod_1"), w.Now().Add(time.Second)))
		require.Equal(t, after, w.op(op.ID))
		require.Equal(t, now.Version, w.get(p.ID).Version)
		require.Equal(t, 2, w.count(`SELECT count(*) FROM audit_log WHERE target = $1 AND action = $2`, string(kind)+":"+op.ID.String(), string(kind)+".status"),
			"one move to processing, and one to failed")

		// Whatever comes next is another operation, and the refusal is not about it.
		second := w.capture(p, 600)
		o := done(second, taken(p, p.ProviderPaymentID, 600), provider.Succeeded)
		second = w.send(second.ID, answered(provider.Succeeded, &o))
		require.Equal(t, store.Succeeded, second.Status)
		require.Equal(t, store.Failed, w.op(op.ID).Status)
		require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	}
}

// outcomesOf are the outcomes of the provider's objects of an operation.
func (w *world) outcomesOf(op store.Operation) (out []string) {
	w.t.Helper()
	objects, err := w.OperationObjects(ctx, op.PaymentID)
	require.NoError(w.t, err)
	for _, o := range objects[op.ID] {
		out = append(out, o.Outcome)
	}
	return out
}

// Captured and then failed, in either order: the money decides and a person is asked. A
// void whose charge was let go is done whatever was said of it.
func TestSuccessAndRefusalInEitherOrderEndTheSame(t *testing.T) {
	t.Parallel()
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		for _, order := range [][]string{{"done", "refused"}, {"refused", "done"}, {"refused", "done", "refused"}, {"done", "refused", "done"}} {
			w := newWorld(t)
			p, op := w.acknowledged(kind)
			at := w.Now()
			for i, what := range order {
				o := refusal(op, "mod_1")
				if what == "done" && kind == provider.OpCapture {
					o = taken(p, p.ProviderPaymentID, 600)
				} else if what == "done" {
					o = released(p, p.ProviderPaymentID, provider.ReasonVoided)
				}
				w.hook(event(what+string(rune('a'+i)), o, at))
			}
			op, p = w.op(op.ID), w.get(p.ID)
			require.Equal(t, store.Succeeded, op.Status, "%s %v", kind, order)
			require.Empty(t, p.NeedsReview)
			if kind == provider.OpVoid {
				require.Empty(t, op.NeedsReview, "%v", order)
				require.Equal(t, store.Failed, p.Status)
				continue
			}
			require.Equal(t, []string{store.ReviewContradiction}, op.NeedsReview, "%v", order)
			require.Equal(t, store.Succeeded, p.Status)
			require.Equal(t, int64(600), p.CapturedAmount)
			require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = $1 AND payment_id = $2`, store.ReviewContradiction, p.ID))
		}
	}
}

// The event may be faster than the answer to the request itself, which changes nothing then.
func TestARefusalBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.authorised()
	op := w.capture(p, 600)
	a, _, err := w.BeginOperation(ctx, beginOp(op.ID))
	require.NoError(t, err)
	w.hook(event("refused", refusal(op, "mod_1"), w.Now()))
	require.Equal(t, store.Failed, w.op(op.ID).Status)
	require.Equal(t, store.Failed, w.finishOp(a, answered(provider.Processing, nil)).Status)
	require.True(t, w.get(p.ID).Authorised())
}

// A refusal is about the operation it names, of its own kind and provider, and no other.
func TestARefusalNamesItsOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, op := w.acknowledged(provider.OpCapture)
	void, stranger, nameless := refusal(op, "mod_1"), refusal(op, "mod_2"), refusal(op, "mod_3")
	void.Kind = provider.ObjectVoid
	stranger.Reference = uuid.NewString()
	nameless.Reference = ""
	for key, o := range map[string]provider.Object{"void": void, "stranger": stranger, "nameless": nameless} {
		require.Equal(t, "unmatched", w.hook(event(key, o, w.Now())), key)
	}
	require.Equal(t, store.Processing, w.op(op.ID).Status)

	// What is neither a failure nor shown in a charge decides nothing.
	odd := refusal(op, "mod_4")
	odd.Outcome = ""
	require.Equal(t, "applied", w.hook(event("odd", odd, w.Now())))
	made := refusal(op, "mod_5")
	made.Outcome = provider.Succeeded
	require.Equal(t, "applied", w.hook(event("made", made, w.Now())))
	require.Equal(t, store.Processing, w.op(op.ID).Status, "success is for the charge to show")

	// An object that is another operation's says nothing about this one, and a person is told.
	_, other := w.acknowledged(provider.OpCapture)
	require.Equal(t, "applied", w.hook(event("other", refusal(other, "mod_4"), w.Now())))
	other = w.op(other.ID)
	require.Equal(t, store.Processing, other.Status)
	require.Equal(t, []string{store.ReviewContradiction}, other.NeedsReview)
}

// A lookup and a list tell it as an event does.
func TestALookupAndAListTellOfARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, op := w.acknowledged(provider.OpCapture)
	foreign := refusal(op, "mod_9")
	foreign.Reference = uuid.NewString()
	require.Equal(t, store.Processing, w.lookupOp(op.ID, foundBy(foreign)).Status)
	op = w.lookupOp(op.ID, foundBy(refusal(op, "mod_1")))
	require.Equal(t, store.Failed, op.Status)
	require.Equal(t, string(store.ByLookup), op.StatusEvidence)
	require.Equal(t, "capture_refused", op.StatusReason)
	require.True(t, w.get(p.ID).Authorised())

	p, op = w.acknowledged(provider.OpVoid)
	w.page(w.openRun(), true, "", refusal(op, "mod_2"))
	op = w.op(op.ID)
	require.Equal(t, store.Failed, op.Status)
	require.Equal(t, string(store.BySync), op.StatusEvidence)
	require.True(t, w.get(p.ID).Authorised())
}
