package jobs

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// hinted is a provider that sends hints. What it answers about one is the test's.
type hinted struct {
	*fake
	asked atomic.Int32
	fetch func(ctx context.Context, n int32, id string) provider.Fetched
}

func (h *hinted) Hint(_ http.Header, raw []byte) (string, bool) { return string(raw), true }

func (h *hinted) Fetch(ctx context.Context, id string) provider.Fetched {
	return h.fetch(ctx, h.asked.Add(1), id)
}

// newHinted is a bench with one such provider, and a payment whose answer was lost.
func newHinted(t *testing.T) (*bench, *hinted, store.Payment) {
	t.Helper()
	s := quick("atlas")
	b := newBench(t, s)
	h := &hinted{fake: b.fakes["atlas"].on(cut)}
	h.setLookup(unanswered("http_503", provider.HealthFail)) // only a hint can settle it
	b.registry = provider.NewRegistry(h)
	return b, h, b.pay("atlas", nil)
}

func found(o provider.Object) provider.Fetched {
	return provider.Fetched{
		LookedUp: provider.LookedUp{Verdict: provider.LookupFound, Health: provider.HealthOK, Reason: provider.ReasonFound, Objects: []provider.Object{o}},
		Event:    provider.Event{Key: o.ID + ":" + o.Status, Type: "payment." + o.Status, Interesting: true, Object: o},
	}
}

func nothing(v provider.LookupVerdict, health provider.Verdict, reason string) provider.Fetched {
	return provider.Fetched{LookedUp: provider.LookedUp{Verdict: v, Health: health, Reason: reason}}
}

// theirs is the provider's object of a payment.
func theirs(p store.Payment, outcome provider.Outcome) provider.Object {
	return provider.Object{ID: "pay_" + p.ID.String() + "_0", Reference: p.ID.String(), Status: string(outcome), Outcome: outcome,
		Money: p.Money(), CreatedAt: time.Now(), Raw: []byte(`{}`)}
}

// hint receives a hint as the web does.
func (b *bench) hint(id string) store.Received {
	b.t.Helper()
	got, err := b.store.ReceiveHint(context.Background(), store.Delivery{
		Provider: "atlas", Raw: []byte(id), Verification: provider.Verification{Verdict: provider.SignatureMissing},
	}, id)
	require.NoError(b.t, err)
	return got
}

func (b *bench) inbox(state string) int {
	b.t.Helper()
	return b.count(`SELECT count(*) FROM webhook_events WHERE state = $1`, state)
}

func TestAHintIsFetchedAndWhatWasFetchedApplied(t *testing.T) {
	t.Parallel()
	b, h, p := newHinted(t)
	h.fetch = func(_ context.Context, _ int32, id string) provider.Fetched {
		require.Equal(t, theirs(p, provider.Succeeded).ID, id)
		return found(theirs(p, provider.Succeeded))
	}
	require.Equal(t, 0, b.hint(theirs(p, provider.Succeeded).ID).Duplicates)
	require.Equal(t, 1, b.hint(theirs(p, provider.Succeeded).ID).Duplicates, "nobody has asked yet: one question answers both")
	b.start("w1", nil)
	b.becomes(p.ID, store.Succeeded)
	b.idle(kindWebhook)
	require.EqualValues(t, 1, h.asked.Load())
	require.Equal(t, 1, b.inbox("applied"))
	require.Equal(t, "missing a hint; read back from the provider", b.text(`SELECT signature || ' ' || state_reason FROM webhook_events`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND to_status = 'succeeded' AND from_status <> to_status`, p.ID))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE kind = 'webhook' AND queue = 'status_atlas' AND state = 'completed'`),
		"asked in the provider's own queue")
	require.Equal(t, 1, b.count(`SELECT count(*) FROM call_outcomes WHERE class = 'status' AND outcome = 'hint_found'`))

	// The same state announced again is a question more and no effect.
	b.hint(theirs(p, provider.Succeeded).ID)
	b.eventually("the repeat is ignored", func() (bool, string) { return b.inbox("ignored") == 1, "" })
	require.Equal(t, 1, b.inbox("applied"))
}

// The hint itself is never believed, and a stranger's id costs a question.
func TestHintsThatAreNoneOfOurs(t *testing.T) {
	t.Parallel()
	b, h, p := newHinted(t)
	h.fetch = func(_ context.Context, _ int32, id string) provider.Fetched {
		if id == "tr_junk" {
			return nothing(provider.LookupAbsent, provider.HealthOK, provider.ReasonNotFound)
		}
		o := theirs(p, provider.Succeeded)
		o.ID, o.Reference = id, "0195c3d8-0000-7000-8000-000000000000"
		return found(o)
	}
	b.start("w1", nil)
	b.becomes(p.ID, store.Unknown)
	b.hint("tr_junk")
	b.hint("tr_stranger")
	b.eventually("both are settled", func() (bool, string) { return b.inbox("ignored") == 1 && b.inbox("unmatched") == 1, "" })
	require.Equal(t, unknownThere, b.text(`SELECT state_reason FROM webhook_events WHERE state = 'ignored'`))
	require.Equal(t, "tr_stranger:succeeded", b.text(`SELECT event_key FROM webhook_events WHERE state = 'unmatched'`))
	require.Equal(t, store.Unknown, b.payment(p.ID).Status)
}

// Without an answer the hint waits: nobody delivers again what was answered 2xx.
func TestAHintWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	b, h, p := newHinted(t)
	h.fetch = func(_ context.Context, n int32, _ string) provider.Fetched {
		if n < 3 {
			return nothing(provider.LookupNoAnswer, provider.HealthFail, "http_503")
		}
		return found(theirs(p, provider.Succeeded))
	}
	b.hint(theirs(p, provider.Succeeded).ID)
	b.start("w1", nil)
	b.becomes(p.ID, store.Succeeded)
	require.EqualValues(t, 3, h.asked.Load())
	require.Contains(t, b.circuits.verdicts("atlas", classStatus), breaker.Fail)
}

// An open status circuit holds the question back, and nothing else of the provider's.
func TestAHintWaitsForTheStatusCircuit(t *testing.T) {
	t.Parallel()
	b, h, p := newHinted(t)
	h.fetch = func(context.Context, int32, string) provider.Fetched { return found(theirs(p, provider.Succeeded)) }
	b.circuits.open("atlas", classStatus, 50*time.Millisecond)
	b.hint(theirs(p, provider.Succeeded).ID)
	b.start("w1", nil)
	b.eventually("the wait is noted", func() (bool, string) {
		return b.count(`SELECT count(*) FROM webhook_events WHERE state_reason LIKE '%circuit_open%'`) == 1, ""
	})
	require.Zero(t, h.asked.Load())
	b.circuits.shut("atlas", classStatus)
	b.becomes(p.ID, store.Succeeded)
}

// What is announced while a fetch is under way may be news to it.
func TestW04_AHintDuringAFetchIsFetchedAgain(t *testing.T) {
	t.Parallel()
	b, h, p := newHinted(t)
	entered, release := make(chan struct{}), make(chan struct{})
	h.fetch = func(_ context.Context, n int32, _ string) provider.Fetched {
		if n == 1 {
			close(entered)
			<-release
			return found(theirs(p, provider.Processing))
		}
		return found(theirs(p, provider.Succeeded))
	}
	b.hint(theirs(p, provider.Succeeded).ID)
	b.start("w1", nil)
	<-entered
	require.Equal(t, 0, b.hint(theirs(p, provider.Succeeded).ID).Duplicates, "a row of its own")
	close(release)
	b.becomes(p.ID, store.Succeeded)
	b.eventually("both are applied", func() (bool, string) { return b.inbox("applied") == 2, "" })
}

// A stop in the middle proves nothing: the next process asks.
func TestAHintSurvivesAStop(t *testing.T) {
	t.Parallel()
	b, h, p := newHinted(t)
	entered := make(chan struct{}, 1)
	h.fetch = func(ctx context.Context, n int32, _ string) provider.Fetched {
		if n > 1 {
			return found(theirs(p, provider.Succeeded))
		}
		entered <- struct{}{}
		<-ctx.Done()
		return nothing(provider.LookupNoAnswer, provider.HealthNeutral, "shutdown_after_send")
	}
	b.hint(theirs(p, provider.Succeeded).ID)
	r := b.start("w1", nil)
	<-entered
	b.stopNow(r, 5*time.Second)
	require.Equal(t, 1, b.inbox("received"))
	b.start("w2", nil)
	b.becomes(p.ID, store.Succeeded)
}
