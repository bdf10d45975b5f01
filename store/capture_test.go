package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func manual(n *store.NewPayment) { n.Capture = store.CaptureManual }

var lapses = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)

// held is a charge that is authorised and not captured.
func held(p store.Payment, id string) provider.Object {
	o := object(p, id, provider.Processing)
	o.Status, o.Reason = "requires_capture", provider.ReasonAuthorised
	o.Totals = &provider.Totals{Authorised: p.Amount, AuthorisedUntil: lapses}
	return o
}

// taken is a charge of which a capture took an amount.
func taken(p store.Payment, id string, amount int64) provider.Object {
	o := object(p, id, provider.Succeeded)
	o.Money.Amount = amount
	o.Totals = &provider.Totals{Authorised: p.Amount, Captured: amount, AuthorisedUntil: lapses}
	return o
}

// released is a charge that was let go.
func released(p store.Payment, id, reason string) provider.Object {
	o := object(p, id, provider.Failed)
	o.Status, o.Reason = "canceled", reason
	return o
}

// done is what an adapter makes of the charge in the answer to a capture or void.
func done(op store.Operation, charge provider.Object, outcome provider.Outcome) provider.Object {
	kind := provider.ObjectCapture
	if op.Kind == provider.OpVoid {
		kind = provider.ObjectVoid
	}
	money := charge.Money
	return provider.Object{ID: charge.ID, Kind: kind, Status: charge.Status, Outcome: outcome, Money: money,
		Child: provider.Child{ChargeID: charge.ID, Charge: &charge}}
}

// authorised creates a payment of 10.00 EUR that is held as pay_ID.
func (w *world) authorised(change ...func(*store.NewPayment)) store.Payment {
	w.t.Helper()
	p := w.create(append([]func(*store.NewPayment){manual}, change...)...)
	o := held(p, "pay_"+p.ID.String())
	p = w.charge(p.ID, answered(provider.Processing, &o))
	require.True(w.t, p.Authorised())
	return p
}

func newAction(p store.Payment, amount int64) store.NewAction {
	return store.NewAction{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "key-1", IdempotencyKey: "c-" + uuid.NewString(), Amount: amount}
}

func (w *world) capture(p store.Payment, amount int64) store.Operation {
	w.t.Helper()
	a, err := w.CreateCapture(ctx, newAction(p, amount), apiClient)
	require.NoError(w.t, err)
	return a.Operation
}

func (w *world) void(p store.Payment) store.Operation {
	w.t.Helper()
	a, err := w.CreateVoid(ctx, newAction(p, 0), apiClient)
	require.NoError(w.t, err)
	return a.Operation
}

func (w *world) held(id uuid.UUID) store.Capturable {
	w.t.Helper()
	f, err := w.Capturable(ctx, id)
	require.NoError(w.t, err)
	return f
}

func notCapturable(t *testing.T, err error) *store.NotCapturableError {
	t.Helper()
	var no *store.NotCapturableError
	require.ErrorAs(t, err, &no)
	return no
}

// C-17: a payment that is only held is not finished, and nothing is credited for it.
func TestC17AuthorisedWaitsForItsCapture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.authorised(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	require.Equal(t, store.Processing, p.Status)
	require.Equal(t, provider.ReasonAuthorised, p.StatusReason)
	require.Equal(t, int64(1000), p.AuthorisedAmount)
	require.True(t, lapses.Equal(*p.AuthorisedUntil))
	require.Zero(t, p.CapturedAmount)
	require.Zero(t, w.balance(wal.ID))
	require.Equal(t, int64(1000), w.held(p.ID).Capturable)

	// Asked about at the low rate, without growing old.
	rest := w.Now().Add(time.Hour)
	p = w.lookup(p.ID, foundBy(held(p, p.ProviderPaymentID)), func(l *store.LookupPolicy) { l.RestAt, l.MaxLookups = rest, 1 })
	require.True(t, rest.Equal(*p.NextCheckAt))
	require.Empty(t, p.NeedsReview)

	// No timer ends it: only the provider's word does.
	w.clock.add(30 * 24 * time.Hour)
	_, err := w.Sweep(ctx, store.SweepParams{UnknownAged: time.Hour, AskAt: func(string) bool { return false }})
	require.NoError(t, err)
	p = w.get(p.ID)
	require.Equal(t, store.Processing, p.Status)
	require.Empty(t, p.NeedsReview)
	w.hook(event("expired", released(p, p.ProviderPaymentID, provider.ReasonExpired), w.Now()))
	p = w.get(p.ID)
	require.Equal(t, store.Failed, p.Status)
	require.Equal(t, provider.ReasonExpired, p.StatusReason)
}

func TestCapturePartSettlesPaymentWalletAndRefundable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.authorised(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	op := w.capture(p, 600)
	require.Equal(t, "capture-"+op.ID.String(), op.OperationKey, "C-11: a key of its own")
	require.Equal(t, 1, w.jobs.Asked(t, "operation", op.ID))

	o := done(op, taken(p, p.ProviderPaymentID, 600), provider.Succeeded)
	op = w.send(op.ID, answered(provider.Succeeded, &o))
	require.Equal(t, store.Succeeded, op.Status)
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, int64(600), p.CapturedAmount)
	require.Empty(t, p.NeedsReview)
	require.Equal(t, int64(600), w.balance(wal.ID))
	require.Equal(t, int64(600), w.figures(p.ID).Refundable)

	_, err := w.CreateRefund(ctx, newRefund(p, 601), apiClient)
	require.Error(t, err)
	w.refund(p, 600)
	books, err := w.Books(ctx)
	require.NoError(t, err)
	require.Empty(t, books.WalletDrift)
	require.Empty(t, books.Refunds)
}

// W-15: capture of 600 answered with 1000.
func TestW15CaptureOfAnotherAmountNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.authorised(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	op := w.capture(p, 600)
	o := done(op, taken(p, p.ProviderPaymentID, 1000), provider.Succeeded)
	c := answered(provider.Unknown, &o)
	c.Reason, c.Review = "amount_mismatch", provider.ReviewAmountMismatch
	op = w.send(op.ID, c)
	require.Equal(t, store.Unknown, op.Status)
	require.Equal(t, []string{store.ReviewAmountMismatch}, op.NeedsReview)
	p = w.get(p.ID)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewAmountMismatch}, p.NeedsReview)
	require.Zero(t, w.balance(wal.ID))
}

func TestVoidReleasesOnlyOnTheProvidersWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.authorised()
	op := w.void(p)
	require.Equal(t, int64(1000), op.Amount)
	op = w.send(op.ID, timedOut())
	require.Equal(t, store.Unknown, op.Status)
	require.Equal(t, store.Processing, w.get(p.ID).Status)

	o := done(op, released(p, p.ProviderPaymentID, provider.ReasonVoided), provider.Succeeded)
	op = w.lookupOp(op.ID, foundBy(o))
	require.Equal(t, store.Succeeded, op.Status)
	p = w.get(p.ID)
	require.Equal(t, store.Failed, p.Status)
	require.Equal(t, provider.ReasonVoided, p.StatusReason)
	_, err := w.CreateCapture(ctx, newAction(p, 0), apiClient)
	require.Equal(t, store.RefusedUnderWay, notCapturable(t, err).Why)
}

func TestOneCaptureOrVoidAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.authorised()
	n := newAction(p, 600)
	first, err := w.CreateCapture(ctx, n, apiClient)
	require.NoError(t, err)
	again, err := w.CreateCapture(ctx, n, apiClient)
	require.NoError(t, err)
	require.True(t, again.Replayed, "U-01: the second click is the first's result")
	require.Equal(t, first.Operation.ID, again.Operation.ID)
	n.Amount = 700
	_, err = w.CreateCapture(ctx, n, apiClient)
	require.ErrorIs(t, err, store.ErrKeyReused)

	_, err = w.CreateCapture(ctx, newAction(p, 400), apiClient)
	require.Equal(t, store.RefusedUnderWay, notCapturable(t, err).Why)
	_, err = w.CreateVoid(ctx, newAction(p, 0), apiClient)
	require.Equal(t, store.RefusedUnderWay, notCapturable(t, err).Why)
	shown := int64(1000)
	stale := newAction(p, 400)
	stale.ExpectedCapturable = &shown
	_, err = w.CreateCapture(ctx, stale, apiClient)
	var changed *store.CapturableChangedError
	require.ErrorAs(t, err, &changed)
	require.Zero(t, changed.Figures.Capturable)
	_, err = w.db.Pool.Exec(ctx, `INSERT INTO operations (id, payment_id, kind, seq, origin, client_id, idempotency_key, operation_key, provider,
		provider_payment_id, amount, currency, status, requested_by, created_at, updated_at)
		VALUES (gen_random_uuid(), $1, 'void', 1, 'api', 'x', 'y', 'z', 'atlas', $2, 1000, 'EUR', 'pending', 'x', now(), now())`, p.ID, p.ProviderPaymentID)
	require.ErrorContains(t, err, "free authorisation", "the database refuses it whatever the code believes")

	op := w.send(first.Operation.ID, answered(provider.Failed, nil))
	require.Equal(t, store.Failed, op.Status)
	require.Zero(t, w.get(p.ID).CaptureAmount)
	require.Equal(t, int64(1000), w.held(p.ID).Capturable)
	w.void(p)
}

func TestCaptureIsRefusedOfWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for why, n := range map[string]store.NewAction{
		store.RefusedAutomatic:     newAction(w.paid(), 0),
		store.RefusedNotAuthorised: newAction(w.create(manual), 0),
		store.RefusedTooMuch:       newAction(w.authorised(), 1001),
		store.RefusedAmount:        newAction(w.authorised(), -1),
	} {
		_, err := w.CreateCapture(ctx, n, apiClient)
		require.Equal(t, why, notCapturable(t, err).Why)
	}
	require.Zero(t, w.count(`SELECT count(*) FROM operations`))
}

// An unknown capture is asked about and never sent again; that the charge is still held
// counts as its absence only after the horizon, and twice.
func TestUnknownCaptureIsLookedUpAndNeverSentTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.authorised()
	op := w.send(w.capture(p, 600).ID, timedOut())
	require.Equal(t, store.Unknown, op.Status)
	_, _, err := w.BeginOperation(ctx, beginOp(op.ID))
	require.ErrorIs(t, err, store.ErrSettled)

	op = w.lookupOp(op.ID, absentBy(provider.ByID))
	require.Equal(t, store.Unknown, op.Status)
	require.Zero(t, op.AbsentLookups, "too early to count")
	w.clock.add(horizon + time.Minute)
	op = w.lookupOp(op.ID, absentBy(provider.ByID))
	require.Equal(t, store.Unknown, op.Status)
	op = w.lookupOp(op.ID, absentBy(provider.ByID))
	require.Equal(t, store.Failed, op.Status)
	require.Equal(t, "not_received", op.StatusReason)
	require.True(t, w.get(p.ID).Authorised())

	// It was made after all: the same money is proof of it.
	w.hook(event("late", taken(p, p.ProviderPaymentID, 600), w.Now()))
	require.Equal(t, store.Succeeded, w.op(op.ID).Status)
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, int64(600), p.CapturedAmount)
}

func TestCaptureIsPartOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := newPayment()
	_, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	n.Capture = store.CaptureAutomatic
	again, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	n.Capture = store.CaptureManual
	_, err = w.CreatePayment(ctx, n, apiClient)
	require.ErrorIs(t, err, store.ErrKeyReused)
}

// A person who settles the payment settles its capture with it.
func TestResolvingAHeldPaymentSettlesItsCapture(t *testing.T) {
	t.Parallel()
	for to, want := range map[store.Status]store.Status{store.Succeeded: store.Succeeded, store.Failed: store.Failed} {
		w := newWorld(t)
		p := w.authorised()
		op := w.capture(p, 600)
		o := done(op, taken(p, p.ProviderPaymentID, 1000), provider.Succeeded)
		c := answered(provider.Unknown, &o)
		c.Reason, c.Review = "amount_mismatch", provider.ReviewAmountMismatch
		op = w.send(op.ID, c)
		require.Equal(t, store.Unknown, op.Status)
		p = w.get(p.ID)
		after, err := w.Resolve(ctx, store.ResolveParams{ActionID: uuid.New(), PaymentID: p.ID, Version: p.Version, To: to, Reason: "seen in the dashboard", By: someone})
		require.NoError(t, err)
		require.Equal(t, to, after.Status)
		op = w.op(op.ID)
		require.Equal(t, want, op.Status)
		require.Empty(t, op.NeedsReview)
	}
}

// An answer that names other money than was asked for says no more than that somebody
// has to be asked; what the provider then shows as held is what counts.
func TestHeldMoneyMisstatedOnceIsSettledByTheLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create(func(n *store.NewPayment) { n.Capture = store.CaptureManual })
	wrong := object(p, "obj", provider.Processing)
	wrong.Money.Amount++
	c := answered(provider.Unknown, &wrong)
	c.Review = store.ReviewAmountMismatch
	p = w.charge(p.ID, c)
	require.Equal(t, store.Unknown, p.Status)
	require.Contains(t, p.NeedsReview, store.ReviewAmountMismatch)

	right := object(p, "obj", provider.Processing)
	right.Totals = &provider.Totals{Authorised: 1000}
	p = w.lookup(p.ID, foundBy(right))
	require.Equal(t, store.Processing, p.Status)
	require.Empty(t, p.NeedsReview)
	require.EqualValues(t, 1000, p.AuthorisedAmount)

	again := w.create(func(n *store.NewPayment) { n.Capture = store.CaptureManual })
	wrong = object(again, "obj-2", provider.Processing)
	wrong.Money.Amount++
	c = answered(provider.Unknown, &wrong)
	c.Review = store.ReviewAmountMismatch
	w.charge(again.ID, c)
	again = w.lookup(again.ID, foundBy(wrong))
	require.Equal(t, store.Unknown, again.Status, "the lookup says it too")
	require.Contains(t, again.NeedsReview, store.ReviewAmountMismatch)
}
