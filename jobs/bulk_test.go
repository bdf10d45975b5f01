package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

var someone = store.Actor{Kind: "user", ID: "7f7c7d1e-0000-7000-8000-000000000001"}

// unknowns seeds n unknown payments that were sent long ago; far marks when the engine
// itself would ask next.
func (b *bench) unknowns(n int, name string) (ids []uuid.UUID) {
	b.t.Helper()
	far := time.Now().Add(time.Hour)
	for range n {
		p := b.db.SeedPayment(b.t, func(p *store.Payment) { p.Provider, p.NextCheckAt, p.UnknownSince = name, &far, &far })
		b.db.SeedAttempt(b.t, p, nil)
		ids = append(ids, p.ID)
	}
	return ids
}

// ask starts a bulk over all payments.
func (b *bench) ask() store.Bulk {
	b.t.Helper()
	ctx := context.Background()
	bulk, err := b.store.FreezeBulk(ctx, store.BulkSet{Filter: &store.PaymentFilter{}}, someone)
	require.NoError(b.t, err)
	bulk, err = b.store.StartBulk(ctx, uuid.New(), bulk.ID, bulk.Version, someone)
	require.NoError(b.t, err)
	return bulk
}

func (b *bench) bulkIs(id uuid.UUID, state string) {
	b.t.Helper()
	b.eventually("bulk should be "+state, func() (bool, string) {
		bulk, err := b.store.Bulk(context.Background(), id)
		require.NoError(b.t, err)
		return bulk.State == state, bulk.State
	})
}

func (b *bench) outcomes(id uuid.UUID) map[string]int {
	b.t.Helper()
	counts, err := b.store.BulkProgress(context.Background(), id)
	require.NoError(b.t, err)
	return counts.Done
}

// paidAt answers every question with "paid".
func paidAt(q provider.LookupQuery) (provider.LookedUp, bool) {
	o := provider.Object{ID: "pay_" + q.PaymentID, Reference: q.PaymentID, Status: "succeeded", Outcome: provider.Succeeded, Money: q.Want}
	return provider.LookedUp{Verdict: provider.LookupFound, Way: provider.ByReference, Health: provider.HealthOK, Objects: []provider.Object{o}, Requests: 1}, true
}

func TestBulkAsksOnceEachAndSkipsWhatNeedsNoQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"]
	ids := b.unknowns(2, "atlas")
	odd := b.unknowns(1, "atlas")[0]
	b.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Succeeded })
	later := time.Now().Add(time.Hour) // without it the sweep at start finds a payment whose job was lost, and charges it
	b.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NextCheckAt = store.Pending, &later })
	lately := b.unknowns(1, "atlas")[0]
	b.db.SeedEvent(t, b.payment(lately), store.TimelineEvent{At: time.Now().Add(-10 * time.Second), Kind: "lookup", Source: "job", Actor: "system:reconcile"})
	f.setLookup(func(q provider.LookupQuery) (provider.LookedUp, bool) {
		looked, _ := paidAt(q)
		if q.PaymentID == odd.String() {
			looked.Objects[0].Money.Amount++ // not what we asked for
		}
		return looked, true
	})
	bulk := b.ask()
	b.start("w1", nil)
	b.bulkIs(bulk.ID, store.BulkDone)
	require.Equal(t, map[string]int{store.OutcomePaid: 2, store.OutcomeConflict: 1, store.OutcomeSkipped: 3}, b.outcomes(bulk.ID))
	counts, err := b.store.BulkProgress(context.Background(), bulk.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]int{store.SkipSettled: 1, store.SkipUnsent: 1, store.SkipLately: 1}, counts.Skipped)
	for _, id := range ids {
		require.Equal(t, store.Succeeded, b.payment(id).Status)
	}
	sends, _, _ := f.counts()
	require.Zero(t, sends, "no money moves")
	require.Equal(t, 2, b.count(`SELECT count(*) FROM payment_events WHERE kind = 'lookup' AND payment_id = ANY($1)`, ids))
}

// A provider whose only way is to send the charge's own bytes again is left alone: the
// page promised that no money moves.
func TestBulkNeverSendsAReplay(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"]
	f.caps.Ways = []provider.Way{provider.ReplayKey}
	b.unknowns(2, "atlas")
	bulk := b.ask()
	b.start("w1", nil)
	b.bulkIs(bulk.ID, store.BulkDone)
	require.Equal(t, map[string]int{store.OutcomeSkipped: 2}, b.outcomes(bulk.ID))
	require.Equal(t, "resend_only", b.text(`SELECT detail FROM bulk_items LIMIT 1`))
	sends, lookups, _ := f.counts()
	require.Zero(t, sends+lookups)
}

func TestBulkCancelledInTheMiddleAsksNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.unknowns(6, "atlas")
	asked, goOn := make(chan struct{}, 10), make(chan struct{})
	b.fakes["atlas"].setLookup(func(q provider.LookupQuery) (provider.LookedUp, bool) {
		asked <- struct{}{}
		<-goOn
		return paidAt(q)
	})
	bulk := b.ask()
	b.start("w1", nil)
	<-asked // the first question is on its way
	_, err := b.store.CancelBulk(context.Background(), uuid.New(), bulk.ID, someone)
	require.NoError(t, err)
	close(goOn)
	b.idle(kindBulk)
	require.Equal(t, map[string]int{store.OutcomePaid: 1}, b.outcomes(bulk.ID), "the answer that was under way counts")
	_, lookups, _ := b.fakes["atlas"].counts()
	require.Equal(t, 1, lookups)
	b.bulkIs(bulk.ID, store.BulkCancelled)
}

// A worker that goes away with a question out gives its item back; the next one goes on
// with what is left and asks nothing twice that was answered.
func TestBulkGoesOnWhereAStoppedWorkerLeftIt(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AnswerTimeout = 30 * time.Second
	b := newBench(t, s)
	b.unknowns(4, "atlas")
	var n atomic.Int32
	stuck := make(chan struct{})
	b.fakes["atlas"].setLookup(func(q provider.LookupQuery) (provider.LookedUp, bool) {
		if n.Add(1) == 3 {
			close(stuck)
			time.Sleep(300 * time.Millisecond) // longer than the stop has patience
			return provider.LookedUp{Verdict: provider.LookupNoAnswer, Health: provider.HealthNeutral, Reason: "cancelled"}, true
		}
		return paidAt(q)
	})
	bulk := b.ask()
	r := b.start("w1", nil)
	<-stuck
	b.stopNow(r, 50*time.Millisecond)
	require.Equal(t, map[string]int{store.OutcomePaid: 2}, b.outcomes(bulk.ID))
	b.start("w2", nil)
	b.bulkIs(bulk.ID, store.BulkDone)
	require.Equal(t, map[string]int{store.OutcomePaid: 4}, b.outcomes(bulk.ID))
	require.EqualValues(t, 5, n.Load(), "only the one that had no answer was asked again")
}

// An open circuit holds the bulk up and says until when; the other provider goes on.
func TestBulkWaitsForACircuitAndLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"), quick("borealis"))
	for _, name := range []string{"atlas", "borealis"} {
		b.unknowns(2, name)
		b.fakes[name].setLookup(paidAt)
	}
	b.circuits.open("atlas", classStatus, time.Second)
	bulk := b.ask()
	b.start("w1", nil)
	b.eventually("borealis is done and atlas waits", func() (bool, string) {
		done := b.outcomes(bulk.ID)[store.OutcomePaid]
		now, err := b.store.Bulk(context.Background(), bulk.ID)
		require.NoError(t, err)
		return done == 2 && !now.Waits["atlas"].IsZero(), fmt.Sprint(done, now.Waits)
	})
	b.circuits.shut("atlas", classStatus)
	b.bulkIs(bulk.ID, store.BulkDone)
	require.Equal(t, 4, b.outcomes(bulk.ID)[store.OutcomePaid])
}

// A bulk waits its turn behind ordinary lookups: with one status worker, a lookup that
// becomes due is answered long before a long bulk ends.
func TestBulkDoesNotStarveTheStatusQueue(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.StatusWorkers = 1
	b := newBench(t, s)
	b.unknowns(30, "atlas")
	b.fakes["atlas"].setLookup(paidAt)
	bulk := b.ask()
	b.start("w1", nil)
	b.eventually("the bulk runs", func() (bool, string) { n := b.outcomes(bulk.ID)[store.OutcomePaid]; return n > 0, fmt.Sprint(n) })
	urgent := b.unknowns(1, "atlas")[0]
	p := b.payment(urgent)
	_, err := b.store.ReconcileNow(context.Background(), uuid.New(), p.ID, p.Version, someone)
	require.NoError(t, err)
	b.becomes(urgent, store.Succeeded)
	require.Less(t, b.outcomes(bulk.ID)[store.OutcomePaid], 30, "the bulk is not over yet")
}
