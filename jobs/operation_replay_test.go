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

// replayingRefunds is a bench with a paid payment at a provider that answers no question
// and takes the same key again.
func replayingRefunds(t *testing.T, change func(*provider.Settings)) (*bench, *refunder, store.Payment) {
	t.Helper()
	s := quick("atlas")
	if change != nil {
		change(&s)
	}
	b, r, p := newRefundBench(t, s, nil)
	for _, f := range []*fake{r.fake, r.refunds} {
		f.mu.Lock()
		f.caps.Ways, f.caps.Listing = []provider.Way{provider.ReplayKey, provider.WebhookOnly}, false
		f.mu.Unlock()
	}
	return b, r, p
}

// refundedByReplay checks what must hold of a refund however it got there: made once, the
// same key and bytes in every send, and no question put to the provider.
func (b *bench) refundedByReplay(op store.Operation, r *refunder, sends int) {
	b.t.Helper()
	require.Equal(b.t, 1, r.made(op))
	seen := r.refunds.seen()
	require.Len(b.t, seen, sends)
	for _, s := range seen {
		require.Equal(b.t, seen[0].key, s.key)
		require.Equal(b.t, seen[0].body, s.body)
	}
	_, lookups, _ := r.refunds.counts()
	require.Zero(b.t, lookups)
	b.idle(kindOperation)
	b.idle(kindOpLookup)
	require.Equal(b.t, op.Amount, b.operation(op.ID).Amount)
	require.Equal(b.t, 1, b.count(`SELECT count(*) FROM operations`))
}

// ageKey moves a refund's attempts into the past, beyond the key's life.
func (b *bench) ageKey(op store.Operation) {
	b.exec(`UPDATE attempts SET marked_at = marked_at - interval '26 hours', first_sent_at = first_sent_at - interval '26 hours',
		replay_until = replay_until - interval '26 hours', deadline = deadline - interval '26 hours' WHERE payment_id = $1 AND operation = $2`,
		op.PaymentID, op.AttemptName())
}

// askNow queues a lookup of an operation, as a person's click does.
func (b *bench) askNow(id uuid.UUID) {
	b.inTx(func(ctx context.Context, tx pgxTx) error {
		return b.enqueuer.OperationLookup(ctx, tx, id, "atlas", time.Time{})
	})
}

func TestAnUnknownRefundIsSettledByItsOwnKeyAndBytes(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]answer{"the first refunded": cut, "the first was lost": lost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r, p := replayingRefunds(t, nil)
			r.refunds.on(first, succeeds)
			b.start("w1", nil)
			op := b.refund(p, 1900)
			require.NotContains(t, b.refunded(op.ID, store.Unknown).NeedsReview, store.ReviewNoStatusAPI, "there is a way to the truth")
			op = b.refunded(op.ID, store.Succeeded)
			b.refundedByReplay(op, r, 2)
			require.Equal(t, "1:unknown 2:succeeded", b.refundAttempts(op))
			require.Equal(t, []breaker.Verdict{breaker.Fail, breaker.OK}, b.circuits.about(p.ID.String(), classCharge))
			require.Empty(t, b.circuits.about(p.ID.String(), classStatus), "a replay is a money call")
			require.Equal(t, 1, b.events(p.ID, "refund_resend_started"))
			require.Empty(t, op.NeedsReview)
			require.Equal(t, p.Version, b.payment(p.ID).Version)
		})
	}
}

// late executes the first send only when told to, long after we gave it up; then answers
// the same key with what it made.
func late(execute <-chan struct{}, executed chan<- struct{}) answer {
	return func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		go func() {
			<-execute
			f.book(context.Background(), key, body, true)
			close(executed)
		}()
		return classified(ended(ctx, written(0)), nil, want)
	}
}

// The provider executes the first send after the replay, or between two: the key makes
// them one refund.
func TestAFirstSendExecutedLateIsOneRefund(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]answer{"after the replay made it": succeeds, "between two replays": says(http.StatusServiceUnavailable, "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r, p := replayingRefunds(t, nil)
			execute, executed := make(chan struct{}), make(chan struct{})
			between := func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
				c := second(ctx, f, key, body, want)
				close(execute)
				<-executed
				return c
			}
			r.refunds.on(late(execute, executed), between, succeeds)
			b.start("w1", nil)
			op := b.refunded(b.refund(p, 1900).ID, store.Succeeded)
			<-executed
			require.Equal(t, 1, r.made(op))
			for _, s := range r.refunds.seen() {
				require.Equal(t, op.OperationKey, s.key)
			}
			b.idle(kindOperation)
			b.idle(kindOpLookup)
		})
	}
}

// Past the key's life a replay would be a second refund: an event or a person decides.
func TestC13_ARefundsExpiredKeyIsNeverReplayed(t *testing.T) {
	t.Parallel()
	b, r, p := replayingRefunds(t, func(s *provider.Settings) { s.ReconcilePauses = []time.Duration{time.Hour} })
	r.refunds.on(lost, succeeds)
	b.start("w1", func(c *Config) { c.SweepEvery = 100 * time.Millisecond })
	op := b.refunded(b.refund(p, 1900).ID, store.Unknown)
	b.ageKey(op)
	b.askNow(op.ID)
	b.eventually("marked for a person", func() (bool, string) {
		got := b.operation(op.ID)
		return len(got.NeedsReview) > 0, fmt.Sprint(got.Status, got.NextCheckWhy)
	})
	b.idle(kindOpLookup)
	b.idle(kindOperation)
	b.askNow(op.ID) // a person may ask again, and again nothing is sent
	b.idle(kindOpLookup)
	sweeps := b.sweeps()
	b.eventually("two more sweeps", func() (bool, string) { n := b.sweeps(); return n >= sweeps+2, fmt.Sprint(n) })
	got := b.operation(op.ID)
	require.Equal(t, store.Unknown, got.Status)
	require.Equal(t, []string{store.ReviewKeyExpired}, got.NeedsReview)
	require.Nil(t, got.NextCheckAt)
	require.Len(t, r.refunds.seen(), 1)
	require.Zero(t, b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation_lookup' AND finalized_at IS NULL`), "no sweep brings it back")
}

// While a replay is in flight nothing else is sent, whatever is queued and however many
// workers there are.
func TestNeverTwoReplaysOfARefundInFlight(t *testing.T) {
	t.Parallel()
	b, r, p := replayingRefunds(t, nil)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	r.refunds.on(cut, holds(entered, release, succeeds))
	b.start("w1", nil)
	b.start("w2", nil)
	op := b.refund(p, 1900)
	<-entered
	for range 5 {
		b.askNow(op.ID)
		b.inTx(func(ctx context.Context, tx pgxTx) error { return b.enqueuer.ReplayOperation(ctx, tx, op.ID, "atlas") })
		b.exec(`INSERT INTO river_job (kind, queue, max_attempts, args) VALUES ('operation', 'charge_atlas', 25, $1)`,
			fmt.Sprintf(`{"operation_id":%q,"replay":true,"provider":"atlas"}`, op.ID)) // a job River lost its uniqueness for
	}
	b.eventually("the extra jobs ran", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'operation' AND state = 'completed'`)
		return n >= 6, fmt.Sprint(n)
	})
	require.Len(t, r.refunds.seen(), 1, "the second is held before its booking")
	require.Empty(t, entered)
	close(release)
	b.refundedByReplay(b.refunded(op.ID, store.Succeeded), r, 2)
}

// The charge circuit holds replays back, and no attempt is made meanwhile.
func TestAnOpenChargeCircuitMakesReplaysOfRefundsWait(t *testing.T) {
	t.Parallel()
	b, r, p := replayingRefunds(t, nil)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	r.refunds.on(holds(entered, release, cut), succeeds)
	b.start("w1", nil)
	op := b.refund(p, 1900)
	<-entered
	b.circuits.open("atlas", classCharge, 50*time.Millisecond)
	close(release)
	b.eventually("denied", func() (bool, string) {
		n := b.circuits.denied("atlas", classCharge)
		return n >= 2, fmt.Sprint(n)
	})
	require.Equal(t, store.Unknown, b.operation(op.ID).Status)
	require.Equal(t, "1:unknown", b.refundAttempts(op))
	b.circuits.shut("atlas", classCharge)
	b.refundedByReplay(b.refunded(op.ID, store.Succeeded), r, 2)
}

// What settles nothing goes out again, slower each time, and never makes it pending.
func TestReplaysOfARefundThatSettleNothingGoOn(t *testing.T) {
	t.Parallel()
	b, r, p := replayingRefunds(t, nil)
	r.refunds.on(cut, refuses, inUse, says(http.StatusNotFound, ""), succeeds)
	b.start("w1", nil)
	op := b.refunded(b.refund(p, 1900).ID, store.Succeeded)
	b.refundedByReplay(op, r, 4)
	require.Equal(t, "1:unknown 2:not_sent 3:unknown 4:unknown 5:succeeded", b.refundAttempts(op))
	require.Zero(t, b.count(`SELECT count(*) FROM payment_events WHERE evidence ->> 'to' = 'pending'`))
	seen := r.refunds.seen()
	require.GreaterOrEqual(t, seen[2].at.Sub(seen[1].at), time.Second, "Retry-After: 1")
}

// A lost job is found again by its row.
func TestQ04_ALostReplayOfARefundIsFoundByItsRow(t *testing.T) {
	t.Parallel()
	b, r, p := replayingRefunds(t, func(s *provider.Settings) { s.ReconcilePauses = []time.Duration{time.Hour} })
	r.refunds.on(cut, succeeds)
	b.start("w1", func(c *Config) { c.SweepEvery = 100 * time.Millisecond })
	op := b.refunded(b.refund(p, 1900).ID, store.Unknown)
	b.exec(`DELETE FROM river_job WHERE kind = 'operation_lookup'`)
	b.exec(`UPDATE operations SET next_check_at = now() - interval '1 hour' WHERE id = $1`, op.ID)
	b.refundedByReplay(b.refunded(op.ID, store.Succeeded), r, 2)
}

// Killed at any instruction of a replay, the refund ends settled and made once.
func TestC16_ACrashInAReplayRefundsAtMostOnce(t *testing.T) {
	t.Parallel()
	for _, point := range []string{PointBeforeMark, PointAfterMark, PointAfterSend, PointAfterAnswer, PointAfterCommit} {
		for name, first := range map[string]answer{"refunded": cut, "lost": lost} {
			t.Run(point+" "+name, func(t *testing.T) {
				t.Parallel()
				b, r, p := replayingRefunds(t, nil)
				r.refunds.on(first, succeeds)
				op := b.refund(p, 1900)
				refund := op.ID.String()
				var passed atomic.Int32
				b.start("w1", func(c *Config) {
					c.SweepEvery = 200 * time.Millisecond
					c.At = func(at, id string) {
						if at == point && id == refund && passed.Add(1) == 2 { // the first was the refund itself
							panic("crash at " + at)
						}
					}
				})
				op = b.refunded(op.ID, store.Succeeded)
				b.eventually("the point is passed a second time", func() (bool, string) { return passed.Load() >= 2, point })
				sends := 3
				if point == PointBeforeMark || point == PointAfterMark || point == PointAfterCommit {
					sends = 2
				}
				b.refundedByReplay(op, r, sends)
			})
		}
	}
}

// Killed at any instruction of the first send: without an outcome it counts as maybe sent,
// and the replay, not a second refund, tells.
func TestC16_ACrashInTheFirstRefundIsSettledByReplay(t *testing.T) {
	t.Parallel()
	for point, sends := range map[string]int{PointAfterMark: 1, PointAfterSend: 2, PointAfterAnswer: 2} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, r, p := replayingRefunds(t, nil)
			op := b.refund(p, 1900)
			refund := op.ID.String()
			var passed atomic.Int32
			b.start("w1", func(c *Config) {
				c.SweepEvery = 200 * time.Millisecond
				c.At = func(at, id string) {
					if at == point && id == refund && passed.Add(1) == 1 {
						panic("crash at " + at)
					}
				}
			})
			op = b.refunded(op.ID, store.Succeeded)
			b.refundedByReplay(op, r, sends)
			require.Equal(t, "1:unknown 2:succeeded", b.refundAttempts(op))
		})
	}
}

// Whoever can be asked by the charge's id is asked; a replay that is declared first goes
// first, and past the key's life the question remains.
func TestWaysOfARefundAreGoneInTheirOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ways  []provider.Way
		sends int
		old   bool
	}{
		"asked by id first":     {[]provider.Way{provider.ByID, provider.ReplayKey, provider.ByReference}, 1, false},
		"the replay first":      {[]provider.Way{provider.ReplayKey, provider.ByReference}, 2, false},
		"past the key the rest": {[]provider.Way{provider.ReplayKey, provider.ByReference}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r, p := replayingRefunds(t, func(s *provider.Settings) {
				if c.old {
					s.ReconcilePauses = []time.Duration{time.Hour}
				}
			})
			r.fake.caps.Ways = c.ways
			r.refunds.on(cut, succeeds)
			b.start("w1", nil)
			op := b.refund(p, 1900)
			if c.old {
				b.refunded(op.ID, store.Unknown)
				b.ageKey(op)
				b.askNow(op.ID)
			}
			op = b.refunded(op.ID, store.Succeeded)
			require.Len(t, r.refunds.seen(), c.sends)
			require.Equal(t, 1, r.made(op))
			require.Empty(t, op.NeedsReview, "settled by the provider's word")
			_, lookups, _ := r.refunds.counts()
			require.Equal(t, c.sends == 1, lookups > 0)
		})
	}
}

// A rejection of the replay does not prove that the first send was not executed; a decline
// is an answer as good as any.
func TestARejectedReplayOfARefundProvesNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			b, r, p := replayingRefunds(t, nil)
			r.refunds.on(cut, says(status, ""))
			b.start("w1", nil)
			op := b.refund(p, 1900)
			b.eventually("a person is asked", func() (bool, string) {
				got := b.operation(op.ID)
				return len(got.NeedsReview) == 2 && got.NextCheckAt == nil, fmt.Sprint(got.Status, got.NeedsReview)
			})
			got := b.operation(op.ID)
			require.Equal(t, store.Unknown, got.Status)
			require.Equal(t, []string{store.ReviewContradiction, store.ReviewNoStatusAPI}, got.NeedsReview)
			require.Len(t, r.refunds.seen(), 2, "and no further replay")
			require.Equal(t, "1:unknown 2:unknown", b.refundAttempts(op))
			require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'contradiction'`))
		})
	}
	t.Run("a decline", func(t *testing.T) {
		t.Parallel()
		b, r, p := replayingRefunds(t, nil)
		r.refunds.on(lost, says(http.StatusPaymentRequired, ""))
		b.start("w1", nil)
		op := b.refunded(b.refund(p, 1900).ID, store.Failed)
		require.Equal(t, provider.ReasonDeclined, op.StatusReason)
		require.Zero(t, r.made(op))
	})
	t.Run("where somebody can be asked", func(t *testing.T) {
		t.Parallel()
		b, r, p := replayingRefunds(t, nil)
		r.fake.caps.Ways = []provider.Way{provider.ReplayKey, provider.ByReference}
		r.refunds.on(cut, says(http.StatusUnprocessableEntity, ""))
		b.start("w1", nil)
		op := b.refunded(b.refund(p, 1900).ID, store.Succeeded)
		require.Empty(t, op.NeedsReview, "the lookup found it")
		require.Len(t, r.refunds.seen(), 2)
	})
}
