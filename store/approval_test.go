package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestAProposalTakesTwoPeopleAndHasOneEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.unknown(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	people := w.operators("Olena", "Marc", "Ana", "Ben")
	prop, err := w.Propose(ctx, resolveBy(p, store.Succeeded, people[0]))
	require.NoError(t, err)
	require.Equal(t, store.Unknown, w.get(p.ID).Status)
	_, err = w.Propose(ctx, resolveBy(p, store.Failed, people[1]))
	require.ErrorIs(t, err, store.ErrSecondPerson, "one at a time")
	_, err = w.Approve(ctx, uuid.New(), prop.ID, people[0])
	require.ErrorIs(t, err, store.ErrSecondPerson, "not one's own")

	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i, by := range people[1:] { // all others at once, and each twice
		action := uuid.New()
		for click := range 2 {
			wg.Go(func() { _, errs[2*i+click] = w.Approve(ctx, action, prop.ID, by) })
		}
	}
	wg.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, store.ErrNotFound)
			refused++
		}
	}
	require.Equal(t, 4, refused)
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	require.Equal(t, int64(1000), w.balance(wal.ID))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.propose' AND actor = $1`, people[0].String()))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'operator' AND evidence->>'proposed_by' = 'Olena'`))
}

func TestAProposalEndsWithTimeEvidenceAndItsAuthor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.operators("Olena", "Marc")
	p := w.unknown()
	prop, err := w.Propose(ctx, resolveBy(p, store.Failed, people[0]))
	require.NoError(t, err)
	require.NoError(t, w.Decline(ctx, uuid.New(), prop.ID, people[0]))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM approvals WHERE closed = 'withdrawn'`))
	_, err = w.Approve(ctx, uuid.New(), prop.ID, people[1])
	require.ErrorIs(t, err, store.ErrNotFound)

	late, err := w.Propose(ctx, resolveBy(p, store.Failed, people[0]))
	require.NoError(t, err)
	w.clock.add(store.ProposalFor + time.Second)
	_, err = w.Approve(ctx, uuid.New(), late.ID, people[1])
	require.ErrorIs(t, err, store.ErrNotAllowed)
	fresh, err := w.Propose(ctx, resolveBy(p, store.Failed, people[1])) // takes the place of the expired one
	require.NoError(t, err)

	w.hook(event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())) // evidence waits for nobody
	_, err = w.Approve(ctx, uuid.New(), fresh.ID, people[0])
	var c *store.ConflictError
	require.ErrorAs(t, err, &c)
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	require.NoError(t, w.Decline(ctx, uuid.New(), fresh.ID, people[0]))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.decline'`))
}
