package stripe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// crowd books n charges of strangers, one a second from a moment on.
func (f *fake) crowd(from time.Time, n int) {
	for i := range n {
		id := fmt.Sprintf("x%d", len(f.Booked()))
		f.Book(provider.Object{ID: "pi_" + id, Reference: id, Outcome: provider.Succeeded,
			Money: asked, CreatedAt: from.Add(time.Duration(i) * time.Second)})
	}
}

// burst books n charges of strangers within one second.
func (f *fake) burst(n int, at time.Time) {
	for i := range n {
		f.Book(provider.Object{ID: fmt.Sprintf("pi_y%dx%d", at.Unix(), i), Reference: "y", Outcome: provider.Succeeded, Money: asked, CreatedAt: at})
	}
}

// paths are the questions asked so far, in order.
func (f *fake) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, u := range f.asked {
		out = append(out, strings.TrimPrefix(u.Path, "/v1/payment_intents"))
	}
	return out
}

// A charge far down the list of a busy account is found by reading the pages of the
// minutes in which it was sent, and only those.
func TestLookupReadsThePagesOfItsTime(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	sent := time.Now().Add(-48 * time.Hour)
	f.crowd(sent.Add(-2*time.Minute), 250)
	f.Book(provider.Object{ID: "pi_us", Reference: "p1", Outcome: provider.Succeeded, Money: asked, CreatedAt: sent})
	f.crowd(time.Now().Add(-time.Hour), 500) // later, and none of our business
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent.Add(time.Minute)})
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, provider.ByReference, got.Way)
	require.Equal(t, "pi_us", got.Objects[0].ID)
	require.Equal(t, []string{"", "", ""}, f.paths())
	require.Equal(t, 3, got.Requests)
	for _, u := range f.asked {
		require.Equal(t, unix(sent.Add(-5*time.Minute)), u.Query().Get("created[gte]"), "no more than the clocks may differ")
		require.Equal(t, unix(sent.Add(time.Minute+a.settings.AnswerTimeout+8*time.Minute)), u.Query().Get("created[lte]"), "and what is under way may take")
	}
}

// Absence is said only by a list that was read to its end.
func TestR01_AbsentOnlyWhenTheListWasReadWhole(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	sent := time.Now().Add(-time.Hour)
	q := provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent}
	f.crowd(sent, 250)
	got := a.Lookup(t.Context(), q)
	require.Equal(t, provider.LookupAbsent, got.Verdict, "%+v", got)
	require.Equal(t, provider.ByReference, got.Way)
	require.Equal(t, provider.HealthOK, got.Health)

	f.burst(listPages*pageSize-200, sent.Add(time.Minute))
	got = a.Lookup(t.Context(), q)
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.ReasonListIncomplete, got.Reason)
	require.Equal(t, provider.HealthOK, got.Health)
	paths := f.paths()
	require.Equal(t, "/search", paths[len(paths)-1], "the index was asked last, and its silence proves nothing")
	require.LessOrEqual(t, got.Requests, requests(a))
}

func requests(a *Adapter) int {
	_, n := a.settings.WorstCase(a.Capabilities())
	return n
}

// The search index is a hint: what it names is fetched and taken as it is now, and what
// it does not name is not absent.
func TestSearchIsAHint(t *testing.T) {
	t.Parallel()
	sent := time.Now().Add(-time.Hour)
	q := provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: sent, SentTo: sent}
	setup := func(t *testing.T) (*Adapter, *fake) {
		f := newFake(t)
		f.Book(provider.Object{ID: "pi_us", Reference: "p1", Outcome: provider.Succeeded, Money: asked, CreatedAt: sent})
		f.burst(listPages*pageSize+1, sent.Add(time.Minute))
		return f.adapter(t), f
	}
	t.Run("it knows", func(t *testing.T) {
		t.Parallel()
		a, f := setup(t)
		got := a.Lookup(t.Context(), q)
		require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
		require.Equal(t, provider.Succeeded, got.Objects[0].Outcome, "the index said processing")
		paths := f.paths()
		require.Equal(t, []string{"/search", "/pi_us"}, paths[len(paths)-2:])
	})
	t.Run("it does not know yet", func(t *testing.T) {
		t.Parallel()
		a, f := setup(t)
		f.unindexed = true
		require.Equal(t, provider.LookupNoAnswer, a.Lookup(t.Context(), q).Verdict)
	})
}

// With Stripe down, one lookup costs no more than is promised, whatever it knows.
func TestLookupKeepsItsBudget(t *testing.T) {
	t.Parallel()
	for _, b := range []providertest.AskBehaviour{providertest.AskDown, providertest.AskCut, providertest.AskForbidden, providertest.AskHTML} {
		f := newFake(t)
		a := f.adapter(t)
		f.Ask(b)
		got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: "pi_1", Want: asked})
		require.Equal(t, provider.LookupNoAnswer, got.Verdict)
		require.Equal(t, provider.ByID, got.Way)
		require.LessOrEqual(t, f.Questions(), provider.AskTries, "the first question's fate ends it")
	}
	require.Equal(t, 26, requests(newFake(t).adapter(t)))
}

// An id that Stripe gave once and now does not know is a contradiction, not an absence.
func TestAVanishedIDIsNoAbsence(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: "pi_gone", Want: asked})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.ReasonVanished, got.Reason)
}

// An id is data of theirs, and no way to another endpoint.
func TestAnIDIsNoPath(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	for _, id := range []string{"../balance", "a/b", "pi?x=1", "..", "pi 1", "pi%2f", strings.Repeat("p", 300)} {
		a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: id, Want: asked})
	}
	for _, p := range f.paths() {
		require.Empty(t, p, "only the list was asked")
	}
}

// Answers that are about something else, or cannot be read, prove nothing.
func TestStrangeAnswersToALookup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body    string
		verdict provider.LookupVerdict
	}{
		"of the other mode":    {`{"data":[` + said("livemode", true) + `],"has_more":false}`, provider.LookupAbsent},
		"ours, not decodable":  {`{"data":[{"id":"pi_1","amount":"x","metadata":{"payment_id":"p1"}}],"has_more":false}`, provider.LookupNoAnswer},
		"theirs, not decoding": {`{"data":[{"id":"pi_1","amount":"x"}],"has_more":false}`, provider.LookupAbsent},
		"more, and nothing":    {`{"data":[],"has_more":true}`, provider.LookupNoAnswer},
		"no data":              {`{"has_more":false}`, provider.LookupNoAnswer},
		"another time":         {`{"data":[` + said("created", 5) + `],"has_more":false}`, provider.LookupNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answering(t, http.StatusOK, tt.body)
			at := time.Unix(1_770_000_000, 0)
			got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked, SentFrom: at, SentTo: at})
			require.Equal(t, tt.verdict, got.Verdict, "%+v", got)
		})
	}
}

func TestWithoutAStatusAPINothingIsAsked(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t, func(s *provider.Settings) { s.NoStatusAPI = true })
	require.Equal(t, []provider.Way{provider.WebhookOnly}, a.Capabilities().Ways)
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: "pi_1"})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Zero(t, f.Questions())
}

// A sync reads a list that comes newest first from its oldest charge on, whole, however
// the charges lie in time.
func TestListFromTheOldestOn(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, times := range map[string][]int{ // seconds
		"nothing":              {},
		"even":                 {0, 60, 120, 180, 240, 300, 360, 420},
		"all in one second":    {500, 500, 500, 500, 500, 500, 500},
		"a burst in the quiet": {0, 500, 500, 500, 500, 500, 501, 501, 3599},
		"at the bounds":        {-1, 0, 3599, 3600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			a := f.adapter(t)
			want := map[string]bool{}
			for i, s := range times {
				id := fmt.Sprintf("pi_%d", i)
				f.Book(provider.Object{ID: id, Reference: id, Outcome: provider.Succeeded, Money: asked, CreatedAt: start.Add(time.Duration(s) * time.Second)})
				if s >= 0 && s < 3600 {
					want[id] = true
				}
			}
			got, last := map[string]bool{}, time.Time{}
			q := provider.ListQuery{From: start, To: start.Add(time.Hour), Limit: 3}
			for pages := 0; pages == 0 || q.Cursor != ""; pages++ {
				require.Less(t, pages, 30)
				page, err := a.List(t.Context(), q)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Objects), 3)
				for _, o := range page.Objects {
					require.False(t, o.CreatedAt.Before(last), "oldest first")
					require.False(t, got[o.ID], "each once")
					got[o.ID], last = true, o.CreatedAt
				}
				q.Cursor = page.Next
			}
			require.Equal(t, want, got)
		})
	}
}

// From the beginning of time one call cannot get far; the cursor carries it on.
func TestListWithoutBounds(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	f.crowd(time.Now().Add(-24*time.Hour), 30)
	var n int
	q := provider.ListQuery{Limit: 10}
	for calls := 0; calls == 0 || q.Cursor != ""; calls++ {
		require.Less(t, calls, 40)
		before := f.Questions()
		page, err := a.List(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, f.Questions()-before, listRequests)
		n += len(page.Objects)
		q.Cursor = page.Next
	}
	require.Equal(t, 30, n)
}

func TestListRefusesABadCursorAndAListThatIsNotWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	for _, c := range []string{"x", "1.2", "1.0.", "-1.1.", "1.x.", "1.1.a/b"} {
		_, err := a.List(t.Context(), provider.ListQuery{Cursor: c})
		require.ErrorContains(t, err, "cursor", c)
	}
	require.Zero(t, f.Questions())
	at := time.Unix(1_770_000_000, 0)
	q := provider.ListQuery{From: at, To: at.Add(time.Minute), Limit: 2}
	for name, body := range map[string]string{
		"another time": `{"data":[` + said("created", 5) + `],"has_more":false}`,
		"no id":        `{"data":[{"amount":1}],"has_more":false}`,
		"no data":      `{"object":"list"}`,
	} {
		_, err := answering(t, http.StatusOK, body).List(t.Context(), q)
		require.Error(t, err, name)
	}
	_, err := answering(t, http.StatusOK, `{"data":[],"has_more":true}`).List(t.Context(), provider.ListQuery{From: at, To: at.Add(time.Second)})
	require.ErrorContains(t, err, "does not move on")

	odd := answering(t, http.StatusOK, `{"data":[{"id":"pi_odd","amount":"x"}],"has_more":false}`)
	page, err := odd.List(t.Context(), q)
	require.NoError(t, err, "one that cannot be read does not stop a sync")
	require.Equal(t, "pi_odd", page.Objects[0].ID)
	require.Empty(t, page.Objects[0].Outcome)
}

// A cursor survives its text.
func TestCursorText(t *testing.T) {
	t.Parallel()
	for _, c := range []cursor{{at: 1, width: 2}, {at: 1_770_000_000, width: 1, after: "pi_a.b"}} {
		got, err := parseCursor(c.String(), 0, 0)
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
}

// Nothing of a test server's connections is left when an adapter is closed.
func TestClose(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{}) }))
	t.Cleanup(srv.Close)
	a, err := Build(provider.Settings{Name: "s", BaseURL: srv.URL, APIKey: testKey, WebhookSecrets: []string{testSecret}})
	require.NoError(t, err)
	require.Equal(t, "s", a.Name())
	a.(*Adapter).Close()
}
