package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestAttemptCarriesTheOperationsOwnKeyAndBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a, after, err := w.BeginAttempt(ctx, begin(p.ID))
	require.NoError(t, err)
	require.Equal(t, "charge-"+p.ID.String(), a.OperationKey)
	require.NotContains(t, a.OperationKey, p.IdempotencyKey, "the client's key is not the provider's")
	require.LessOrEqual(t, len(a.OperationKey), 64, "some providers take no longer keys")
	require.Equal(t, 1, a.Seq)
	require.Equal(t, w.Now().Add(keyLife), a.ReplayUntil)
	require.Equal(t, store.Pending, after.Status)
	require.Equal(t, w.Now().Add(deadline), a.Deadline)

	w.finish(a, notSent())
	w.clock.add(time.Minute)
	b := w.begin(p.ID)
	require.Equal(t, a.OperationKey, b.OperationKey)
	require.Equal(t, a.Request, b.Request)
	require.Equal(t, 2, b.Seq)
	require.Equal(t, w.Now(), b.FirstSentAt, "an attempt that provably was not sent does not start the key's life")
}

func TestC11_OtherBytesForTheSameKeyAreRefusedBeforeSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.charge(p.ID, notSent())
	other := begin(p.ID)
	other.Body = []byte(`{"amount":1000,"release":"2"}`)
	_, _, err := w.BeginAttempt(ctx, other)
	require.ErrorIs(t, err, store.ErrBytesChanged)

	stored := begin(p.ID)
	stored.Body = nil // the stored bytes
	a, _, err := w.BeginAttempt(ctx, stored)
	require.NoError(t, err)
	require.Equal(t, begin(p.ID).Body, a.Request)
	w.finish(a, notSent())

	_, err = w.db.Pool.Exec(ctx, `UPDATE attempts SET request = 'tampered'`)
	require.NoError(t, err)
	_, _, err = w.BeginAttempt(ctx, stored)
	require.ErrorIs(t, err, store.ErrBytesChanged, "stored bytes are checked against their hash")
	none := begin(w.create().ID)
	none.Body = nil
	_, _, err = w.BeginAttempt(ctx, none)
	require.ErrorIs(t, err, store.ErrBytesChanged, "there is nothing to send")
}

func TestQ02_SecondWorkerFindsAnAttemptInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() { _, _, errs[i] = w.BeginAttempt(ctx, begin(p.ID)) })
	}
	wg.Wait()
	began := 0
	for _, err := range errs {
		if err == nil {
			began++
			continue
		}
		require.ErrorIs(t, err, store.ErrInFlight)
	}
	require.Equal(t, 1, began)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM attempts`))
}

// C-16: a worker died between the mark and the outcome. The next run must not send.
func TestC16_AbandonedAttemptBecomesUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a := w.begin(p.ID)
	w.clock.add(deadline + time.Second)
	_, _, err := w.BeginAttempt(ctx, begin(p.ID))
	require.ErrorIs(t, err, store.ErrMaybeSent)
	p = w.get(p.ID)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, "no_outcome", p.StatusReason)
	require.True(t, p.UnknownSeen)
	require.Equal(t, 1, w.jobs.Asked(t, "reconcile", p.ID))
	_, _, err = w.BeginAttempt(ctx, begin(p.ID))
	require.ErrorIs(t, err, store.ErrSettled, "unknown never goes back to pending")

	// The worker was only slow: what it knows still counts.
	obj := object(p, "pay_1", provider.Succeeded)
	p = w.finish(a, answered(provider.Succeeded, &obj))
	require.Equal(t, store.Succeeded, p.Status)
	again := w.finish(a, timedOut())
	require.Equal(t, p, again, "an attempt has one outcome")
}

func TestFinishMapsEveryOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		outcome provider.Outcome
		bare    bool // without an object
		want    store.Status
		review  []string
		jobs    int
	}{
		"not sent":                 {provider.NotSent, true, store.Pending, nil, 0},
		"not executed":             {provider.NotExecuted, true, store.Pending, nil, 0},
		"unknown":                  {provider.Unknown, true, store.Unknown, nil, 1},
		"processing":               {provider.Processing, false, store.Processing, nil, 1},
		"processing, no object":    {provider.Processing, true, store.Processing, nil, 1},
		"requires action":          {provider.RequiresAction, false, store.RequiresAction, nil, 1},
		"succeeded":                {provider.Succeeded, false, store.Succeeded, nil, 0},
		"succeeded without object": {provider.Succeeded, true, store.Unknown, []string{store.ReviewUnmapped}, 1},
		"failed":                   {provider.Failed, false, store.Failed, nil, 0},
		"rejected":                 {provider.Failed, true, store.Failed, nil, 0},
	} {
		p := w.create()
		var obj *provider.Object
		if !c.bare {
			o := object(p, "pay_"+p.ID.String(), c.outcome)
			obj = &o
		}
		p = w.charge(p.ID, answered(c.outcome, obj))
		require.Equal(t, c.want, p.Status, name)
		require.Equal(t, append([]string{}, c.review...), p.NeedsReview, name)
		require.Equal(t, c.jobs, w.jobs.Asked(t, "reconcile", p.ID), name)
		require.Equal(t, p.Status.Final(), p.NextCheckAt == nil, "%s: not final has a next step", name)
		require.Equal(t, p.Status.Final(), p.SettledAt != nil, name)
		if obj != nil {
			require.Equal(t, obj.ID, p.ProviderPaymentID, name)
		}
	}
}

func TestFinishKeepsTheEvidenceOfTheExchange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	c := timedOut()
	c.Reason, c.Alert = "gateway_502", provider.AlertContract
	c.Exchange = provider.Exchange{WireSends: 1, Status: 502, ContentType: "text/html\x00\xff", Server: "edge", RequestID: "req_1",
		URL: "https://pay.example/x", Body: []byte("<html>"), FirstSentAt: w.Now(), FirstByteAt: w.Now()}
	p = w.charge(p.ID, c)
	require.Equal(t, "gateway_502", p.StatusReason)
	d, err := w.Dossier(ctx, p.ID)
	require.NoError(t, err)
	a := d.Attempts[0]
	require.Equal(t, []any{502, "text/html\uFFFD", "edge", "req_1", "https://pay.example/x", "<html>", "unknown", "gateway_502", "fail"},
		[]any{a.HTTPStatus, a.ContentType, a.Server, a.ProviderRequestID, a.FinalURL, string(a.ResponseBody), a.Outcome, a.ErrorClass, a.BreakerVerdict})
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = $1`, provider.AlertContract))
	require.Equal(t, 1, w.jobs.Live(t, "alert"))
}

// W-15: every way an amount can be wrong.
func TestW15_OtherMoneyIsNeverSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	for name, money := range map[string]provider.Money{
		"less":     {Amount: 100, Currency: "EUR"},
		"more":     {Amount: 1001, Currency: "EUR"},
		"currency": {Amount: 1000, Currency: "JPY"},
		"absent":   {},
		"negative": {Amount: -1000, Currency: "EUR"},
	} {
		p := w.create(func(n *store.NewPayment) { n.WalletID = &wal.ID })
		o := object(p, "pay_"+p.ID.String(), provider.Succeeded)
		o.Money = money
		answer := answered(provider.Unknown, &o)
		answer.Review = provider.ReviewAmountMismatch
		p = w.charge(p.ID, answer)
		require.Equal(t, store.Unknown, p.Status, name)
		require.Equal(t, []string{store.ReviewAmountMismatch}, p.NeedsReview, name)
		require.Equal(t, "applied", w.hook(event("evt_"+p.ID.String(), o, w.Now())), name)
		p = w.lookup(p.ID, foundBy(o))
		require.Equal(t, store.Unknown, p.Status, name)
		require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE payment_id = $1 AND kind = 'amount_mismatch'`, p.ID), name)
	}
	require.Zero(t, w.balance(wal.ID), "the wallet is not credited")
}

func TestW15_ContradictingSecondEventIsStoredAndShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	o := object(p, "pay_1", provider.Succeeded)
	p = w.charge(p.ID, answered(provider.Succeeded, &o))
	less := o
	less.Money.Amount = 900
	require.Equal(t, "applied", w.hook(event("evt_2", less, w.Now().Add(time.Second))))
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status, "succeeded never leaves")
	require.Equal(t, []string{store.ReviewAmountMismatch}, p.NeedsReview)

	// One event key, two contents.
	first := event("evt_3", o, w.Now())
	w.hook(first)
	d := delivery(event("evt_3", less, w.Now()))
	d.Raw = []byte("another body")
	r, err := w.ReceiveWebhook(ctx, d)
	require.NoError(t, err)
	require.Equal(t, 1, r.Duplicates)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM webhook_events WHERE event_key IS NULL AND raw = 'another body' AND state = 'ignored'`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'webhook_contradiction'`))
}

func TestFailedAnswerCannotTouchWhatAnObjectDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a := w.begin(p.ID)
	require.Equal(t, "applied", w.hook(event("evt_1", object(p, "pay_1", provider.Processing), w.Now())))
	p = w.finish(a, answered(provider.Failed, nil))
	require.Equal(t, store.Processing, p.Status)
	require.Equal(t, []string{store.ReviewContradiction}, p.NeedsReview, "ask, do not believe")
	require.Positive(t, w.jobs.Asked(t, "reconcile", p.ID))
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	require.Equal(t, store.Succeeded, p.Status)
	require.Empty(t, p.NeedsReview, "the provider's own answer clears it")
}

func TestHintOfAnUndecodableAnswerIsKeptForTheLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	c := timedOut()
	c.Reason, c.Object = "undecodable", &provider.Object{ID: "pay_hint"}
	p = w.charge(p.ID, c)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, "pay_hint", p.ProviderPaymentID)
	q := w.create()
	q = w.charge(q.ID, c)
	require.Empty(t, q.ProviderPaymentID, "two payments never rest on one object")
	require.Equal(t, store.Unknown, q.Status)
}

func TestObjectOfAnotherPaymentIsNoEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, q := w.create(), w.create()
	o := object(p, "pay_1", provider.Succeeded)
	w.charge(p.ID, answered(provider.Succeeded, &o))
	o.Reference = q.ID.String() // the provider hands out one id twice
	q = w.charge(q.ID, answered(provider.Succeeded, &o))
	require.Equal(t, store.Unknown, q.Status)
	require.Equal(t, []string{store.ReviewContradiction}, q.NeedsReview)
	require.NotNil(t, q.NextCheckAt)
	require.Equal(t, "pay_1", w.get(p.ID).ProviderPaymentID)
}

func TestNobodyToAskNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	a := w.begin(p.ID)
	err := w.tx(func(tx pgx.Tx) (err error) {
		p, err = w.FinishAttempt(ctx, tx, store.FinishParams{AttemptID: a.ID, Charged: timedOut(), NoStatusAPI: true, ReconcileAt: w.Now().Add(time.Minute)})
		return err
	})
	require.NoError(t, err)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewNoStatusAPI}, p.NeedsReview)
	require.Zero(t, w.jobs.Asked(t, "reconcile", p.ID))
	w.hook(event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now()))
	require.Empty(t, w.get(p.ID).NeedsReview, "the event settles it")
}

func TestRejectBeforeSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reject := func(id uuid.UUID) (p store.Payment) {
		require.NoError(t, w.tx(func(tx pgx.Tx) (err error) {
			p, err = w.RejectBeforeSend(ctx, tx, id, "currency", "not supported")
			return err
		}))
		return p
	}
	p := reject(w.create().ID)
	require.Equal(t, store.Failed, p.Status)
	require.Equal(t, "currency: not supported", p.ProviderMessage)
	q := w.create()
	w.begin(q.ID)
	require.Equal(t, store.Pending, reject(q.ID).Status, "with an attempt out, nothing is certain")
}

func TestPauseStopsChargesUntilAPersonResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, other := w.create(), w.create(func(n *store.NewPayment) { n.Provider = "borealis" })
	c := answered(provider.NotExecuted, nil)
	c.Next, c.Reason, c.Alert = provider.NextPause, "unauthorized", provider.AlertConfig
	p = w.charge(p.ID, c)
	require.Equal(t, store.Pending, p.Status)
	require.Equal(t, "paused", p.NextCheckWhy)
	_, _, err := w.BeginAttempt(ctx, begin(p.ID))
	require.ErrorIs(t, err, store.ErrPaused)
	w.begin(other.ID)
	require.NoError(t, w.tx(func(tx pgx.Tx) error { return w.PauseCharges(ctx, tx, "atlas", "again") }))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'config_alarm'`), "one alarm per pause")

	w.jobs.Clear(t)
	w.clock.add(time.Hour)
	_, err = w.Sweep(ctx, store.SweepParams{})
	require.NoError(t, err)
	require.Zero(t, w.jobs.Asked(t, "charge", p.ID), "the sweep respects the pause")

	require.NoError(t, w.ResumeCharges(ctx, "atlas", someone, "key replaced"))
	require.Equal(t, 1, w.jobs.Asked(t, "charge", p.ID))
	require.NoError(t, w.ResumeCharges(ctx, "atlas", someone, "again"))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'provider.resume' AND actor = $1`, someone.String()))
	w.begin(p.ID)
}

func TestWaitingIsOneEventPerStretch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	for i := range 5 {
		require.NoError(t, w.NoteWaiting(ctx, p.ID, w.Now().Add(time.Duration(i+1)*time.Minute), "circuit_open", "until the circuit closes"))
	}
	after := w.get(p.ID)
	require.Equal(t, w.Now().Add(5*time.Minute), *after.NextCheckAt)
	require.Equal(t, "circuit_open", after.NextCheckWhy)
	require.Equal(t, p.Version, after.Version, "waiting is nothing a person decides on")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'snoozed'`))
	require.NoError(t, w.NoteWaiting(ctx, p.ID, w.Now(), "paused", ""))
	require.Equal(t, 2, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'snoozed'`))
	require.ErrorIs(t, w.NoteWaiting(ctx, uuid.New(), w.Now(), "x", ""), store.ErrNotFound)
}

func TestBeginOnNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.BeginAttempt(ctx, begin(uuid.New()))
	require.ErrorIs(t, err, store.ErrNotFound)
	err = w.tx(func(tx pgx.Tx) error {
		_, err := w.FinishAttempt(ctx, tx, store.FinishParams{AttemptID: uuid.New()})
		return err
	})
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = w.Payment(ctx, uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}
