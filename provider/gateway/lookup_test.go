package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var question1 = provider.LookupQuery{PaymentID: "p1", OperationKey: "k1", ProviderPaymentID: "pay_1", Want: asked}

// asking returns an adapter whose provider answers each question by what it asks for:
// "id", "key" or "reference".
func asking(t *testing.T, answers map[string]func(http.ResponseWriter)) (*Adapter, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var log []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := "id"
		if q := r.URL.Query(); q.Has("idempotency_key") {
			by = "key"
		} else if q.Has("reference") {
			by = "reference"
		}
		mu.Lock()
		log = append(log, by)
		mu.Unlock()
		answers[by](w)
	}))
	t.Cleanup(srv.Close)
	f := &fake{url: srv.URL}
	return f.adapter(t), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), log...)
	}
}

func says(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

const (
	pay1  = `{"id":"pay_1","reference":"p1","status":"succeeded","amount":4900,"currency":"EUR","idempotency_key":"k1","created_at":"2026-03-01T12:00:00Z"}`
	pay2  = `{"id":"pay_2","reference":"p1","status":"succeeded","amount":4900,"currency":"EUR","idempotency_key":"k9"}`
	other = `{"id":"pay_7","reference":"p7","status":"succeeded","amount":4900,"currency":"EUR","idempotency_key":"k7"}`
	none  = `{"data":[]}`
)

func listOf(payments ...string) string { return `{"data":[` + strings.Join(payments, ",") + `]}` }

func TestLookupCombinesTheWays(t *testing.T) {
	t.Parallel()
	found, nobody, gone, down := says(200, pay1), says(200, none), says(404, `{"error":{"code":"not_found"}}`), says(503, `{}`)
	for _, tt := range []struct {
		name               string
		id, key, reference func(http.ResponseWriter)
		verdict            provider.LookupVerdict
		way                provider.Way
		reason             string
		alert              string
		objects            int
		asked              string
	}{
		{"found by id, completed by reference", found, nobody, says(200, listOf(pay1)), provider.LookupFound, provider.ByID, provider.ReasonFound, "", 1, "id reference"},
		{"a duplicate shows by reference only", found, nobody, says(200, listOf(pay1, pay2)), provider.LookupFound, provider.ByID, provider.ReasonFound, "", 2, "id reference"},
		{"found stays found when the rest is down", found, nobody, down, provider.LookupFound, provider.ByID, provider.ReasonFound, "", 1, "id reference reference reference"},
		{"the key is forgotten, the reference is not", gone, nobody, says(200, listOf(pay1)), provider.LookupFound, provider.ByReference, provider.ReasonFound, "", 1, "id key reference"},
		{"an id once given has vanished", gone, nobody, nobody, provider.LookupNoAnswer, provider.ByReference, provider.ReasonVanished, "", 0, "id key reference"},
		{"half an absence is none", gone, nobody, down, provider.LookupNoAnswer, provider.ByReference, "http_503", "", 0, "id key reference reference reference"},
		{"down is asked by one way", down, nobody, nobody, provider.LookupNoAnswer, provider.ByID, "http_503", "", 0, "id id id"},
		{"forbidden ends the round", says(403, `{}`), found, found, provider.LookupNoAnswer, provider.ByID, provider.ReasonForbidden, provider.AlertConfig, 0, "id"},
		{"the id is another payment's", says(200, other), nobody, nobody, provider.LookupNoAnswer, provider.ByID, provider.ReasonFilterIgnored, provider.AlertContract, 0, "id"},
		{"an undecodable object", says(200, `{"id":"pay_1","amount":{}}`), nobody, nobody, provider.LookupNoAnswer, provider.ByID, provider.ReasonContract, provider.AlertContract, 0, "id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, log := asking(t, map[string]func(http.ResponseWriter){"id": tt.id, "key": tt.key, "reference": tt.reference})
			got := a.Lookup(t.Context(), question1)
			require.Equal(t, tt.verdict, got.Verdict, "%+v", got)
			require.Equal(t, tt.way, got.Way)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.alert, got.Alert)
			require.Len(t, got.Objects, tt.objects)
			require.Equal(t, tt.asked, strings.Join(log(), " "))
			require.Equal(t, len(log()), got.Requests)
		})
	}
}

func TestLookupByKeyAndReference(t *testing.T) {
	t.Parallel()
	q := question1
	q.ProviderPaymentID = ""
	for _, tt := range []struct {
		name           string
		key, reference string
		verdict        provider.LookupVerdict
		objects        int
	}{
		{"absent by both", none, none, provider.LookupAbsent, 0},
		{"found by key", listOf(pay1), listOf(pay1), provider.LookupFound, 1},
		{"the filter is ignored", listOf(other), listOf(other), provider.LookupNoAnswer, 0},
		{"strangers among ours", listOf(other, pay1), listOf(pay1, other), provider.LookupFound, 1},
		{"empty with more to come", `{"data":[],"next":"2"}`, none, provider.LookupNoAnswer, 0},
		{"no list at all", `{}`, none, provider.LookupNoAnswer, 0},
		{"data is null", `{"data":null}`, none, provider.LookupNoAnswer, 0},
		{"an object without an id", `{"data":[{"reference":"p1"}]}`, none, provider.LookupNoAnswer, 0},
		{"a word we do not know", listOf(strings.Replace(pay1, "succeeded", "settling", 1)), none, provider.LookupFound, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := asking(t, map[string]func(http.ResponseWriter){"key": says(200, tt.key), "reference": says(200, tt.reference)})
			got := a.Lookup(t.Context(), q)
			require.Equal(t, tt.verdict, got.Verdict, "%+v", got)
			require.Len(t, got.Objects, tt.objects)
			if strings.Contains(tt.key, "settling") {
				require.Empty(t, got.Objects[0].Outcome, "stays unmapped")
				require.Equal(t, "settling", got.Objects[0].Status)
			}
		})
	}
}

func TestLookupWithNothingToAskBy(t *testing.T) {
	t.Parallel()
	got := newFake(t).adapter(t).Lookup(t.Context(), provider.LookupQuery{})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, provider.ReasonNoWay, got.Reason)
	require.Zero(t, got.Requests)
}

// A provider's id is hostile until it has proved to be one path segment.
func TestAnIDCannotLeadTheRequestElsewhere(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"..", ".", "a/b", "../refunds", "a?b=c", "a#b", "a%2fb", "a b", "é", ""} {
		require.False(t, pathSafe(id), id)
	}
	for _, id := range []string{"pay_1", "tr_7UhSN1zuXS", "8835205393394754", "a.b~c:d-e"} {
		require.True(t, pathSafe(id), id)
	}
}

// The worst case printed at start is what the provider sees.
func TestLookupStaysWithinItsWorstCase(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	_, worst := f.settings().WorstCase(a.Capabilities())
	require.Equal(t, 9, worst)
	f.Ask(providertest.AskCut)
	got := a.Lookup(t.Context(), question1)
	require.LessOrEqual(t, f.Questions(), worst)
	require.Equal(t, f.Questions(), got.Requests)
}

func TestListPages(t *testing.T) {
	t.Parallel()
	page := func(body string) (provider.Page, error) {
		a, _ := answering(t, 200, jsonType, body)
		return a.List(t.Context(), provider.ListQuery{Cursor: "c1"})
	}
	got, err := page(listOf(pay1, `{"id":"pay_3","amount":{"value":1},"card":"4111111111111111"}`))
	require.NoError(t, err)
	require.Len(t, got.Objects, 2)
	require.Equal(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), got.Objects[0].CreatedAt)
	odd := got.Objects[1]
	require.Equal(t, "pay_3", odd.ID, "one payment we cannot read must not stop the sync for good")
	require.Empty(t, odd.Outcome)
	require.True(t, json.Valid(odd.Raw))
	require.NotContains(t, string(odd.Raw), "4111111111111111")

	for _, bad := range []string{`{}`, `{"data":[{"status":"succeeded"}]}`, `{"data":[1]}`, `{"data":[],"next":"c1"}`, `{"data":[`, `<html>`} {
		got, err := page(bad)
		require.Error(t, err, bad)
		require.NotEqual(t, provider.HealthOK, got.Health, bad)
		require.Empty(t, got.Objects)
	}
	a, _ := answering(t, 404, jsonType, `{}`)
	_, err = a.List(t.Context(), provider.ListQuery{})
	require.Error(t, err, "a missing list is no empty list")
}

func TestListQuery(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("", 3600))
	require.Equal(t, "created_from=2026-03-01T11%3A00%3A00.000000005Z&created_to=2026-03-01T12%3A00%3A00.000000005Z&cursor=c&limit=200",
		listQuery(provider.ListQuery{From: from, To: from.Add(time.Hour), Cursor: "c", Limit: 1000}).Encode())
	require.Equal(t, "limit=100", listQuery(provider.ListQuery{}).Encode())
}
