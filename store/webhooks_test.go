package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestW01_EventFasterThanOurOwnCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a := w.begin(p.ID)
	require.Equal(t, "applied", w.hook(event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())), "our reference needs no stored id")
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	late := w.finish(a, timedOut())
	require.Equal(t, store.Succeeded, late.Status, "the late synchronous answer changes nothing")
	require.Empty(t, late.NeedsReview)
}

func TestW01_EventWithoutAPaymentWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a := w.begin(p.ID)
	// The provider's event carries only its own id, which we do not have yet.
	o := object(p, "pay_1", provider.Succeeded)
	o.Reference = ""
	e := event("evt_1", o, w.Now())
	id := w.receive(e)
	require.Equal(t, "unmatched", w.applyRow(id, e))
	w.jobs.Clear(t)

	// Our answer stores the id, and with it the event is worked again.
	own := object(p, "pay_1", provider.Processing)
	p = w.finish(a, answered(provider.Processing, &own))
	require.Equal(t, store.Processing, p.Status)
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", id))
	require.Equal(t, "applied", w.applyRow(id, e))
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
}

func TestW01_SweepFindsUnmatchedEventsThatHaveAPaymentByNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := event("evt_0", provider.Object{ID: "pay_0", Reference: uuid.NewString(), Status: "succeeded", Outcome: provider.Succeeded}, w.Now())
	require.Equal(t, "unmatched", w.hook(nobody))
	odd := event("evt_odd", provider.Object{ID: "pay_9", Reference: "not-a-uuid", Status: "x"}, w.Now())
	require.Equal(t, "unmatched", w.hook(odd))
	p := w.create()
	o := object(p, "pay_1", provider.Processing)
	w.charge(p.ID, answered(provider.Processing, &o))
	o.Reference = ""
	e := event("evt_1", o, w.Now())
	id := w.receive(e)
	_, err := w.db.Pool.Exec(ctx, `UPDATE webhook_events SET state = 'unmatched' WHERE id = $1`, id) // it lost the race with our commit
	require.NoError(t, err)
	w.jobs.Clear(t)
	swept, err := w.Sweep(ctx, store.SweepParams{})
	require.NoError(t, err)
	require.Equal(t, 1, swept.Webhooks, "only the one that has a payment")
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", id))
}

func TestTheProviderIsPartOfTheMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())
	d := delivery(e)
	d.Provider = "borealis"
	r, err := w.ReceiveWebhook(ctx, d)
	require.NoError(t, err)
	require.Equal(t, "unmatched", w.applyRow(r.EventIDs[0], e))
	require.Equal(t, store.Pending, w.get(p.ID).Status)

	// An object that names another of our payments is never matched by its id.
	q := w.create()
	o := object(p, "pay_1", provider.Succeeded)
	w.charge(p.ID, answered(provider.Succeeded, &o))
	stolen := object(q, "pay_1", provider.Failed)
	require.Equal(t, "applied", w.hook(event("evt_2", stolen, w.Now())))
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	require.Empty(t, w.get(p.ID).NeedsReview)
	require.Equal(t, store.Unknown, w.get(q.ID).Status)
}

func TestW02_ReceivedIsNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())
	id := w.receive(e)
	boom := errors.New("database went away")
	err := w.tx(func(tx pgx.Tx) error {
		_, err := w.ApplyWebhook(ctx, tx, id, func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
		require.NoError(t, err)
		return boom // the handler dies before the commit
	})
	require.ErrorIs(t, err, boom)
	require.Equal(t, store.Pending, w.get(p.ID).Status)
	require.Zero(t, w.balance(wal.ID))

	w.jobs.Clear(t)
	r, err := w.ReceiveWebhook(ctx, delivery(e)) // delivery 2, five minutes later
	require.NoError(t, err)
	require.Equal(t, []int64{id}, r.EventIDs)
	require.Equal(t, 1, r.Duplicates)
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", id), "work is skipped on applied, not on received")
	require.Equal(t, "applied", w.applyRow(id, e))
	require.Equal(t, int64(1000), w.balance(wal.ID))

	w.jobs.Clear(t)
	_, err = w.ReceiveWebhook(ctx, delivery(e)) // delivery 3
	require.NoError(t, err)
	require.Zero(t, w.jobs.Live(t, "webhook"))
	require.Equal(t, "applied", w.applyRow(id, e))
	require.Equal(t, int64(1000), w.balance(wal.ID))
	require.Equal(t, 2, w.count(`SELECT duplicates FROM webhook_events WHERE id = $1`, id))
}

func TestW02_SweepAppliesWhatWasOnlyReceived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.receive(event("evt_1", object(w.create(), "pay_1", provider.Succeeded), w.Now()))
	w.jobs.Clear(t)
	w.clock.add(time.Minute)
	swept, err := w.Sweep(ctx, store.SweepParams{})
	require.NoError(t, err)
	require.Equal(t, 1, swept.Webhooks)
	require.Equal(t, 1, w.jobs.Asked(t, "webhook", id))
}

func TestW03_ContentionIsRetriedAndLeavesNoHalves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	tries := 0
	err := w.tx(func(tx pgx.Tx) error {
		tries++
		o := object(p, "pay_1", provider.Succeeded)
		if _, err := w.RecordLookup(ctx, tx, p.ID, foundBy(o), policy(w), store.System("x")); err != nil {
			return err
		}
		if tries < 4 { // the transaction is chosen as a victim after its status update
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$`)
			return err
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 4, tries, "the first and three more")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND to_status = 'succeeded'`, p.ID))

	tries = 0
	err = w.tx(func(tx pgx.Tx) error {
		tries++
		_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$`)
		return err
	})
	require.True(t, store.IsContention(err), "after that it is the caller's 503")
	require.Equal(t, 4, tries)
}

// Webhooks and lookups settle payments of one wallet while debits run on it: with one
// lock order nobody waits in a circle, and nothing is left half.
func TestW03_OneLockOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	var wg sync.WaitGroup
	const n = 8
	errs := make(chan error, 4*n)
	for i := range n {
		p := w.unknown(func(n *store.NewPayment) { n.WalletID = &wal.ID })
		o := object(p, fmt.Sprintf("pay_%d", i), provider.Succeeded)
		e := event(fmt.Sprintf("evt_%d", i), o, w.Now())
		id := w.receive(e)
		wg.Go(func() {
			errs <- w.tx(func(tx pgx.Tx) error {
				_, err := w.ApplyWebhook(ctx, tx, id, func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
				return err
			})
		})
		wg.Go(func() {
			errs <- w.tx(func(tx pgx.Tx) error {
				_, err := w.RecordLookup(ctx, tx, p.ID, foundBy(o), policy(w), store.System("reconcile"))
				return err
			})
		})
		wg.Go(func() {
			_, _, err := w.Move(ctx, wal.ID, fmt.Sprintf("spend_%d", i), -1, "", apiClient)
			if errors.Is(err, store.ErrInsufficient) {
				err = nil
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, n, w.count(`SELECT count(*) FROM wallet_entries WHERE kind = 'topup'`))
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
}

// permutations of the positions 0..n-1.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var out [][]int
	for _, p := range permutations(n - 1) {
		for i := 0; i <= len(p); i++ {
			q := append(append(append([]int{}, p[:i]...), n-1), p[i:]...)
			out = append(out, q)
		}
	}
	return out
}

func TestW04_EveryOrderOfEventsEndsInTheSameState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	runs := 0
	for _, order := range permutations(4) {
		p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
		try1, try2 := "try1_"+p.ID.String(), "try2_"+p.ID.String()
		at := w.Now() // all with the same second
		events := []provider.Event{
			event("a_"+p.ID.String(), object(p, try2, provider.RequiresAction), at),
			event("b_"+p.ID.String(), object(p, try2, provider.Processing), at),
			event("c_"+p.ID.String(), object(p, try1, provider.Failed), at),
			event("d_"+p.ID.String(), object(p, try2, provider.Succeeded), at),
		}
		for range 2 { // and every one twice
			for _, i := range order {
				require.Equal(t, "applied", w.hook(events[i]))
			}
		}
		after := w.get(p.ID)
		require.Equal(t, store.Succeeded, after.Status, "order %v", order)
		require.Equal(t, try2, after.ProviderPaymentID, "order %v", order)
		require.Empty(t, after.NeedsReview, "order %v", order)
		runs++
		require.Equal(t, int64(1000*runs), w.balance(wal.ID), "order %v", order)
	}
}

func TestW04_FailureOfTryOneCannotTouchTryTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.hook(event("evt_2", object(p, "try2", provider.Processing), w.Now()))
	w.hook(event("evt_1", object(p, "try1", provider.Failed), w.Now().Add(time.Second)))
	after := w.get(p.ID)
	require.Equal(t, store.Processing, after.Status)
	require.Equal(t, "try2", after.ProviderPaymentID)
	require.NotNil(t, after.NextCheckAt)
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID))
}

func TestR03_ProofOfMoneyBeatsFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	declined := object(p, "pay_a", provider.Failed)
	p = w.charge(p.ID, answered(provider.Failed, &declined))
	require.Equal(t, store.Failed, p.Status)
	w.clock.add(90 * time.Second)
	paid := event("evt_b", object(p, "pay_b", provider.Succeeded), w.Now())
	require.Equal(t, "applied", w.hook(paid))
	require.Equal(t, "applied", w.hook(paid))
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, "pay_b", p.ProviderPaymentID)
	require.Equal(t, int64(1000), w.balance(wal.ID), "one ledger effect")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'paid_after_failed' AND severity = 'critical'`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE target = $1 AND before->>'status' = 'failed' AND after->>'status' = 'succeeded'`, "payment:"+p.ID.String()))
}

func TestR03_AnythingLessThanProofLeavesFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.charge(w.create().ID, answered(provider.Failed, nil))
	less := object(p, "pay_b", provider.Succeeded)
	less.Money.Amount = 1
	w.hook(event("evt_1", less, w.Now()))
	w.hook(event("evt_2", object(p, "pay_c", provider.Processing), w.Now()))
	p = w.get(p.ID)
	require.Equal(t, store.Failed, p.Status)
	require.Contains(t, p.NeedsReview, store.ReviewContradiction)
	require.Contains(t, p.NeedsReview, store.ReviewAmountMismatch)
	require.Equal(t, 2, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND evidence ? 'refused'`, p.ID), "illegal evidence is on the timeline")
	require.Positive(t, w.jobs.Asked(t, "reconcile", p.ID), "and the provider is asked")
}

func TestContradictionOnSucceededIsForAPersonOrTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	o := object(p, "pay_1", provider.Succeeded)
	p = w.charge(p.ID, answered(provider.Succeeded, &o))
	w.clock.add(time.Minute)
	w.hook(event("evt_1", object(p, "pay_1", provider.Failed), w.Now()))
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, []string{store.ReviewContradiction}, p.NeedsReview)
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID))
	w.clock.add(time.Minute)
	p = w.lookup(p.ID, foundBy(o))
	require.Equal(t, store.Succeeded, p.Status)
	require.Empty(t, p.NeedsReview)
}

func TestW07_TwentyDeliveriesOfOneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())
	w.parallel(20, func(int) error {
		r, err := w.ReceiveWebhook(ctx, delivery(e))
		if err != nil {
			return err
		}
		return w.tx(func(tx pgx.Tx) error {
			_, err := w.ApplyWebhook(ctx, tx, r.EventIDs[0], func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
			return err
		})
	})
	require.Equal(t, 1, w.count(`SELECT count(*) FROM webhook_events`))
	require.Equal(t, 19, w.count(`SELECT sum(duplicates)::int FROM webhook_events`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = 'webhook'`, p.ID))
	require.Equal(t, int64(1000), w.balance(wal.ID))
}

func TestW07_TwentyDifferentEventsForOnePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	outcomes := []provider.Outcome{provider.Processing, provider.Succeeded, provider.RequiresAction, provider.Succeeded}
	w.parallel(20, func(i int) error {
		e := event(fmt.Sprintf("evt_%d", i), object(p, "pay_1", outcomes[i%4]), w.Now())
		r, err := w.ReceiveWebhook(ctx, delivery(e))
		if err != nil {
			return err
		}
		return w.tx(func(tx pgx.Tx) error {
			_, err := w.ApplyWebhook(ctx, tx, r.EventIDs[0], func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
			return err
		})
	})
	require.Equal(t, 20, w.count(`SELECT count(*) FROM webhook_events WHERE state = 'applied'`))
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND from_status <> to_status AND to_status = 'succeeded'`, p.ID))
	require.Equal(t, int64(1000), w.balance(wal.ID))
}

// parallel runs fn n times at once; none may fail.
func (w *world) parallel(n int, fn func(i int) error) {
	w.t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	require.NoError(w.t, errors.Join(errs...))
}

func TestReceiveKeepsWhatCannotBeApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	e := event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now())

	forged := delivery(e)
	forged.Verification = provider.Verification{Verdict: provider.SignatureInvalid}
	forged.Header = http.Header{"Authorization": {"Bearer secret"}, "cookie": {"a=b"}, "Fusebox-Signature": {"t=1,v1=ff\x00"}}
	r, err := w.ReceiveWebhook(ctx, forged)
	require.NoError(t, err)
	require.Equal(t, "rejected", r.State)
	require.Equal(t, "rejected", w.applyRow(r.EventIDs[0], e), "nothing of it is ever applied")
	in, err := w.InboxEvent(ctx, r.EventIDs[0])
	require.NoError(t, err)
	require.Empty(t, in.EventKey, "a forged delivery cannot take an event's key")
	require.NotContains(t, fmt.Sprint(in.Headers), "secret")
	require.NotContains(t, fmt.Sprint(in.Headers), "a=b")
	require.Contains(t, fmt.Sprint(in.Headers), "v1=ff")

	late := forged
	late.Verification = provider.Verification{Verdict: provider.SignatureTooOld, TimeReject: true}
	_, err = w.ReceiveWebhook(ctx, late)
	require.NoError(t, err)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'webhook_clock'`))

	bad := delivery(e)
	bad.ParseError, bad.Events = "not JSON", nil
	r, err = w.ReceiveWebhook(ctx, bad)
	require.NoError(t, err)
	require.Equal(t, "unparsed", r.State)

	boring := event("evt_2", provider.Object{}, w.Now())
	boring.Interesting, boring.Type = false, "invoice.created"
	r, err = w.ReceiveWebhook(ctx, delivery(boring))
	require.NoError(t, err)
	require.Equal(t, "ignored", r.State)
	require.Zero(t, w.jobs.Live(t, "webhook"))
	require.Equal(t, store.Pending, w.get(p.ID).Status)

	r, err = w.ReceiveWebhook(ctx, delivery(e)) // the real one still comes through
	require.NoError(t, err)
	require.Equal(t, store.Received{EventIDs: r.EventIDs, State: "received"}, r)
	name, err := w.WebhookProvider(ctx, r.EventIDs[0])
	require.NoError(t, err)
	require.Equal(t, "atlas", name)
	_, err = w.WebhookProvider(ctx, 999)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestBatchOfEventsInOneDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, q := w.create(), w.create()
	a, b := event("evt_a", object(p, "pay_a", provider.Succeeded), w.Now()), event("evt_b", object(q, "pay_b", provider.Failed), w.Now())
	r, err := w.ReceiveWebhook(ctx, delivery(b, a))
	require.NoError(t, err)
	require.Len(t, r.EventIDs, 2)
	for _, id := range r.EventIDs {
		require.Equal(t, "applied", w.applyRow(id, b, a))
	}
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	require.Equal(t, store.Failed, w.get(q.ID).Status)
}

func TestStoredBodyThatNoLongerParsesIsSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := event("evt_1", object(w.create(), "pay_1", provider.Succeeded), w.Now())
	id := w.receive(e)
	require.Equal(t, "unparsed", w.applyRow(id, event("evt_other", e.Object, w.Now())))
	noID := event("evt_2", e.Object, w.Now())
	noID.Object.ID = ""
	require.Equal(t, "unparsed", w.hook(noID))
}

func TestHostileTextNeverLosesAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	o := object(p, "pay_1", provider.Failed)
	o.Reason, o.Message, o.Status, o.Raw = "bad\x00reason\xff", "\x00\xfe<script>", "f\x00", []byte("{\"a\":\"\\u0000\\ud800\",\"n\":1e999999}\xff")
	require.Equal(t, "applied", w.hook(event("evt_\x00\xff", o, w.Now())))
	after := w.get(p.ID)
	require.Equal(t, store.Failed, after.Status)
	require.Equal(t, "\uFFFD<script>", after.ProviderMessage)
}
