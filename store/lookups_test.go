package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// unknown is a payment whose charge was cut after sending.
func (w *world) unknown(change ...func(*store.NewPayment)) store.Payment {
	w.t.Helper()
	return w.charge(w.create(change...).ID, timedOut())
}

func TestR01_AbsenceCountsTwiceAfterTheHorizonOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	for range 5 { // within the horizon nothing counts
		w.clock.add(time.Minute)
		p = w.lookup(p.ID, absentBy(provider.ByReference))
	}
	require.Equal(t, store.Unknown, p.Status)
	require.Zero(t, p.AbsentLookups)
	require.Equal(t, 5, p.Lookups)

	w.clock.add(horizon)
	p = w.lookup(p.ID, absentBy(provider.ByReference))
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, 1, p.AbsentLookups)
	p = w.lookup(p.ID, absentBy(provider.ByID))
	require.Equal(t, 1, p.AbsentLookups, "an id proves nothing: only our own reference or key")
	p = w.lookup(p.ID, provider.LookedUp{Verdict: provider.LookupNoAnswer, Reason: "forbidden", Alert: provider.AlertConfig})
	require.Equal(t, store.Unknown, p.Status, "401 and 403 prove nothing")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = $1`, provider.AlertConfig))
	p = w.lookup(p.ID, absentBy(provider.ByKey))
	require.Equal(t, store.Failed, p.Status)
	require.Equal(t, "not_received", p.StatusReason)
	require.Equal(t, "lookup", p.StatusEvidence)
}

func TestR01_FoundLaterWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.clock.add(horizon)
	p = w.lookup(p.ID, absentBy(provider.ByReference))
	require.Equal(t, 1, p.AbsentLookups)
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Processing)))
	require.Equal(t, store.Processing, p.Status)
	require.Zero(t, p.AbsentLookups, "in a row means in a row")
	require.Positive(t, w.jobs.Asked(t, "reconcile", p.ID))
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	require.Equal(t, store.Succeeded, p.Status)
}

func TestAbsenceOfWhatWasThereIsForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	o := object(p, "pay_1", provider.Processing)
	p = w.charge(p.ID, answered(provider.Processing, &o))
	w.clock.add(horizon)
	for range 3 {
		p = w.lookup(p.ID, absentBy(provider.ByReference))
	}
	require.Equal(t, store.Processing, p.Status)
	require.Equal(t, []string{store.ReviewContradiction}, p.NeedsReview)
}

func TestAbsenceIsNotCountedWhileAnAttemptIsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.recharging()
	_, err := w.begin2(p, true)
	require.NoError(t, err)
	p = w.lookup(p.ID, absentBy(provider.ByReference), func(l *store.LookupPolicy) { l.AbsentHorizon = 0 })
	require.Zero(t, p.AbsentLookups)
}

// recharging is an unknown payment that was proven absent, with a recharge queued.
func (w *world) recharging() store.Payment {
	w.t.Helper()
	p := w.unknown()
	w.clock.add(horizon)
	for range 2 {
		p = w.lookup(p.ID, absentBy(provider.ByReference), func(l *store.LookupPolicy) { l.OnAbsent = "recharge" })
	}
	require.Equal(w.t, store.Unknown, p.Status)
	require.Equal(w.t, 1, w.jobs.Asked(w.t, "recharge", p.ID))
	return p
}

func (w *world) begin2(p store.Payment, recharge bool) (store.Attempt, error) {
	b := begin(p.ID)
	b.Recharge = recharge
	a, _, err := w.BeginAttempt(ctx, b)
	return a, err
}

func TestRechargeSendsTheSameKeyAndBytesWhileTheKeyLives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.recharging()
	_, err := w.begin2(p, false)
	require.ErrorIs(t, err, store.ErrSettled, "an ordinary charge job never sends an unknown payment")
	sent := w.count(`SELECT count(*) FROM attempts`)
	a, err := w.begin2(p, true)
	require.NoError(t, err)
	require.Equal(t, 1, sent)
	require.Equal(t, "charge-"+p.ID.String(), a.OperationKey)
	require.Equal(t, begin(p.ID).Body, a.Request)
	require.True(t, a.FirstSentAt.Before(a.MarkedAt), "the key's life runs from the first send")
	require.Zero(t, w.get(p.ID).AbsentLookups, "absences before the resend are spent")

	p = w.finish(a, notSent())
	require.Equal(t, store.Unknown, p.Status, "not even a provable non-send returns to pending")
	_, err = w.begin2(p, true)
	require.ErrorIs(t, err, store.ErrSettled, "the next resend needs absences of its own")
}

func TestRechargesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	resends := 0
	for range 20 {
		if p.Status.Final() {
			break
		}
		w.clock.add(horizon)
		w.jobs.Clear(t)
		p = w.lookup(p.ID, absentBy(provider.ByReference), func(l *store.LookupPolicy) { l.OnAbsent = "recharge" })
		if w.jobs.Asked(t, "recharge", p.ID) == 0 {
			continue
		}
		a, err := w.begin2(p, true)
		require.NoError(t, err)
		resends++
		c := timedOut()
		c.Reason, c.Exchange.Replayed = "provider_500", true // the key's stored answer, for ever
		p = w.finish(a, c)
	}
	require.Equal(t, 3, resends)
	require.Equal(t, store.Failed, p.Status, "absent twice after the last send is absent")
	require.Equal(t, "not_received", p.StatusReason)
}

func TestRechargeSettlesByItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.recharging()
	a, err := w.begin2(p, true)
	require.NoError(t, err)
	o := object(p, "pay_1", provider.Succeeded)
	require.Equal(t, store.Succeeded, w.finish(a, answered(provider.Succeeded, &o)).Status)
}

func TestC13_ExpiredKeyIsNeverResent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.recharging()
	w.clock.add(keyLife - horizon - time.Minute) // alive, but within the margin
	_, err := w.begin2(p, true)
	require.ErrorIs(t, err, store.ErrKeyExpired)
	p = w.get(p.ID)
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewKeyExpired}, p.NeedsReview)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'key_expired'`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM attempts`))

	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded))) // lookups go on
	require.Equal(t, store.Succeeded, p.Status)
	require.Empty(t, p.NeedsReview)
}

func TestC13_AbsentAfterTheKeysLifeWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.clock.add(26 * time.Hour)
	for range 3 {
		p = w.lookup(p.ID, absentBy(provider.ByReference), func(l *store.LookupPolicy) { l.OnAbsent = "recharge" })
	}
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewKeyExpired}, p.NeedsReview)
	require.Zero(t, w.jobs.Asked(t, "recharge", p.ID))
}

func TestProviderWithoutKeysIsNeverRecharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	w.clock.add(horizon)
	for range 2 {
		p = w.lookup(p.ID, absentBy(provider.ByReference), func(l *store.LookupPolicy) { l.OnAbsent, l.KeyLife = "recharge", 0 })
	}
	require.Equal(t, store.Failed, p.Status)
	require.Zero(t, w.jobs.Asked(t, "recharge", p.ID))
}

func TestR02_ExhaustedLookupsStayUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	for range 12 {
		w.clock.add(6 * time.Hour)
		p = w.lookup(p.ID, provider.LookedUp{Verdict: provider.LookupNoAnswer, Reason: "http_503"}, func(l *store.LookupPolicy) { l.MaxLookups = 8 })
	}
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewAged}, p.NeedsReview)
	require.NotNil(t, p.NextCheckAt, "it goes on asking")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = 'unknown_aged'`))
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Failed)))
	require.Equal(t, store.Failed, p.Status)
	require.Empty(t, p.NeedsReview)
}

func TestR02_UnlistedStatusIsUnknownAndSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.unknown()
	o := object(p, "pay_1", "")
	o.Status = "sorta_paid\x00\xff"
	p = w.lookup(p.ID, foundBy(o))
	require.Equal(t, store.Unknown, p.Status)
	require.Equal(t, []string{store.ReviewUnmapped}, p.NeedsReview)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM alerts WHERE kind = $1`, provider.AlertContract))
	p = w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded)))
	require.Equal(t, store.Succeeded, p.Status)
	require.Empty(t, p.NeedsReview)
}

func TestR05_TwoChargesForOneReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wal := w.wallet()
	p := w.unknown(func(n *store.NewPayment) { n.WalletID = &wal.ID })
	a, b := object(p, "pay_a", provider.Succeeded), object(p, "pay_b", provider.Succeeded)
	p = w.lookup(p.ID, foundBy(a, b))
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, "pay_a", p.ProviderPaymentID)
	require.Equal(t, []string{store.ReviewDuplicate}, p.NeedsReview)
	require.Equal(t, 2, w.count(`SELECT count(*) FROM provider_objects WHERE payment_id = $1`, p.ID))
	require.Equal(t, int64(1000), w.balance(wal.ID), "once")

	b.Outcome, b.Status = provider.Failed, "refunded"
	w.clock.add(time.Hour)
	w.hook(event("evt_refund", b, w.Now()))
	p = w.get(p.ID)
	require.Equal(t, store.Succeeded, p.Status)
	require.Equal(t, "pay_a", p.ProviderPaymentID)
	require.Empty(t, p.NeedsReview, "with the duplicate undone the flag clears")
	require.Equal(t, int64(1000), w.balance(wal.ID))
}

func TestR05_StrangersInAnAnswerAreNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, other := w.unknown(), w.create()
	stranger := object(other, "pay_x", provider.Succeeded)
	nobody := provider.Object{ID: "pay_y", Status: "succeeded", Outcome: provider.Succeeded, Money: p.Money()}
	p = w.lookup(p.ID, foundBy(stranger, nobody))
	require.Equal(t, store.Unknown, p.Status)
	require.Empty(t, p.ProviderPaymentID)
	p = w.lookup(p.ID, foundBy(provider.Object{ID: "pay_1", OperationKey: "charge-" + p.ID.String(), Status: "succeeded", Outcome: provider.Succeeded, Money: p.Money()}))
	require.Equal(t, store.Succeeded, p.Status, "by the key we sent")
}

func TestLookupOfAPendingPaymentDecidesOnlyByAnObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	w.charge(p.ID, notSent())
	w.clock.add(horizon)
	for range 3 {
		p = w.lookup(p.ID, absentBy(provider.ByReference))
	}
	require.Equal(t, store.Pending, p.Status)
	require.Zero(t, w.jobs.Asked(t, "reconcile", p.ID))
	require.Equal(t, store.Succeeded, w.lookup(p.ID, foundBy(object(p, "pay_1", provider.Succeeded))).Status)
}
