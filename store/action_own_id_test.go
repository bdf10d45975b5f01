package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// named is what a provider answers that keeps a capture under an id of its own.
func named(op store.Operation, id string, outcome provider.Outcome) *provider.Object {
	return &provider.Object{ID: id, Kind: provider.ObjectCapture, Status: string(outcome), Outcome: outcome, Money: op.Money(), Raw: []byte(`{}`),
		Child: provider.Child{ChargeID: op.ProviderPaymentID, PaymentID: op.PaymentID.String()}}
}

// nameless is a refusal that carries no reference of ours.
func nameless(op store.Operation, id string) provider.Object {
	o := refusal(op, id)
	o.Reference = ""
	return o
}

// A capture that was acknowledged under an id of its own and declined later fails by an
// event or a lookup that names that id and nothing else of ours, whichever comes first.
func TestACaptureDeclinedLaterFailsByItsOwnID(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*world, store.Operation) store.Operation{
		"an event": func(w *world, op store.Operation) store.Operation {
			op = w.send(op.ID, answered(provider.Processing, named(op, "CAP1", provider.Processing)))
			require.Equal(w.t, store.Processing, op.Status)
			require.Equal(w.t, "CAP1", op.ProviderObjectID)
			require.Equal(w.t, "unmatched", w.hook(event("of another", nameless(op, "CAP9"), w.Now())))
			require.Equal(w.t, "applied", w.hook(event("declined", nameless(op, "CAP1"), w.Now())))
			return w.op(op.ID)
		},
		"an event before the answer": func(w *world, op store.Operation) store.Operation {
			e := event("declined", nameless(op, "CAP1"), w.Now())
			id := w.receive(e)
			require.Equal(w.t, "unmatched", w.applyRow(id, e))
			before := w.jobs.Asked(w.t, "webhook", id)
			w.clock.add(time.Second)
			op = w.send(op.ID, answered(provider.Processing, named(op, "CAP1", provider.Processing)))
			require.Greater(w.t, w.jobs.Asked(w.t, "webhook", id), before, "woken by the answer")
			require.Equal(w.t, "applied", w.applyRow(id, e))
			return w.op(op.ID)
		},
		"a lookup": func(w *world, op store.Operation) store.Operation {
			op = w.send(op.ID, answered(provider.Processing, named(op, "CAP1", provider.Processing)))
			w.clock.add(time.Minute)
			op = w.lookupOp(op.ID, foundBy(nameless(op, "CAP9")))
			require.Equal(w.t, store.Processing, op.Status, "one that is not ours says nothing")
			return w.lookupOp(op.ID, foundBy(nameless(op, "CAP1")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.authorised()
			op := tell(w, w.capture(p, 600))
			require.Equal(t, store.Failed, op.Status)
			require.Equal(t, "capture_refused", op.StatusReason)
			require.Empty(t, op.NeedsReview)
			now := w.get(p.ID)
			require.True(t, now.Authorised(), "the money is held as before")
			require.Empty(t, now.NeedsReview)

			second := w.capture(p, 600)
			second = w.send(second.ID, answered(provider.Processing, named(second, "CAP2", provider.Processing)))
			require.Equal(t, "CAP2", second.ProviderObjectID)
			w.hook(event("declined again", nameless(op, "CAP1"), w.Now()))
			require.Equal(t, store.Processing, w.op(second.ID).Status, "it is not about that one")
			o := taken(p, p.ProviderPaymentID, 600)
			w.hook(event("captured", o, w.Now()))
			require.Equal(t, store.Succeeded, w.op(second.ID).Status)
			require.Equal(t, store.Succeeded, w.get(p.ID).Status)
		})
	}
}

// One id names one capture: of a second that is told the same, nothing is believed by it.
func TestAnIDOfItsOwnIsOneCaptures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.capture(w.authorised(), 600), w.capture(w.authorised(), 600)
	w.send(first.ID, answered(provider.Processing, named(first, "CAP1", provider.Processing)))
	got := w.send(second.ID, answered(provider.Processing, named(second, "CAP1", provider.Processing)))
	require.Equal(t, store.Processing, got.Status)
	require.Empty(t, got.ProviderObjectID)
}

// Where a provider keeps no capture, the charge's id is none of its own.
func TestTheChargesIDIsNoIDOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.capture(w.authorised(), 600)
	op = w.send(op.ID, answered(provider.Processing, named(op, op.ProviderPaymentID, provider.Processing)))
	require.Equal(t, store.Processing, op.Status)
	require.Empty(t, op.ProviderObjectID)
}
