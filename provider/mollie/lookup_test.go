package mollie

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// crowd books n strangers' payments, a second apart, from a moment on.
func (f *fake) crowd(n int, from time.Time) {
	for i := range n {
		f.Book(provider.Object{
			ID: fmt.Sprintf("tr_x%dx%d", from.Unix(), i), Reference: "someone-else", Outcome: provider.Succeeded,
			Money: asked49, CreatedAt: from.Add(time.Duration(i) * time.Second),
		})
	}
}

func (f *fake) ours(id string, at time.Time) {
	f.Book(provider.Object{ID: id, Reference: "p1", Outcome: provider.Succeeded, Money: asked49, CreatedAt: at})
}

func TestLookupReadsBackToTheSend(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.page = 20
	f.ours("tr_old", noon.Add(-24*time.Hour)) // of another life: not in the stretch
	f.crowd(30, noon.Add(-time.Hour))
	f.ours("tr_1", noon)
	f.crowd(50, noon.Add(time.Minute))
	q := provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: noon, SentTo: noon}
	got := f.adapter(t).Lookup(t.Context(), q)
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, provider.ByReference, got.Way)
	require.Len(t, got.Objects, 1)
	require.Equal(t, "tr_1", got.Objects[0].ID)
	require.Equal(t, 3, got.Requests, "no further back than the send")
}

// Absence is the word of a stretch that was read whole, and of nothing less.
func TestAbsenceNeedsTheWholeStretch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		crowd    int
		sent     time.Time
		page     int
		verdict  provider.LookupVerdict
		requests int
	}{
		"read whole":              {50, noon, 20, provider.LookupAbsent, 3},
		"too long":                {800, noon, 20, provider.LookupNoAnswer, 20},
		"sent nobody knows when":  {50, time.Time{}, 20, provider.LookupAbsent, 4},
		"and too long":            {800, time.Time{}, 20, provider.LookupNoAnswer, 20},
		"the beginning is beyond": {0, noon, 20, provider.LookupAbsent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.page = tt.page
			f.crowd(20, noon.Add(-time.Hour))
			f.crowd(tt.crowd, noon)
			got := f.adapter(t).Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: tt.sent, SentTo: tt.sent})
			require.Equal(t, tt.verdict, got.Verdict, "%+v", got)
			require.Equal(t, tt.requests, got.Requests)
			if tt.verdict == provider.LookupNoAnswer {
				require.Equal(t, provider.ReasonListIncomplete, got.Reason)
			}
		})
	}
}

// An id Mollie once gave and now does not know is no absence.
func TestAVanishedIDIsNoAbsence(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	got := f.adapter(t).Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: "tr_gone", Want: asked49, SentFrom: noon})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.ReasonVanished, got.Reason)

	a := answering(t, http.StatusGone, `{"status":410,"title":"Gone"}`)
	got = a.Lookup(t.Context(), provider.LookupQuery{ProviderPaymentID: "tr_gone", Want: asked49})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.ReasonNotFound, got.Reason)
	require.Equal(t, provider.HealthOK, got.Health)
}

func TestLookupsThatProveNothing(t *testing.T) {
	t.Parallel()
	list := func(entries, links string) string {
		return `{"count":1,"_embedded":{"payments":[` + entries + `]},"_links":{` + links + `}}`
	}
	next := func(href string) string { return `"next":{"href":"` + href + `"}` }
	for name, tt := range map[string]struct {
		body   string
		reason string
	}{
		"no list":                      {`{"count":0}`, provider.ReasonContract},
		"another shape":                {`{"_embedded":{"payments":{}}}`, provider.ReasonContract},
		"ours, unreadable":             {list(said("amount", 49), ""), provider.ReasonContract},
		"in no order":                  {list(said("metadata", nil)+","+said("metadata", nil, "createdAt", "2030-01-01T00:00:00+00:00"), ""), provider.ReasonContract},
		"a next page nobody can name":  {list(said("metadata", nil), next("https://evil.example/")), provider.ReasonContract},
		"the same page over and over":  {list(said("metadata", nil), next("https://api.mollie.com/v2/payments?from=tr_1")), provider.ReasonListIncomplete},
		"another page than was wanted": {list(said("metadata", nil), next("https://api.mollie.com/v2/payments?from=tr_2")), provider.ReasonFilterIgnored},
		"not JSON":                     {`<html>`, provider.ReasonNotJSON},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := answering(t, http.StatusOK, tt.body).Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49})
			require.Equal(t, provider.LookupNoAnswer, got.Verdict, "%+v", got)
			require.Equal(t, tt.reason, got.Reason)
		})
	}
	got := answering(t, http.StatusNotFound, `{"status":404}`).Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1"})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict, "a list that is not there is no empty list")
	require.Equal(t, provider.AlertContract, got.Alert)
}

// One stranger's payment that cannot be read does not hide ours.
func TestAStrangersOddPaymentIsPassedOver(t *testing.T) {
	t.Parallel()
	body := `{"_embedded":{"payments":[` + said("id", "tr_9", "metadata", nil, "amount", 1) + "," + said() + `]},"_links":{}}`
	got := answering(t, http.StatusOK, body).Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49})
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, "tr_1", got.Objects[0].ID)

	page, err := answering(t, http.StatusOK, body).List(t.Context(), provider.ListQuery{})
	require.NoError(t, err)
	require.Len(t, page.Objects, 2)
	require.Empty(t, page.Objects[0].Outcome, "listed by its id, without a meaning")
}

// all reads a sync's window to its end.
func all(t *testing.T, a *Adapter, q provider.ListQuery) (ids []string, pages int) {
	t.Helper()
	for {
		page, err := a.List(t.Context(), q)
		require.NoError(t, err)
		pages++
		for _, o := range page.Objects {
			ids = append(ids, o.ID)
		}
		if page.Next == "" {
			return ids, pages
		}
		require.NotEqual(t, q.Cursor, page.Next)
		q.Cursor = page.Next
	}
}

func TestListSeeksItsBeginning(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.page = 10
	f.crowd(300, noon)
	a := f.adapter(t)
	q := provider.ListQuery{From: noon.Add(10 * time.Second), To: noon.Add(45 * time.Second), Limit: 10}
	ids, pages := all(t, a, q)
	require.Len(t, ids, 35)
	require.Equal(t, fmt.Sprintf("tr_x%dx10", noon.Unix()), ids[0], "lower bound inclusive")
	require.Equal(t, fmt.Sprintf("tr_x%dx44", noon.Unix()), ids[34], "upper bound exclusive")
	require.Greater(t, pages, 4, "a long way back takes several calls")

	ids, pages = all(t, a, provider.ListQuery{From: noon.Add(time.Hour), To: noon.Add(2 * time.Hour)})
	require.Empty(t, ids)
	require.Equal(t, 1, pages)
	ids, _ = all(t, a, provider.ListQuery{To: noon.Add(5 * time.Second)})
	require.Len(t, ids, 5)
	ids, _ = all(t, newFake(t).adapter(t), provider.ListQuery{From: noon})
	require.Empty(t, ids)
}

// A payment made while a sync reads neither hides nor repeats another.
func TestListIsSteadyWhilePaymentsAreMade(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.crowd(9, noon)
	a := f.adapter(t)
	q := provider.ListQuery{From: noon, To: noon.Add(time.Hour), Limit: 4}
	seen := map[string]int{}
	for i := 0; ; i++ {
		page, err := a.List(t.Context(), q)
		require.NoError(t, err)
		for _, o := range page.Objects {
			seen[o.ID]++
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
		f.ours(fmt.Sprintf("tr_late%d", i), noon.Add(time.Minute+time.Duration(i)*time.Second))
		require.Less(t, i, 10)
	}
	require.GreaterOrEqual(t, len(seen), 9)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
}

func TestListRefusesWhatItCannotTrust(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"x", "on.", "on.tr_1.2", "back.tr_1", "on.tr/1", "back.a.b.c"} {
		_, err := newFake(t).adapter(t).List(t.Context(), provider.ListQuery{Cursor: c})
		require.ErrorContains(t, err, "cursor", c)
	}
	f := newFake(t)
	f.crowd(5, noon)
	f.Ask(providertest.AskAll)
	a := f.adapter(t)
	_, err := a.List(t.Context(), provider.ListQuery{Cursor: "on.tr_nowhere", Limit: 2})
	require.ErrorContains(t, err, "does not begin at the payment asked for")
}
