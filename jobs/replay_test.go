package jobs

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// replaying is a bench whose provider answers no question and takes the same key again.
func replaying(t *testing.T, change func(*provider.Settings)) (*bench, *fake) {
	t.Helper()
	s := quick("delta")
	if change != nil {
		change(&s)
	}
	b := newBench(t, s)
	f := b.fakes["delta"]
	f.caps.Ways, f.caps.Listing = []provider.Way{provider.ReplayKey, provider.WebhookOnly}, false
	return b, f
}

// settledByReplay checks what must hold of a payment however it got there: one charge,
// the same key and bytes in every send, and no question put to the provider.
func (b *bench) settledByReplay(p store.Payment, f *fake, sends int) {
	b.t.Helper()
	require.Equal(b.t, 1, b.ledger(p))
	seen := f.seen()
	require.Len(b.t, seen, sends)
	for _, s := range seen {
		require.Equal(b.t, seen[0].key, s.key)
		require.Equal(b.t, seen[0].body, s.body)
	}
	_, lookups, _ := f.counts()
	require.Zero(b.t, lookups)
	b.idle(kindCharge)
	b.idle(kindReconcile)
}

func (b *bench) events(id uuid.UUID, kind string) int {
	return b.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = $2`, id, kind)
}

func TestAnUnknownPaymentIsSettledByItsOwnKeyAndBytes(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]answer{"the first charged": cut, "the first was lost": lost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, f := replaying(t, nil)
			f.on(first, succeeds)
			b.start("w1", nil)
			p := b.pay("delta", nil)
			require.NotContains(t, b.becomes(p.ID, store.Unknown).NeedsReview, store.ReviewNoStatusAPI, "there is a way to the truth")
			p = b.becomes(p.ID, store.Succeeded)
			b.settledByReplay(p, f, 2)
			require.Equal(t, "1:unknown 2:succeeded", b.attempts(p.ID))
			require.Equal(t, []breaker.Verdict{breaker.Fail, breaker.OK}, b.circuits.about(p.ID.String(), classCharge))
			require.Empty(t, b.circuits.about(p.ID.String(), classStatus), "a replay is a money call")
			require.Equal(t, 1, b.events(p.ID, "resend_started"))
			require.Empty(t, p.NeedsReview)
		})
	}
}

// A decline is an answer as good as any.
func TestAReplayMayFindADecline(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	f.on(lost, says(http.StatusPaymentRequired, ""))
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Failed)
	require.Equal(t, provider.ReasonDeclined, p.StatusReason)
	require.Zero(t, b.ledger(p))
}

// A rejection of the replay does not prove that the first send was not executed: unknown,
// for a person to see, and no further replay. Where somebody can be asked, that settles it.
func TestARejectedReplayProvesNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			b, f := replaying(t, nil)
			f.on(cut, says(status, ""))
			b.start("w1", nil)
			p := b.pay("delta", nil)
			b.eventually("a person is asked", func() (bool, string) {
				got := b.payment(p.ID)
				return len(got.NeedsReview) == 2 && got.NextCheckAt == nil, fmt.Sprint(got.Status, got.NeedsReview)
			})
			b.idle(kindCharge)
			p = b.payment(p.ID)
			require.Equal(t, store.Unknown, p.Status)
			require.Equal(t, []string{store.ReviewContradiction, store.ReviewNoStatusAPI}, p.NeedsReview)
			require.Equal(t, provider.ReasonReplayRejected, p.StatusReason)
			require.Len(t, f.seen(), 2, "and no further replay")
		})
	}
	t.Run("where somebody can be asked", func(t *testing.T) {
		t.Parallel()
		b, f := replaying(t, nil)
		f.caps.Ways = []provider.Way{provider.ReplayKey, provider.ByReference}
		f.on(cut, says(http.StatusUnprocessableEntity, ""))
		b.start("w1", nil)
		p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
		require.Empty(t, p.NeedsReview, "the lookup found it")
		require.Len(t, f.seen(), 2)
		require.Equal(t, 1, b.ledger(p))
	})
}

// Past the key's life a replay would be a second charge: an event or a person decides.
func TestC13_AnExpiredKeyIsNeverReplayed(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, func(s *provider.Settings) { s.ReconcilePauses = []time.Duration{time.Hour} })
	f.on(lost, succeeds)
	b.start("w1", func(c *Config) { c.SweepEvery = 100 * time.Millisecond })
	p := b.becomes(b.pay("delta", nil).ID, store.Unknown)
	b.exec(`UPDATE attempts SET marked_at = marked_at - interval '26 hours', first_sent_at = first_sent_at - interval '26 hours',
		replay_until = replay_until - interval '26 hours', deadline = deadline - interval '26 hours' WHERE payment_id = $1`, p.ID)
	require.NoError(t, b.checkNow("delta", p.ID))
	b.eventually("marked for a person", func() (bool, string) {
		got := b.payment(p.ID)
		return len(got.NeedsReview) > 0, fmt.Sprint(got.Status, got.NextCheckWhy)
	})
	b.idle(kindReconcile)
	b.idle(kindCharge)
	require.NoError(t, b.checkNow("delta", p.ID)) // a person may ask again, and again nothing is sent
	b.idle(kindReconcile)
	sweeps := b.sweeps()
	b.eventually("two more sweeps", func() (bool, string) { n := b.sweeps(); return n >= sweeps+2, fmt.Sprint(n) })
	got := b.payment(p.ID)
	require.Equal(t, store.Unknown, got.Status)
	require.Equal(t, []string{store.ReviewKeyExpired}, got.NeedsReview)
	require.Nil(t, got.NextCheckAt)
	require.Len(t, f.seen(), 1)
	require.Zero(t, b.count(`SELECT count(*) FROM river_job WHERE kind = 'reconcile' AND finalized_at IS NULL`), "no sweep brings it back")
}

func (b *bench) sweeps() int {
	return b.count(`SELECT count(*) FROM river_job WHERE kind = 'sweep' AND state = 'completed'`)
}

// checkNow queues a lookup, as a person's click does.
func (b *bench) checkNow(name string, id uuid.UUID) error {
	return b.store.InTx(context.Background(), func(ctx context.Context, tx pgxTx) error {
		return b.enqueuer.Reconcile(ctx, tx, id, name, time.Time{})
	})
}

// While a replay is in flight nothing else is sent, whatever is queued and however many
// workers there are.
func TestNeverTwoReplaysInFlight(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	f.on(cut, holds(entered, release, succeeds))
	b.start("w1", nil)
	b.start("w2", nil)
	p := b.pay("delta", nil)
	<-entered
	for range 5 {
		require.NoError(t, b.checkNow("delta", p.ID))
		b.inTx(func(ctx context.Context, tx pgxTx) error { return b.enqueuer.Recharge(ctx, tx, p.ID, "delta") })
		b.exec(`INSERT INTO river_job (kind, queue, max_attempts, args) VALUES ('charge', 'charge_delta', 25, $1)`,
			fmt.Sprintf(`{"payment_id":%q,"recharge":true,"provider":"delta"}`, p.ID)) // a job River lost its uniqueness for
	}
	b.eventually("the extra jobs ran", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'charge' AND state = 'completed'`)
		return n >= 6, fmt.Sprint(n)
	})
	require.Len(t, f.seen(), 1, "the second is held before its booking")
	require.Empty(t, entered)
	close(release)
	b.settledByReplay(b.becomes(p.ID, store.Succeeded), f, 2)
}

// The charge circuit holds replays back, and no attempt is made meanwhile.
func TestAnOpenChargeCircuitMakesReplaysWait(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	f.on(holds(entered, release, cut), succeeds)
	b.start("w1", nil)
	p := b.pay("delta", nil)
	<-entered
	b.circuits.open("delta", classCharge, 50*time.Millisecond)
	close(release)
	b.eventually("denied", func() (bool, string) {
		n := b.circuits.denied("delta", classCharge)
		return n >= 2, fmt.Sprint(n)
	})
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
	require.Equal(t, whyCircuit, b.payment(p.ID).NextCheckWhy)
	require.Equal(t, "1:unknown", b.attempts(p.ID))
	b.circuits.shut("delta", classCharge)
	b.settledByReplay(b.becomes(p.ID, store.Succeeded), f, 2)
}

// 409 to a replay: the first call still runs over there. Neutral, still unknown, and the
// same key again when the provider says.
func TestC09_AReplayOfAKeyInUseWaits(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	f.on(lost, inUse, succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
	b.settledByReplay(p, f, 3)
	require.Equal(t, "1:unknown 2:unknown 3:succeeded", b.attempts(p.ID))
	require.Equal(t, []breaker.Verdict{breaker.Fail, breaker.Neutral, breaker.OK}, b.circuits.about(p.ID.String(), classCharge))
	seen := f.seen()
	require.GreaterOrEqual(t, seen[2].at.Sub(seen[1].at), time.Second, "Retry-After: 1")
}

// A stored 500 comes back for as long as the key lives: no new evidence, so the circuit
// does not count it, and the pace slows down.
func TestAReplayedServerErrorIsNoNewEvidence(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	stored := func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		f.book(ctx, key, body, false)
		ex := written(http.StatusInternalServerError)
		ex.Body = []byte(`{}`)
		return classified(ex, nil, want)
	}
	f.on(stored, stored, stored, succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
	b.settledByReplay(p, f, 4)
	require.Equal(t, []breaker.Verdict{breaker.Fail, breaker.Neutral, breaker.Neutral, breaker.OK}, b.circuits.about(p.ID.String(), classCharge))
}

// An address that takes nothing says nothing about what the first send did there.
func TestAReplayRefusedByTheEndpointProvesNothing(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	f.on(cut, says(http.StatusNotFound, ""), succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
	b.settledByReplay(p, f, 3)
	require.Equal(t, "1:unknown 2:unknown 3:succeeded", b.attempts(p.ID))
}

// What provably was not executed goes out again later, and never makes the payment pending.
func TestAReplayThatDoesNotLeaveComesBack(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	f.on(cut, refuses, says(http.StatusTooManyRequests, "1"), succeeds)
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
	b.settledByReplay(p, f, 3)
	require.Equal(t, "1:unknown 2:not_sent 3:not_executed 4:succeeded", b.attempts(p.ID))
	require.Zero(t, b.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND from_status = 'unknown' AND to_status = 'pending'`, p.ID))
}

// What the provider acknowledged is its own to decide: a replay would only repeat that.
func TestAProcessingPaymentIsNotReplayed(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	f.on(func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		o := f.book(ctx, key, body, true)
		o.Status, o.Outcome = "pending", provider.Processing
		return classified(written(http.StatusOK), &o, want)
	})
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Processing)
	b.idle(kindReconcile)
	require.NoError(t, b.checkNow("delta", p.ID))
	b.idle(kindReconcile)
	require.Len(t, f.seen(), 1)
}

// Where an id is known and can be asked about, asking it is; it sends no money call.
func TestAKnownIDIsAskedAboutNotReplayed(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, nil)
	f.caps.Ways = []provider.Way{provider.ByID, provider.ReplayKey}
	f.on(func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		o := f.book(ctx, key, body, true)
		ex := written(http.StatusOK)
		ex.Body, ex.ContentType = []byte(`{"id":`), "application/json"
		c := provider.Charged{Classification: provider.Classify(ex, provider.Answer{Malformed: true}, want), Exchange: ex}
		c.Object = &provider.Object{ID: o.ID}
		return c
	})
	b.start("w1", nil)
	p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
	require.Equal(t, "1:unknown", b.attempts(p.ID))
	_, lookups, _ := f.counts()
	require.Positive(t, lookups)
}

// A lost job is found again by its row.
func TestQ04_ALostReplayIsFoundByItsRow(t *testing.T) {
	t.Parallel()
	b, f := replaying(t, func(s *provider.Settings) { s.ReconcilePauses = []time.Duration{time.Hour} })
	f.on(cut, succeeds)
	b.start("w1", func(c *Config) { c.SweepEvery = 100 * time.Millisecond })
	p := b.becomes(b.pay("delta", nil).ID, store.Unknown)
	b.exec(`DELETE FROM river_job WHERE kind = 'reconcile'`)
	b.exec(`UPDATE payments SET next_check_at = now() - interval '1 hour' WHERE id = $1`, p.ID)
	b.settledByReplay(b.becomes(p.ID, store.Succeeded), f, 2)
}

// Killed at any instruction of a replay, the payment ends settled with one charge.
func TestC16_ACrashInAReplayChargesAtMostOnce(t *testing.T) {
	t.Parallel()
	for _, point := range []string{PointBeforeMark, PointAfterMark, PointAfterSend, PointAfterAnswer, PointAfterCommit} {
		for name, first := range map[string]answer{"charged": cut, "lost": lost} {
			t.Run(point+" "+name, func(t *testing.T) {
				t.Parallel()
				b, f := replaying(t, nil)
				f.on(first, succeeds)
				var passed atomic.Int32
				b.start("w1", func(c *Config) {
					c.SweepEvery = 200 * time.Millisecond
					c.At = func(at, _ string) {
						if at == point && passed.Add(1) == 2 { // the first was the charge itself
							panic("crash at " + at)
						}
					}
				})
				p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
				// After the commit, what it wrote is seen before the point is passed.
				b.eventually("the point is passed a second time", func() (bool, string) { return passed.Load() >= 2, point })
				sends := 3
				if point == PointBeforeMark || point == PointAfterMark || point == PointAfterCommit {
					sends = 2
				}
				b.settledByReplay(p, f, sends)
			})
		}
	}
}

// Killed at any instruction of the first send: without an outcome it counts as maybe sent,
// and the replay, not a second charge, tells.
func TestC16_ACrashInTheFirstSendIsSettledByReplay(t *testing.T) {
	t.Parallel()
	for point, sends := range map[string]int{PointAfterMark: 1, PointAfterSend: 2, PointAfterAnswer: 2} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, f := replaying(t, nil)
			var passed atomic.Int32
			b.start("w1", func(c *Config) {
				c.SweepEvery = 200 * time.Millisecond
				c.At = func(at, _ string) {
					if at == point && passed.Add(1) == 1 {
						panic("crash at " + at)
					}
				}
			})
			p := b.becomes(b.pay("delta", nil).ID, store.Succeeded)
			b.settledByReplay(p, f, sends)
			require.Equal(t, "1:unknown 2:succeeded", b.attempts(p.ID))
		})
	}
}

// Ways are gone in the order they are declared: the replay before a list that lags, and
// past the key's life what is left to ask.
func TestWaysAreGoneInTheirOrder(t *testing.T) {
	t.Parallel()
	ways := []provider.Way{provider.ByID, provider.ReplayKey, provider.ByReference}
	t.Run("the replay first", func(t *testing.T) {
		t.Parallel()
		b, f := replaying(t, nil)
		f.caps.Ways = ways
		f.on(cut, succeeds)
		b.start("w1", nil)
		b.settledByReplay(b.becomes(b.pay("delta", nil).ID, store.Succeeded), f, 2)
	})
	t.Run("past the key the rest", func(t *testing.T) {
		t.Parallel()
		b, f := replaying(t, func(s *provider.Settings) { s.ReconcilePauses = []time.Duration{time.Hour} })
		f.caps.Ways = ways
		f.on(cut)
		b.start("w1", nil)
		p := b.becomes(b.pay("delta", nil).ID, store.Unknown)
		b.exec(`UPDATE attempts SET marked_at = marked_at - interval '26 hours', first_sent_at = first_sent_at - interval '26 hours',
			replay_until = replay_until - interval '26 hours', deadline = deadline - interval '26 hours' WHERE payment_id = $1`, p.ID)
		require.NoError(t, b.checkNow("delta", p.ID))
		p = b.becomes(p.ID, store.Succeeded)
		require.Len(t, f.seen(), 1)
		require.Equal(t, 1, b.ledger(p))
		require.Empty(t, p.NeedsReview, "settled by the provider's word")
		_, lookups, _ := f.counts()
		require.Positive(t, lookups)
	})
}
