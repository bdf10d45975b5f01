package providertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// lost makes a charge whose answer is lost, and returns the question to ask about it.
func (h Harness) lost(t *testing.T, a provider.Adapter, fake Fake) provider.LookupQuery {
	t.Helper()
	body, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	fake.Next(ChargeCut)
	require.Equal(t, provider.Unknown, a.Charge(t.Context(), "k1", body, h.Money).Outcome)
	return provider.LookupQuery{PaymentID: "p1", OperationKey: "k1", Want: h.Money}
}

// requests is the most one lookup may cost.
func requests(a provider.Adapter) int {
	_, n := provider.Settings{}.WorstCase(a.Capabilities())
	return n
}

func testLookupFound(t *testing.T, h Harness) {
	a, fake := h.New(t)
	q := h.lost(t, a, fake)
	if !a.Capabilities().CanAsk() {
		requireNothingToAsk(t, a, fake, q)
		return
	}
	got := a.Lookup(t.Context(), q)
	requireFound(t, h, fake, got)
	require.Equal(t, fake.Questions(), got.Requests)
	require.LessOrEqual(t, got.Requests, requests(a))

	q.ProviderPaymentID = fake.Booked()[0].ID
	requireFound(t, h, fake, a.Lookup(t.Context(), q))
}

func requireFound(t *testing.T, h Harness, fake Fake, got provider.LookedUp) {
	t.Helper()
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, provider.HealthOK, got.Health)
	require.NotEmpty(t, got.Way)
	require.Len(t, got.Objects, 1, "one charge is one object, however many ways found it")
	o, booked := got.Objects[0], fake.Booked()[0]
	require.Equal(t, booked.ID, o.ID)
	require.Equal(t, provider.Succeeded, o.Outcome)
	require.Equal(t, h.Money, o.Money)
	require.NotEmpty(t, o.Raw)
}

func requireNothingToAsk(t *testing.T, a provider.Adapter, fake Fake, q provider.LookupQuery) {
	t.Helper()
	got := a.Lookup(t.Context(), q)
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.HealthNeutral, got.Health)
	require.Zero(t, got.Requests)
	require.Zero(t, fake.Questions())
}

func testLookupAbsent(t *testing.T, h Harness) {
	a, fake := h.New(t)
	if !a.Capabilities().CanAsk() {
		return
	}
	fake.Book(provider.Object{ID: "other", Reference: "someone-else", Status: "", Outcome: provider.Succeeded, Money: h.Money, CreatedAt: time.Now()})
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", OperationKey: "k1", Want: h.Money})
	if a.Capabilities().NeverAbsent {
		require.Equal(t, provider.LookupNoAnswer, got.Verdict, "its silence proves nothing: %+v", got)
		require.NotEmpty(t, got.Reason)
		require.Empty(t, got.Objects)
		return
	}
	require.Equal(t, provider.LookupAbsent, got.Verdict, "%+v", got)
	require.Equal(t, provider.HealthOK, got.Health)
	require.Empty(t, got.Objects)
}

// testLookupNoAnswer: what proves nothing must never read as absence.
func testLookupNoAnswer(t *testing.T, h Harness) {
	for b, health := range map[AskBehaviour]provider.Verdict{
		AskForbidden: provider.HealthNeutral,
		AskDown:      provider.HealthFail,
		AskHTML:      provider.HealthFail,
		AskCut:       provider.HealthFail,
		AskAll:       provider.HealthNeutral,
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			a, fake := h.New(t)
			if !a.Capabilities().CanAsk() {
				return
			}
			fake.Book(provider.Object{ID: "other", Reference: "someone-else", OperationKey: "other-key", Outcome: provider.Succeeded, Money: h.Money, CreatedAt: time.Now()})
			fake.Ask(b)
			got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", OperationKey: "k1", Want: h.Money})
			require.Equal(t, provider.LookupNoAnswer, got.Verdict, "%+v", got)
			require.Equal(t, health, got.Health)
			require.NotEmpty(t, got.Reason)
			require.Empty(t, got.Objects)
			require.LessOrEqual(t, fake.Questions(), requests(a))
			require.Equal(t, fake.Questions(), got.Requests)
			if b == AskForbidden {
				require.Equal(t, provider.AlertConfig, got.Alert)
			}
		})
	}
}

// testDuplicates: two charges under one reference are both reported.
func testDuplicates(t *testing.T, h Harness) {
	a, fake := h.New(t)
	q := h.lost(t, a, fake)
	if !a.Capabilities().Has(provider.ByReference) {
		return
	}
	fake.Book(provider.Object{ID: "dup", Reference: "p1", OperationKey: "another", Outcome: provider.Succeeded, Money: h.Money, CreatedAt: time.Now()})
	for _, id := range []string{"", fake.Booked()[0].ID} {
		q.ProviderPaymentID = id
		got := a.Lookup(t.Context(), q)
		require.Equal(t, provider.LookupFound, got.Verdict)
		require.Len(t, got.Objects, 2)
		require.NotEqual(t, got.Objects[0].ID, got.Objects[1].ID)
	}
}

func testList(t *testing.T, h Harness) {
	a, fake := h.New(t)
	if !a.Capabilities().Listing {
		return
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 7 {
		fake.Book(provider.Object{
			ID: fmt.Sprintf("l%d", i), Reference: fmt.Sprintf("p%d", i), Outcome: provider.Succeeded,
			Money: h.Money, CreatedAt: start.Add(time.Duration(i) * time.Minute),
		})
	}
	q := provider.ListQuery{From: start.Add(time.Minute), To: start.Add(6 * time.Minute), Limit: 2}
	var ids []string
	for {
		page, err := a.List(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, provider.HealthOK, page.Health)
		require.LessOrEqual(t, len(page.Objects), 2)
		for _, o := range page.Objects {
			require.Equal(t, h.Money, o.Money)
			require.False(t, o.CreatedAt.IsZero())
			ids = append(ids, o.ID)
		}
		if page.Next == "" {
			break
		}
		require.NotEqual(t, q.Cursor, page.Next)
		q.Cursor = page.Next
	}
	require.Equal(t, []string{"l1", "l2", "l3", "l4", "l5"}, ids, "oldest first; lower bound inclusive, upper exclusive")

	for b, health := range map[AskBehaviour]provider.Verdict{AskForbidden: provider.HealthNeutral, AskDown: provider.HealthFail, AskHTML: provider.HealthFail} {
		fake.Ask(b)
		page, err := a.List(t.Context(), provider.ListQuery{Limit: 2})
		require.Error(t, err, b)
		require.Equal(t, health, page.Health, b)
		require.Empty(t, page.Objects)
	}
}
