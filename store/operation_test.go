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

// paid creates a payment of 10.00 EUR that succeeded as charge pay_ID.
func (w *world) paid(change ...func(*store.NewPayment)) store.Payment {
	w.t.Helper()
	p := w.create(change...)
	o := object(p, "pay_"+p.ID.String(), provider.Succeeded)
	p = w.charge(p.ID, answered(provider.Succeeded, &o))
	require.Equal(w.t, store.Succeeded, p.Status)
	return p
}

func newRefund(p store.Payment, amount int64) store.NewRefund {
	return store.NewRefund{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "key-1", IdempotencyKey: "r-" + uuid.NewString(), Amount: amount, Reason: "sent back"}
}

func (w *world) refund(p store.Payment, amount int64) store.Operation {
	w.t.Helper()
	r, err := w.CreateRefund(ctx, newRefund(p, amount), apiClient)
	require.NoError(w.t, err)
	return r.Operation
}

func (w *world) op(id uuid.UUID) store.Operation {
	w.t.Helper()
	op, err := w.Operation(ctx, id)
	require.NoError(w.t, err)
	return op
}

func beginOp(id uuid.UUID) store.BeginOperationParams {
	return store.BeginOperationParams{OperationID: id, Body: []byte(`{"refund":"` + id.String() + `"}`), KeyLife: keyLife, Deadline: deadline, Worker: "w1"}
}

func (w *world) finishOp(a store.Attempt, c provider.Charged) store.Operation {
	w.t.Helper()
	var op store.Operation
	err := w.tx(func(tx pgx.Tx) (err error) {
		op, err = w.FinishOperation(ctx, tx, store.FinishParams{AttemptID: a.ID, Charged: c, RetryAt: w.Now().Add(10 * time.Second), ReconcileAt: w.Now().Add(time.Minute)})
		return err
	})
	require.NoError(w.t, err)
	return op
}

// send makes one attempt of a refund with the given answer.
func (w *world) send(id uuid.UUID, c provider.Charged) store.Operation {
	w.t.Helper()
	a, _, err := w.BeginOperation(ctx, beginOp(id))
	require.NoError(w.t, err)
	return w.finishOp(a, c)
}

// refundObject is the provider's view of a refund of ours.
func refundObject(op store.Operation, id string, o provider.Outcome) provider.Object {
	return provider.Object{Kind: provider.ObjectRefund, ID: id, Reference: op.ID.String(), Status: string(o), Outcome: o, Money: op.Money(),
		Child: provider.Child{ChargeID: op.ProviderPaymentID, PaymentID: op.PaymentID.String()}, Raw: []byte(`{}`)}
}

// outsideRefund is the provider's view of a refund made in its own dashboard.
func outsideRefund(p store.Payment, id string, amount int64, o provider.Outcome) provider.Object {
	return provider.Object{Kind: provider.ObjectRefund, ID: id, Status: string(o), Outcome: o, Money: provider.Money{Amount: amount, Currency: p.Currency},
		Child: provider.Child{ChargeID: p.ProviderPaymentID}, Raw: []byte(`{}`)}
}

func (w *world) lookupOp(id uuid.UUID, l provider.LookedUp, change ...func(*store.LookupPolicy)) store.Operation {
	w.t.Helper()
	pol := policy(w)
	for _, c := range change {
		c(&pol)
	}
	var op store.Operation
	err := w.tx(func(tx pgx.Tx) (err error) {
		op, err = w.RecordOperationLookup(ctx, tx, id, l, pol, store.System("operation_lookup"))
		return err
	})
	require.NoError(w.t, err)
	return op
}

func (w *world) figures(id uuid.UUID) store.Refundable {
	w.t.Helper()
	f, err := w.Refundable(ctx, id)
	require.NoError(w.t, err)
	return f
}

func TestRefundFromRequestToSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	op := w.refund(p, 300)
	require.Equal(t, store.Pending, op.Status)
	require.Equal(t, 1, op.Seq)
	require.Equal(t, "refund-"+op.ID.String(), op.OperationKey)
	require.Equal(t, p.ProviderPaymentID, op.ProviderPaymentID)
	require.Equal(t, 1, w.jobs.Asked(t, "operation", op.ID))
	require.Equal(t, store.Refundable{ChargeID: p.ProviderPaymentID, Currency: "EUR", Captured: 1000, Pending: 300, Refundable: 700}, w.figures(p.ID))

	o := refundObject(op, "re_1", provider.Succeeded)
	op = w.send(op.ID, answered(provider.Succeeded, &o))
	require.Equal(t, store.Succeeded, op.Status)
	require.Equal(t, "re_1", op.ProviderObjectID)
	require.Equal(t, store.Refundable{ChargeID: p.ProviderPaymentID, Currency: "EUR", Captured: 1000, Refunded: 300, Refundable: 700}, w.figures(p.ID))
	after := w.get(p.ID)
	require.Equal(t, store.Succeeded, after.Status, "a refund never changes the payment's status")
	require.Equal(t, p.Version, after.Version)

	a, err := w.AttemptsOfOperation(ctx, op)
	require.NoError(t, err)
	require.Len(t, a, 1)
	require.Equal(t, "refund:1", a[0].Operation)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'refund.create' AND reason = 'sent back'`))
	for _, kind := range []string{"refund_requested", "refund_attempt_started", "refund_attempt_finished"} {
		require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = $2 AND from_status = to_status`, p.ID, kind), kind)
	}
	_, _, err = w.BeginOperation(ctx, beginOp(op.ID))
	require.ErrorIs(t, err, store.ErrSettled)
}

func TestRefundIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending, p := w.create(), w.paid()
	wrong := newRefund(p, 100)
	wrong.Currency = "USD"
	for why, n := range map[string]store.NewRefund{
		store.RefusedNotSucceeded: newRefund(pending, 100), store.RefusedTooMuch: newRefund(p, 1001),
		store.RefusedAmount: newRefund(p, 0), store.RefusedCurrency: wrong,
	} {
		_, err := w.CreateRefund(ctx, n, apiClient)
		var refused *store.NotRefundableError
		require.ErrorAs(t, err, &refused, why)
		require.Equal(t, why, refused.Why)
	}
	_, err := w.CreateRefund(ctx, store.NewRefund{PaymentID: uuid.New(), Amount: 1}, apiClient)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Zero(t, w.count(`SELECT count(*) FROM operations`))
	require.Zero(t, w.jobs.Live(t, "operation"))
}

// The database itself refuses a request beyond what is left, whatever the code believes.
func TestDatabaseRefusesARefundBeyondTheCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	w.refund(p, 600)
	insert := func(amount int64, currency, origin string) error {
		_, err := w.db.Pool.Exec(ctx, `INSERT INTO operations (id, payment_id, kind, seq, origin, client_id, idempotency_key, operation_key, provider,
				provider_payment_id, amount, currency, status, requested_by, created_at, updated_at)
			VALUES (gen_random_uuid(), $1, 'refund', (SELECT max(seq) + 1 FROM operations), $2, nullif($3, ''), nullif($3, ''), nullif($3, ''), 'atlas', $4, $5, $6, 'pending', 'x', now(), now())`,
			p.ID, origin, map[bool]string{true: "", false: uuid.NewString()}[origin == "external"], p.ProviderPaymentID, amount, currency)
		return err
	}
	require.ErrorContains(t, insert(401, "EUR", "api"), "more than is left")
	require.ErrorContains(t, insert(100, "USD", "api"), "currency")
	require.ErrorContains(t, insert(401, "EUR", "external"), "refunds_within_amount", "a fact beyond the charge has to say so")
	require.NoError(t, insert(400, "EUR", "api"))
	_, err := w.db.Pool.Exec(ctx, `UPDATE operations SET amount = amount + 1`)
	require.ErrorContains(t, err, "refunds_within_amount")
	require.Equal(t, 1000, w.count(`SELECT refunds_held FROM payments WHERE id = $1`, p.ID))
	_, err = w.db.Pool.Exec(ctx, `UPDATE operations SET beyond = 1`)
	require.ErrorContains(t, err, "operations_beyond")
}

func TestTwentyParallelRefundsNeverExceedTheCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.CreateRefund(ctx, newRefund(p, 100), apiClient) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		var refused *store.NotRefundableError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, store.RefusedTooMuch, refused.Why)
	}
	require.Equal(t, 10, made)
	require.Equal(t, 10, w.count(`SELECT count(*) FROM operations`))
	require.Equal(t, 10, w.count(`SELECT max(seq) FROM operations`))
	require.Zero(t, w.figures(p.ID).Refundable)
}

func TestU01_DoubleSubmitAndASecondOperatorInBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	shown := int64(1000)
	form := func(action uuid.UUID, by store.Actor) store.NewRefund {
		return store.NewRefund{PaymentID: p.ID, Origin: store.OriginConsole, ClientID: by.String(), IdempotencyKey: action.String(),
			Amount: 400, ExpectedRefundable: &shown, Reason: "customer sent it back"}
	}
	action := uuid.New()
	var wg sync.WaitGroup
	results, errs := make([]store.Refund, 8), make([]error, 8)
	for i := range results {
		wg.Go(func() { results[i], errs[i] = w.CreateRefund(ctx, form(action, someone), someone) })
	}
	wg.Wait()
	first := 0
	for i, r := range results {
		require.NoError(t, errs[i])
		require.Equal(t, results[0].Operation.ID, r.Operation.ID)
		if !r.Replayed {
			first++
		}
	}
	require.Equal(t, 1, first)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM operations`))
	require.Equal(t, 1, w.jobs.Asked(t, "operation", results[0].Operation.ID), "the repeats enqueue nothing")

	other := store.Actor{Kind: "user", ID: uuid.NewString(), Name: "Ivo"}
	_, err := w.CreateRefund(ctx, form(uuid.New(), other), other)
	var changed *store.RefundableChangedError
	require.ErrorAs(t, err, &changed, "the second operator saw 1000")
	require.Equal(t, int64(600), changed.Figures.Refundable)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM operations`), "nothing is stored and nothing called")

	reused := form(action, someone)
	reused.Amount = 500
	_, err = w.CreateRefund(ctx, reused, someone)
	require.ErrorIs(t, err, store.ErrKeyReused)
	elsewhere := form(action, someone)
	elsewhere.PaymentID = w.paid().ID
	_, err = w.CreateRefund(ctx, elsewhere, someone)
	require.ErrorIs(t, err, store.ErrKeyReused)
}

// C-16 for refunds: the worker died between the mark and the outcome. It is looked up,
// and never sent a second time.
func TestC16_AbandonedRefundIsLookedUpAndNeverSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	op := w.refund(p, 300)
	a, _, err := w.BeginOperation(ctx, beginOp(op.ID))
	require.NoError(t, err)
	_, _, err = w.BeginOperation(ctx, beginOp(op.ID))
	require.ErrorIs(t, err, store.ErrInFlight)
	w.clock.add(deadline + time.Second)
	_, _, err = w.BeginOperation(ctx, beginOp(op.ID))
	require.ErrorIs(t, err, store.ErrMaybeSent)
	op = w.op(op.ID)
	require.Equal(t, store.Unknown, op.Status)
	require.Equal(t, 1, w.jobs.Asked(t, "operation_lookup", op.ID))
	_, _, err = w.BeginOperation(ctx, beginOp(op.ID))
	require.ErrorIs(t, err, store.ErrSettled)
	require.Equal(t, int64(300), w.figures(p.ID).Unknown, "what may have been refunded is not refundable")
	require.Equal(t, int64(700), w.figures(p.ID).Refundable)

	op = w.lookupOp(op.ID, foundBy(refundObject(op, "re_1", provider.Succeeded)))
	require.Equal(t, store.Succeeded, op.Status)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM attempts WHERE operation = 'refund:1'`))
	late := w.finishOp(a, timedOut())
	require.Equal(t, store.Succeeded, late.Status, "the slow worker's own word changes nothing")
}

func TestC11_OtherBytesForTheSameRefundAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.refund(w.paid(), 300)
	op = w.send(op.ID, notSent())
	require.Equal(t, store.Pending, op.Status)
	other := beginOp(op.ID)
	other.Body = []byte(`{}`)
	_, _, err := w.BeginOperation(ctx, other)
	require.ErrorIs(t, err, store.ErrBytesChanged)
	other.Body = nil
	a, _, err := w.BeginOperation(ctx, other)
	require.NoError(t, err)
	require.Equal(t, beginOp(op.ID).Body, a.Request)
	require.Equal(t, op.OperationKey, a.OperationKey)
}

func TestRefundOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		answer func(store.Operation) provider.Charged
		want   store.Status
		review []string
	}{
		"not sent":    {func(store.Operation) provider.Charged { return notSent() }, store.Pending, nil},
		"timeout":     {func(store.Operation) provider.Charged { return timedOut() }, store.Unknown, nil},
		"rejected":    {func(store.Operation) provider.Charged { return answered(provider.Failed, nil) }, store.Failed, nil},
		"accepted":    {func(store.Operation) provider.Charged { return answered(provider.Processing, nil) }, store.Processing, nil},
		"bare yes":    {func(store.Operation) provider.Charged { return answered(provider.Succeeded, nil) }, store.Unknown, []string{store.ReviewUnmapped}},
		"wants a 3DS": {func(store.Operation) provider.Charged { return answered(provider.RequiresAction, nil) }, store.Unknown, []string{store.ReviewUnmapped}},
		"less money": {func(op store.Operation) provider.Charged {
			o := refundObject(op, "re_"+op.ID.String(), provider.Succeeded)
			o.Money.Amount--
			a := answered(provider.Unknown, &o)
			a.Review = store.ReviewAmountMismatch
			return a
		}, store.Unknown, []string{store.ReviewAmountMismatch}},
	} {
		op := w.refund(w.paid(), 300)
		op = w.send(op.ID, c.answer(op))
		require.Equal(t, c.want, op.Status, name)
		require.ElementsMatch(t, c.review, op.NeedsReview, name)
		require.Equal(t, op.Status.Final(), op.NextCheckAt == nil, name)
	}
}

func TestR01_RefundAbsentTwiceAfterTheHorizonFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	op := w.refund(p, 1000)
	w.send(op.ID, timedOut())
	recharge := func(l *store.LookupPolicy) { l.OnAbsent = "recharge" }
	require.Equal(t, store.Unknown, w.lookupOp(op.ID, absentBy(provider.ByReference), recharge).Status, "inside the horizon")
	w.clock.add(horizon)
	require.Equal(t, store.Unknown, w.lookupOp(op.ID, absentBy(provider.ByID)).Status, "by its id proves nothing")
	require.Equal(t, store.Unknown, w.lookupOp(op.ID, absentBy(provider.ByReference), recharge).Status, "once")
	require.Equal(t, store.Unknown, w.lookupOp(op.ID, provider.LookedUp{Verdict: provider.LookupNoAnswer}).Status)
	op = w.lookupOp(op.ID, absentBy(provider.ByReference), recharge)
	require.Equal(t, store.Failed, op.Status)
	require.Equal(t, "not_received", op.StatusReason)
	require.Equal(t, int64(1000), w.figures(p.ID).Refundable)

	// It was there after all, and another one has been made meanwhile.
	second := w.refund(p, 1000)
	o := refundObject(second, "re_2", provider.Succeeded)
	w.send(second.ID, answered(provider.Succeeded, &o))
	w.hook(event("e1", refundObject(op, "re_1", provider.Succeeded), w.Now()))
	op = w.op(op.ID)
	require.Equal(t, store.Succeeded, op.Status, "a fact is never refused")
	require.Equal(t, int64(1000), op.Beyond+w.op(second.ID).Beyond)
	require.Contains(t, w.get(p.ID).NeedsReview, store.ReviewRefundsDiffer)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'refunded_after_failed'`))
	require.Zero(t, w.figures(p.ID).Refundable)
}

func TestNoTimerFailsAnUnknownRefund(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.refund(w.paid(), 300)
	w.send(op.ID, timedOut())
	w.jobs.Clear(t)
	for range 5 {
		w.clock.add(24 * time.Hour)
		w.sweep(store.SweepParams{UnknownAged: time.Hour})
		require.Equal(t, store.Unknown, w.op(op.ID).Status)
	}
	require.Equal(t, []string{store.ReviewAged}, w.op(op.ID).NeedsReview)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'operation_aged'`))
	require.Equal(t, 5, w.jobs.Asked(t, "operation_lookup", op.ID))
}

func TestSweepPicksUpLostRefunds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.paid()
	lost, dead := w.refund(p, 100), w.refund(p, 100)
	_, _, err := w.BeginOperation(ctx, beginOp(dead.ID))
	require.NoError(t, err)
	w.jobs.Clear(t)
	w.clock.add(10 * time.Minute)
	s := w.sweep(store.SweepParams{})
	require.Equal(t, 1, s.Overdue)
	require.Equal(t, 1, s.Requeued)
	require.Equal(t, 1, w.jobs.Asked(t, "operation", lost.ID))
	require.Equal(t, 1, w.jobs.Asked(t, "operation_lookup", dead.ID))
	require.Equal(t, store.Unknown, w.op(dead.ID).Status)
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
}

func TestRefundsWaitWhileAProviderIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.refund(w.paid(), 300)
	c := answered(provider.NotExecuted, nil)
	c.Next, c.Reason = provider.NextPause, provider.ReasonUnauthorized
	require.Equal(t, store.Pending, w.send(op.ID, c).Status)
	_, _, err := w.BeginOperation(ctx, beginOp(op.ID))
	require.ErrorIs(t, err, store.ErrPaused)
	w.jobs.Clear(t)
	require.NoError(t, w.ResumeCharges(ctx, "atlas", someone, "new key"))
	require.Equal(t, 1, w.jobs.Asked(t, "operation", op.ID))
	_, _, err = w.BeginOperation(ctx, beginOp(op.ID))
	require.NoError(t, err)
}
