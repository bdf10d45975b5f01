package paypal

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

func (f *fake) ours(id string, at time.Time) {
	f.Book(provider.Object{ID: id, Reference: "p1", Outcome: provider.Succeeded, Money: asked49, CreatedAt: at})
}

func TestLookupSearchesTheTimeOfTheSend(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	sent := time.Now().Add(-40 * 24 * time.Hour)
	f.ours("ORD1", sent)
	for i := range 5 {
		f.Book(provider.Object{ID: fmt.Sprintf("X%d", i), Reference: "someone-else", Outcome: provider.Succeeded, Money: asked49, CreatedAt: sent})
	}
	f.pageSize = 2
	a := f.adapter(t)
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: sent, SentTo: sent})
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, provider.ByReference, got.Way)
	require.Equal(t, "ORD1", got.Objects[0].ID, "the order, not its capture")
	require.Equal(t, "COMPLETED", got.Objects[0].Status)
	require.Equal(t, 4, got.Requests, "three pages and one capture")

	got = a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict, "sent nobody knows when")
	require.Equal(t, reasonLags, got.Reason)
}

// the search does not know yet, or never will: that is no absence, ever.
func TestR01_TheSearchsSilenceProvesNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.ours("ORD1", time.Now())
	f.unindexed = true
	a := f.adapter(t)
	require.True(t, a.Capabilities().NeverAbsent)
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: time.Now().Add(-48 * time.Hour), SentTo: time.Now()})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.Equal(t, reasonLags, got.Reason)
	require.Equal(t, provider.HealthOK, got.Health)

	got = a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: "GONE", Want: asked49})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	got = a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", ProviderPaymentID: "ORD1", Want: asked49})
	require.Equal(t, provider.LookupFound, got.Verdict)
	require.Equal(t, provider.ByID, got.Way)
}

// A lookup costs no more than it says, however long the search is.
func TestALookupIsBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for i := range 50 {
		f.Book(provider.Object{ID: fmt.Sprintf("X%d", i), Reference: "someone-else", Outcome: provider.Succeeded, Money: asked49, CreatedAt: time.Now()})
	}
	f.pageSize = 1
	a := f.adapter(t)
	_, most := f.settings().WorstCase(a.Capabilities())
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49})
	require.Equal(t, provider.LookupNoAnswer, got.Verdict)
	require.LessOrEqual(t, got.Requests, most)
}

func TestLookupsThatProveNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body   string
		reason string
	}{
		"no list":       {`{"total_pages":1}`, provider.ReasonContract},
		"another shape": {`{"transaction_details":{}}`, provider.ReasonContract},
		"not JSON":      {`<html>`, provider.ReasonNotJSON},
		"of old times":  {`{"transaction_details":[{"transaction_info":{"transaction_id":"X","transaction_initiation_date":"2014-07-04T12:13:49+0000"}}]}`, provider.ReasonFilterIgnored},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newFake(t).adapter(t)
			_, err := a.tokens.get(t.Context())
			require.NoError(t, err)
			a.caller = answering(t, http.StatusOK, tt.body)
			got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49})
			require.Equal(t, provider.LookupNoAnswer, got.Verdict)
			require.Equal(t, tt.reason, got.Reason)
		})
	}
}

// Only payments count: a refund carries our reference too.
func TestTheSearchNamesPayments(t *testing.T) {
	t.Parallel()
	p, ans := readFound([]byte(`{"transaction_details":[
		{"transaction_info":{"transaction_id":"A","transaction_event_code":"T1107","custom_field":"p1"}},
		{"transaction_info":{"transaction_id":"B","transaction_event_code":"T0006","custom_field":"p2"}},
		{"transaction_info":{"transaction_id":"C","transaction_event_code":"T0013","custom_field":"P1"}},
		{"transaction_info":{"transaction_id":"../D","transaction_event_code":"T0006","custom_field":"p1"}},
		{"transaction_info":{"transaction_id":"E","custom_field":"p1"}}]}`), time.Now(), time.Now())
	require.Equal(t, provider.LookupAnswer{}, ans)
	require.Equal(t, []string{"C", "E"}, p.naming("p1", codePayment))
	require.Empty(t, p.naming("p1", codeHold))
}

// A capture of somebody else's under our reference's transaction is no answer.
func TestAnotherCaptureThanNamed(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"id":"OTHER","status":"COMPLETED","custom_id":"p1","supplementary_data":{"related_ids":{"order_id":"O1"}}}`,
		`{"id":"CAP-1","status":"COMPLETED","custom_id":"p2","supplementary_data":{"related_ids":{"order_id":"O1"}}}`,
		`{"id":"CAP-1","status":"COMPLETED","custom_id":"p1"}`,
	} {
		a := newFake(t).adapter(t)
		a.caller = answering(t, http.StatusOK, body)
		l := lookup{Adapter: a, ctx: t.Context(), q: provider.LookupQuery{PaymentID: "p1"}, most: 10}
		require.False(t, l.byCapture("CAP-1"), body)
		require.Empty(t, l.Objects)
	}
}

func TestThereIsNoList(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	require.False(t, a.Capabilities().Listing)
	_, err := a.List(t.Context(), provider.ListQuery{})
	require.ErrorIs(t, err, errNoList)
}
