package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLookups(t *testing.T) {
	t.Parallel()
	b := start(t)
	o := b.charge("k/1 &", one("p 1?", "order-9")).object(t)
	require.Equal(t, o, b.get("/payments/"+o.ID).object(t))
	require.Equal(t, []object{o}, b.found("/payments?reference="+url.QueryEscape("p 1?")))
	require.Equal(t, []object{o}, b.found("/payments?idempotency_key="+url.QueryEscape("k/1 &")))
	require.Equal(t, "order-9", o.OrderRef)

	a := b.get("/payments/pay_none")
	require.Equal(t, http.StatusNotFound, a.status)
	require.Equal(t, "not_found", a.problem(t).Code)
	a = b.get("/payments?reference=none")
	require.JSONEq(t, `{"data":[]}`, string(a.body))
	require.JSONEq(t, `{"data":[]}`, string(b.get("/payments?idempotency_key=none").body))
}

// pages reads a list to its end.
func (b *bench) pages(query string) (all []object, pages int) {
	b.t.Helper()
	cursor := ""
	for {
		a := b.get("/payments?" + query + "&cursor=" + url.QueryEscape(cursor))
		require.Equal(b.t, http.StatusOK, a.status, "%s", a.body)
		var p page
		require.NoError(b.t, json.Unmarshal(a.body, &p))
		require.NotNil(b.t, p.Next)
		all = append(all, p.Data...)
		pages++
		if *p.Next == "" {
			return all, pages
		}
		cursor = *p.Next
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	var minute atomic.Int64
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := start(t, func(o *Options) {
		o.Now = func() time.Time { return base.Add(time.Duration(minute.Load()) * time.Minute) }
	})
	for i := range 10 {
		minute.Store(int64(i / 2)) // two of each minute: ties in time
		b.charge(fmt.Sprint("k", i), one(fmt.Sprint("p", i), ""))
	}
	all, pages := b.pages("limit=3")
	require.Equal(t, 4, pages)
	require.Len(t, all, 10)
	seen := map[string]bool{}
	for i, o := range all {
		require.False(t, seen[o.ID])
		seen[o.ID] = true
		require.Equal(t, base.Add(time.Duration(i/2)*time.Minute), o.CreatedAt.UTC(), "oldest first")
	}
	// From is inclusive, to exclusive.
	stamp := func(m int) string {
		return url.QueryEscape(base.Add(time.Duration(m) * time.Minute).Format(time.RFC3339))
	}
	some, _ := b.pages("limit=1&created_from=" + stamp(1) + "&created_to=" + stamp(3))
	require.Equal(t, all[2:6], some)
	some, _ = b.pages("created_from=" + stamp(4))
	require.Equal(t, all[8:], some)
	some, _ = b.pages("created_to=" + stamp(0))
	require.Empty(t, some)
}

// A page of exactly the limit is the last one when nothing follows.
func TestListEndsExactly(t *testing.T) {
	t.Parallel()
	b := start(t)
	for i := range 4 {
		b.charge(fmt.Sprint("k", i), one(fmt.Sprint("p", i), ""))
	}
	all, pages := b.pages("limit=2")
	require.Len(t, all, 4)
	require.Equal(t, 2, pages)
}

// A charge that appears while a reader pages is on a later page, never lost.
func TestListWhileItGrows(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.charge("k1", one("p1", ""))
	b.charge("k2", one("p2", ""))
	var first page
	require.NoError(t, json.Unmarshal(b.get("/payments?limit=1").body, &first))
	b.charge("k3", one("p3", ""))
	var second page
	require.NoError(t, json.Unmarshal(b.get("/payments?limit=5&cursor="+*first.Next).body, &second))
	require.Len(t, second.Data, 2)
	require.Equal(t, "p3", second.Data[1].Reference)
}

func TestListRefusesBadQueries(t *testing.T) {
	t.Parallel()
	b := start(t)
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=201": "limit", "limit=x": "limit", "limit=1&limit=2": "limit",
		"created_from=yesterday": "created_from", "created_to=2026-13-01T00:00:00Z": "created_to",
		"cursor=%21": "cursor", "cursor=YWJj": "cursor", "status=succeeded": "status",
		"reference=a&status=b": "reference", "%zz": "",
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			a := b.get("/payments?" + query)
			require.Equal(t, http.StatusBadRequest, a.status, "%s", a.body)
			if query != "reference=a&status=b" { // names either
				require.Equal(t, field, a.problem(t).Field)
			}
		})
	}
}

func TestNoStatusAPI(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.NoStatusAPI = true })
	id := b.charge("k1", one("p1", "")).object(t).ID
	for _, path := range []string{"/payments", "/payments/" + id, "/payments?reference=p1", "/payments?idempotency_key=k1"} {
		a := b.get(path)
		require.Equal(t, http.StatusMethodNotAllowed, a.status, path)
		require.Equal(t, "POST", a.header.Get("Allow"))
	}
	require.Len(t, b.ledger("p1"), 1, "the ledger still tells an audit")
}

// the charge exists, and the provider does not see it yet.
func TestR01_Lag(t *testing.T) {
	t.Parallel()
	var hours atomic.Int64
	base := time.Now()
	b := start(t, func(o *Options) {
		o.Now = func() time.Time { return base.Add(time.Duration(hours.Load()) * time.Hour) }
	})
	id := b.charge("k1", one("p1", "fault:lookup_lag")).object(t).ID
	require.Equal(t, http.StatusNotFound, b.get("/payments/"+id).status)
	require.Empty(t, b.found("/payments?reference=p1"))
	require.Empty(t, b.found("/payments?idempotency_key=k1"))
	require.Empty(t, b.found("/payments?limit=10"))
	hours.Store(1)
	require.Equal(t, http.StatusOK, b.get("/payments/"+id).status)
	require.Len(t, b.found("/payments?reference=p1"), 1)
	require.Len(t, b.found("/payments?idempotency_key=k1"), 1)
	require.Len(t, b.found("/payments?limit=10"), 1)
}

// R-01, variant: the answer to any question is 404, lists included.
func TestR01_NotFound(t *testing.T) {
	t.Parallel()
	var hours atomic.Int64
	base := time.Now()
	b := start(t, func(o *Options) {
		o.Now = func() time.Time { return base.Add(time.Duration(hours.Load()) * time.Hour) }
	})
	a := b.charge("k1", one("p1", "fault:lookup_not_found,charged_then_502"))
	require.Equal(t, http.StatusBadGateway, a.status)
	for _, path := range []string{"/payments?reference=p1", "/payments?idempotency_key=k1"} {
		require.Equal(t, http.StatusNotFound, b.get(path).status)
	}
	require.Empty(t, b.found("/payments?limit=10"))
	hours.Store(1)
	require.Len(t, b.found("/payments?reference=p1"), 1)
}

func TestLookupsThatFail(t *testing.T) {
	t.Parallel()
	for fault, status := range map[Fault]int{LookupForbidden: http.StatusForbidden, LookupError: http.StatusServiceUnavailable} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			b := start(t)
			id := b.charge("k1", one("p1", "fault:"+string(fault)+"*2")).object(t).ID
			b.charge("k2", one("p2", "fault:"+string(fault)))
			for _, path := range []string{"/payments/" + id, "/payments?reference=p1", "/payments?idempotency_key=k1"} {
				require.Equal(t, status, b.get(path).status)
				require.Equal(t, status, b.get(path).status)
				require.Equal(t, http.StatusOK, b.get(path).status, "twice was ordered")
			}
			for range 4 {
				require.Equal(t, status, b.get("/payments?reference=p2").status, "without a number: always")
			}
		})
	}
}

// A fault of lookups also hits a payment that was never booked.
func TestLookupFaultWithoutCharge(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.Equal(t, http.StatusInternalServerError, b.charge("k1", one("p1", "fault:error_500,lookup_error")).status)
	require.Equal(t, http.StatusServiceUnavailable, b.get("/payments?reference=p1").status)
	require.Equal(t, http.StatusServiceUnavailable, b.get("/payments?idempotency_key=k1").status)
}

// By rate each lookup draws anew, so that asking again helps.
func TestLookupFaultsByRate(t *testing.T) {
	t.Parallel()
	b := start(t, faulty(map[Fault]float64{LookupError: 0.5}))
	b.charge("k1", one("p1", ""))
	counts := map[int]int{}
	for range 60 {
		counts[b.get("/payments?reference=p1").status]++
	}
	require.Greater(t, counts[http.StatusOK], 10)
	require.Greater(t, counts[http.StatusServiceUnavailable], 10)
	require.Equal(t, 60, b.Stats().Lookups)
}
