package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// TestTheLastLookupThatSettlesAsksNobody: the lookup after which a payment would have been
// open for too long settles it, so there is nothing left to ask.
func TestTheLastLookupThatSettlesAsksNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.charge(p.ID, timedOut())
	w.clock.add(time.Hour)
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Failed)), func(pol *store.LookupPolicy) { pol.MaxLookups = 1 })
	require.Equal(t, store.Failed, p.Status)
	require.Empty(t, p.NeedsReview)
}

// TestACaptureThatIsAnsweredAsksNobody: where nobody can be asked, an answer that settles
// a capture leaves nothing to ask.
func TestACaptureThatIsAnsweredAsksNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.authorised()
	op := w.capture(p, 700)
	a, _, err := w.BeginOperation(ctx, beginOp(op.ID))
	require.NoError(t, err)
	o := done(op, taken(p, p.ProviderPaymentID, 700), provider.Succeeded)
	require.NoError(t, w.tx(func(tx pgx.Tx) error {
		_, err := w.FinishOperation(ctx, tx, store.FinishParams{AttemptID: a.ID, Charged: answered(provider.Succeeded, &o),
			RetryAt: w.Now().Add(time.Minute), ReconcileAt: w.Now().Add(time.Minute), NoStatusAPI: true})
		return err
	}))
	op = w.op(op.ID)
	require.Equal(t, store.Succeeded, op.Status)
	require.Empty(t, op.NeedsReview)
}
