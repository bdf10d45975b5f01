package providertest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

func testCapabilities(t *testing.T, h Harness) {
	a, _ := h.New(t)
	c := a.Capabilities()
	require.NotEmpty(t, a.Name())
	require.Equal(t, c.IdempotencyKeys, c.KeyLife > 0, "a key has a life, and only a key")
	if !c.IdempotencyKeys {
		require.False(t, c.Has(provider.ByKey))
		require.False(t, c.Has(provider.ReplayKey), "without keys a replay is a second charge")
	}
	if c.Has(provider.WebhookOnly) {
		require.True(t, c.Webhooks)
		require.False(t, c.CanAsk(), "webhook_only means that there is nothing to ask")
	}
	seen := map[provider.Way]bool{}
	for _, w := range c.Ways {
		require.False(t, seen[w], "%s is declared twice", w)
		seen[w] = true
	}
}

func testFreeze(t *testing.T, h Harness) {
	a, _ := h.New(t)
	first, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	again, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	require.Equal(t, first, again, "the same request freezes to the same bytes")
	other, err := a.Freeze(h.request("p2"))
	require.NoError(t, err)
	require.NotEqual(t, first, other)

	refused := append([]provider.Money{
		{Amount: 0, Currency: h.Money.Currency},
		{Amount: -1, Currency: h.Money.Currency},
		{Amount: provider.MaxAmount + 1, Currency: h.Money.Currency},
		{Amount: 100, Currency: "XQQ"},
		{Amount: 100, Currency: ""},
	}, h.Refused...)
	for _, m := range refused {
		r := h.request("p1")
		r.Money = m
		_, err := a.Freeze(r)
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe, "%+v", m)
	}
	r := h.request("")
	_, err = a.Freeze(r)
	require.Error(t, err, "a charge without our reference could never be found again")
}

// meaning is what an answer has to be read as, by money-rules §3.
type meaning struct {
	outcome provider.Outcome
	health  provider.Verdict
	next    provider.Next // empty: any
	review  bool
	object  bool
	needs   func(provider.Capabilities) bool // nil: every dialect has such an answer
}

func hasKeys(c provider.Capabilities) bool { return c.IdempotencyKeys }

// meanings are those of the answers to any money call.
var meanings = map[Behaviour]meaning{
	Succeed: {provider.Succeeded, provider.HealthOK, provider.NextNone, false, true, nil},
	Accept:  {provider.Processing, provider.HealthOK, "", false, true, nil}, // 202 is reconciled, 200 "processing" waits

	Decline:         {provider.Failed, provider.HealthOK, provider.NextNone, false, false, nil},
	Reject:          {provider.Failed, provider.HealthNeutral, provider.NextNone, false, false, nil},
	Unauthorized:    {provider.NotExecuted, provider.HealthNeutral, provider.NextPause, false, false, nil},
	Throttle:        {provider.NotExecuted, provider.HealthNeutral, provider.NextSnooze, false, false, nil},
	KeyInUse:        {provider.Unknown, provider.HealthNeutral, provider.NextSnooze, false, false, hasKeys},
	KeyReused:       {provider.Unknown, provider.HealthNeutral, provider.NextReconcile, true, false, hasKeys},
	ServerError:     {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
	ChargeBadProxy:  {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
	ChargeCut:       {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
	ChargeTruncate:  {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
	ChargeHTML:      {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
	ChargeHang:      {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
	ChargeOtherSum:  {provider.Unknown, provider.HealthNeutral, provider.NextReconcile, true, true, nil},
	ChargeOddStatus: {provider.Unknown, provider.HealthNeutral, provider.NextReconcile, true, true, nil},
	Redirect:        {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
}

// with returns the common meanings and those of one kind of call.
func with(more map[Behaviour]meaning) map[Behaviour]meaning {
	all := maps.Clone(meanings)
	maps.Copy(all, more)
	return all
}

// requireMeaning checks a money call's result: one wire send, and read as it has to be.
func requireMeaning(t *testing.T, b Behaviour, want meaning, got provider.Charged) {
	t.Helper()
	require.Equal(t, 1, got.Exchange.WireSends)
	require.Equal(t, want.outcome, got.Outcome, "%+v", got.Classification)
	require.Equal(t, want.health, got.Health)
	if want.next != "" {
		require.Equal(t, want.next, got.Next)
	}
	require.Equal(t, want.review, got.Review != "")
	require.NotEmpty(t, got.Reason)
	if want.object {
		require.NotNil(t, got.Object)
		require.NotEmpty(t, got.Object.ID)
	}
	if b == Throttle {
		require.Equal(t, 7*time.Second, got.RetryAfter)
	}
	require.False(t, got.Exchange.FirstSentAt.IsZero())
	require.False(t, got.Exchange.DoneAt.Before(got.Exchange.StartedAt))
}

// testAnswers walks the behaviours. Whatever the provider does: one wire send, one
// arrival, and the meaning of money-rules §3.
func testAnswers(t *testing.T, h Harness) {
	for b, want := range with(map[Behaviour]meaning{
		AskCustomer: {provider.RequiresAction, provider.HealthOK, provider.NextNone, false, true, nil},
	}) {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			a, fake := h.New(t)
			if want.needs != nil && !want.needs(a.Capabilities()) {
				return // the dialect has no such answer
			}
			body, err := a.Freeze(h.request("p1"))
			require.NoError(t, err)
			// A warm connection first: on a fresh one net/http never resends.
			warm, err := a.Freeze(h.request("warm"))
			require.NoError(t, err)
			require.Equal(t, provider.Succeeded, a.Charge(t.Context(), "warm", warm, h.Money).Outcome)
			fake.Next(b)

			got := a.Charge(t.Context(), "k1", body, h.Money)

			require.Len(t, fake.Received(), 2)
			requireMeaning(t, b, want, got)
		})
	}
}

func testFrozenBytes(t *testing.T, h Harness) {
	a, fake := h.New(t)
	body, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	a.Charge(t.Context(), "k1", body, h.Money)
	got := fake.Received()
	require.Len(t, got, 1)
	require.Equal(t, string(body), string(got[0].Body), "what was frozen is what is sent")
	if a.Capabilities().IdempotencyKeys {
		require.Equal(t, "k1", got[0].Key)
	}
	require.Len(t, fake.Booked(), 1)
	require.Equal(t, h.Money, fake.Booked()[0].Money, "the provider's literal, not a value converted back by us")
	require.Equal(t, "p1", fake.Booked()[0].Reference)
}

// testKeys: the same key and bytes after a lost answer bring the first charge back.
func testKeys(t *testing.T, h Harness) {
	a, fake := h.New(t)
	if !a.Capabilities().IdempotencyKeys {
		return
	}
	body, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	fake.Next(ChargeCut)
	require.Equal(t, provider.Unknown, a.Charge(t.Context(), "k1", body, h.Money).Outcome)
	again := a.Charge(t.Context(), "k1", body, h.Money)
	require.Equal(t, provider.Succeeded, again.Outcome, "%+v", again.Classification)
	require.Len(t, fake.Booked(), 1)
	require.Equal(t, fake.Booked()[0].ID, again.Object.ID)
}

func testCancellation(t *testing.T, h Harness) {
	a, fake := h.New(t)
	body, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	fake.Next(ChargeHang)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for len(fake.Received()) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel(provider.ErrShutdown)
	}()
	got := a.Charge(ctx, "k1", body, h.Money)
	require.Equal(t, provider.Unknown, got.Outcome)
	require.Equal(t, provider.HealthNeutral, got.Health, "our own shutdown says nothing about the provider")

	got = a.Charge(ctx, "k2", body, h.Money)
	require.Equal(t, provider.NotSent, got.Outcome)
	require.Equal(t, provider.HealthNeutral, got.Health)
	require.Len(t, fake.Received(), 1)
}

func testParallel(t *testing.T, h Harness) {
	a, fake := h.New(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := fmt.Sprintf("p%d", i)
			body, err := a.Freeze(h.request(id))
			if err != nil {
				t.Error(err)
				return
			}
			got := a.Charge(t.Context(), "key-"+id, body, h.Money)
			assert.Equal(t, provider.Succeeded, got.Outcome)
			if assert.NotNil(t, got.Object) {
				assert.Equal(t, id, got.Object.Reference, "answers must not be mixed up")
			}
		})
	}
	wg.Wait()
	require.Len(t, fake.Booked(), 20)
}
