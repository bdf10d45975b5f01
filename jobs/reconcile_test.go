package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// looked waits until at least n lookups were made.
func (b *bench) looked(name string, n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d lookups", n), func() (bool, string) {
		_, lookups, _ := b.fakes[name].counts()
		return lookups >= n, fmt.Sprint(lookups)
	})
}

// 409: the first call under our key still runs there. Neutral, no try used, never a
// second POST: the lookup settles it when the provider is done.
func TestC09_AKeyInUseIsAskedAboutNotResent(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(inUse)
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.becomes(p.ID, store.Unknown)
	require.Equal(t, []breaker.Verdict{breaker.Neutral}, b.circuits.verdicts("atlas", classCharge))
	first := f.seen()[0]
	f.book(context.Background(), first.key, []byte(first.body), true) // the slow first call finishes there
	p = b.becomes(p.ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	require.Len(t, f.seen(), 2, "ours and the provider's own booking; no resend")
}

// A lookup says when the charge was sent first and last, for providers whose list has to
// be searched.
func TestALookupSaysWhenTheChargeWasSent(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.OnAbsent = "recharge"
	b := newBench(t, s)
	f := b.fakes["atlas"].on(lost, succeeds)
	asked := make(chan provider.LookupQuery, 100)
	f.setLookup(func(q provider.LookupQuery) (provider.LookedUp, bool) {
		asked <- q
		return provider.LookedUp{}, false // as usual
	})
	began := time.Now().Add(-time.Second)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	for len(asked) > 0 {
		q := <-asked
		require.True(t, q.SentFrom.After(began) && !q.SentTo.Before(q.SentFrom) && !q.SentTo.After(time.Now()), "%+v", q)
	}
}

// Absence counts only past the horizon and twice in a row; then it is failed, and a
// later success still wins.
func TestR01_TwoAbsencesPastTheHorizonFail(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AbsentHorizon = 600 * time.Millisecond
	b := newBench(t, s)
	b.fakes["atlas"].on(lost)
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.becomes(p.ID, store.Unknown)
	sent := time.Now()
	b.looked("atlas", 2)
	if time.Since(sent) < 400*time.Millisecond {
		require.Equal(t, store.Unknown, b.payment(p.ID).Status, "absent inside the horizon proves nothing")
	}
	p = b.becomes(p.ID, store.Failed)
	require.GreaterOrEqual(t, time.Since(sent), 500*time.Millisecond)
	require.Equal(t, "not_received", p.StatusReason)
	require.Len(t, b.fakes["atlas"].seen(), 1)
}

func TestR01_AbsentThenFoundSucceeds(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.AbsentHorizon = time.Hour
	b := newBench(t, s)
	f := b.fakes["atlas"].on(cut)
	absent := provider.LookedUp{Verdict: provider.LookupAbsent, Way: provider.ByReference, Health: provider.HealthOK, Reason: "not_found", Requests: 1}
	f.setLookup(func(provider.LookupQuery) (provider.LookedUp, bool) { return absent, true })
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.looked("atlas", 4)
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
	f.setLookup(nil)
	require.Equal(t, 1, b.ledger(b.becomes(p.ID, store.Succeeded)))
}

// 403 on every lookup proves nothing, for ever.
func TestR01_ForbiddenLookupsProveNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(lost)
	f.setLookup(unanswered("forbidden", provider.HealthNeutral))
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.looked("atlas", 6)
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
	require.NotContains(t, b.circuits.about(p.ID.String(), classStatus), breaker.OK)
}

// Lookups used up leave the payment unknown and under review; asking goes on.
func TestR02_LookupsUsedUpStayUnknownAndGoOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(cut)
	f.setLookup(unanswered("http_503", provider.HealthFail))
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.looked("atlas", agedLookups+3)
	b.eventually("shown to a person", func() (bool, string) {
		got := b.payment(p.ID)
		return len(got.NeedsReview) > 0, fmt.Sprint(got.Lookups)
	})
	got := b.payment(p.ID)
	require.Equal(t, store.Unknown, got.Status)
	require.Contains(t, got.NeedsReview, store.ReviewAged)
	f.setLookup(nil)
	require.Equal(t, 1, b.ledger(b.becomes(p.ID, store.Succeeded)))
}

// A status word without a mapping is unknown and review, never silent.
func TestR02_AnUnmappedStatusStaysUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	f := b.fakes["atlas"].on(cut)
	f.setLookup(func(q provider.LookupQuery) (provider.LookedUp, bool) {
		return provider.LookedUp{Verdict: provider.LookupFound, Way: provider.ByReference, Health: provider.HealthOK, Reason: "found", Objects: []provider.Object{{
			ID: "pay_x", Reference: q.PaymentID, OperationKey: q.OperationKey, Status: "settling", Money: q.Want, CreatedAt: time.Now(), Raw: []byte(`{}`),
		}}}, true
	})
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.eventually("review", func() (bool, string) {
		got := b.payment(p.ID)
		return len(got.NeedsReview) > 0, string(got.Status)
	})
	got := b.payment(p.ID)
	require.Equal(t, store.Unknown, got.Status)
	require.Contains(t, got.NeedsReview, store.ReviewUnmapped)
}

// The provider decided later: 202, then a lookup finds the end.
func TestProcessingIsAskedAboutUntilItEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.fakes["atlas"].on(func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		o := f.book(ctx, key, body, true)
		o.Status, o.Outcome = "processing", provider.Processing
		return classified(written(202), &o, want)
	})
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	require.Equal(t, "1:processing", b.attempts(p.ID))
}

// An open status circuit snoozes lookups and uses none up.
func TestAnOpenStatusCircuitMakesLookupsWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.circuits.open("atlas", classStatus, 50*time.Millisecond)
	b.fakes["atlas"].on(cut)
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.eventually("denied", func() (bool, string) {
		n := b.circuits.denied("atlas", classStatus)
		return n >= 3, fmt.Sprint(n)
	})
	got := b.payment(p.ID)
	require.Equal(t, store.Unknown, got.Status)
	require.Zero(t, got.Lookups)
	_, lookups, _ := b.fakes["atlas"].counts()
	require.Zero(t, lookups)
	b.circuits.shut("atlas", classStatus)
	b.becomes(p.ID, store.Succeeded)
}

// on_absent recharge: the same key and bytes go out again, and only they.
func TestAnAbsentChargeIsSentAgainWithItsOwnKeyAndBytes(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.OnAbsent = "recharge"
	b := newBench(t, s)
	f := b.fakes["atlas"].on(lost, succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Succeeded)
	seen := f.seen()
	require.Len(t, seen, 2)
	require.Equal(t, seen[0].key, seen[1].key)
	require.Equal(t, seen[0].body, seen[1].body)
	require.Equal(t, 1, b.ledger(p))
	require.Equal(t, "1:unknown 2:succeeded", b.attempts(p.ID))
}

// Past the key's life nothing may be sent, whatever the lookups say.
func TestC13_AnExpiredKeyIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.OnAbsent = "recharge"
	b := newBench(t, s)
	f := b.fakes["atlas"].on(lost, succeeds)
	f.setLookup(unanswered("http_503", provider.HealthFail))
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.becomes(p.ID, store.Unknown)
	// 26 hours pass.
	b.exec(`UPDATE attempts SET marked_at = marked_at - interval '26 hours', first_sent_at = first_sent_at - interval '26 hours',
		replay_until = replay_until - interval '26 hours', deadline = deadline - interval '26 hours' WHERE payment_id = $1`, p.ID)
	f.setLookup(nil)
	b.eventually("marked for a person", func() (bool, string) {
		got := b.payment(p.ID)
		return len(got.NeedsReview) > 0, fmt.Sprint(got.Status, got.Lookups)
	})
	require.Contains(t, b.payment(p.ID).NeedsReview, store.ReviewKeyExpired)
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
	require.Len(t, f.seen(), 1)
}

// Without keys a second send would be a second charge: the provider is asked first,
// and what it has is taken.
func TestAProviderWithoutKeysIsAskedBeforeAnySecondAttempt(t *testing.T) {
	t.Parallel()
	s := quick("nokeys")
	s.NoKeys = true
	b := newBench(t, s)
	f := b.fakes["nokeys"].on(refuses, succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("nokeys", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	_, lookups, _ := f.counts()
	require.Equal(t, 1, lookups, "absent, so the second attempt went out")
}

func TestAProviderWithoutKeysThatHasTheChargeIsNotSentAnother(t *testing.T) {
	t.Parallel()
	s := quick("nokeys")
	s.NoKeys = true
	b := newBench(t, s)
	// The trace says nothing left us, and yet the provider has it: believe the provider.
	f := b.fakes["nokeys"].on(func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		f.book(context.Background(), key, body, true)
		return refuses(ctx, f, key, body, want)
	}, succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("nokeys", nil).ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	require.Len(t, f.seen(), 1)
	require.Equal(t, "1:not_sent", b.attempts(p.ID))
}

func TestAProviderWithoutKeysThatDoesNotAnswerIsNotSentAnother(t *testing.T) {
	t.Parallel()
	s := quick("nokeys")
	s.NoKeys = true
	b := newBench(t, s)
	f := b.fakes["nokeys"].on(refuses, succeeds)
	f.setLookup(unanswered("http_503", provider.HealthFail))
	b.start("w1", nil)
	p := b.pay("nokeys", nil)
	b.looked("nokeys", 3)
	require.Equal(t, store.Pending, b.payment(p.ID).Status)
	require.Empty(t, f.seen())
	f.setLookup(nil)
	require.Equal(t, 1, b.ledger(b.becomes(p.ID, store.Succeeded)))
}

// Nobody can be asked: a person decides; the engine neither asks nor sends.
func TestAProviderWithoutStatusAPINeedsAPerson(t *testing.T) {
	t.Parallel()
	s := quick("mute")
	s.NoStatusAPI = true
	b := newBench(t, s)
	f := b.fakes["mute"].on(cut)
	b.start("w1", nil)
	p := b.becomes(b.pay("mute", nil).ID, store.Unknown)
	require.Contains(t, p.NeedsReview, store.ReviewNoStatusAPI)
	b.idle(kindReconcile)
	_, lookups, _ := f.counts()
	require.Zero(t, lookups)
	require.Len(t, f.seen(), 1)
}

// A reconcile job that finds nothing to do ends under the payment's row lock: a
// payment made unknown at that very moment is not forgotten.
func TestALeavingLookupSeesAPaymentThatJustBecameUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.fakes["atlas"].on(holds(entered, release, cut))
	b.start("w1", nil)
	p := b.pay("atlas", nil)
	<-entered
	require.NoError(t, b.enqueueReconcile(p.ID))
	close(release)
	b.becomes(p.ID, store.Succeeded)
}

func (b *bench) enqueueReconcile(id uuid.UUID) error {
	return b.store.InTx(context.Background(), func(ctx context.Context, tx pgxTx) error {
		return b.enqueuer.Reconcile(ctx, tx, id, "atlas", time.Time{})
	})
}
