package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// A page about a payment keeps what was sent for its refunds apart from its charge.
func TestDossierSortsAttemptsByWhatTheyWereFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	one, two := w.refund(p, 100), w.refund(p, 200)
	w.send(one.ID, notSent())
	w.send(one.ID, timedOut())
	o := refundObject(two, "re_2", provider.Succeeded)
	w.send(two.ID, answered(provider.Succeeded, &o))
	d, err := w.Dossier(ctx, p.ID)
	require.NoError(t, err)
	require.Len(t, d.Attempts, 1)
	require.Len(t, d.Operations, 2)
	require.Len(t, d.OperationAttempts[one.ID], 2)
	require.Len(t, d.OperationAttempts[two.ID], 1)
	require.Equal(t, int64(200), d.Refundable.Refunded)
	require.Equal(t, int64(100), d.Refundable.Unknown)
	require.Equal(t, int64(700), d.Refundable.Refundable)
	require.Empty(t, d.Disputes)
	require.Equal(t, d.Refundable, w.figures(p.ID))
}
