package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDemoTrafficGivesBackWhatWasPaid: refunds are of payments that were paid, all or a
// part, and each says what it was shown.
func TestDemoTrafficGivesBackWhatWasPaid(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []map[string]any
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet {
			status := "succeeded"
			if strings.HasSuffix(r.URL.Path, "/unknown") {
				status = "unknown"
			}
			fmt.Fprintf(w, `{"status":%q,"refundable":4900}`, status)
			return
		}
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) == nil && strings.HasSuffix(r.URL.Path, "/refunds") {
			mu.Lock()
			bodies = append(bodies, body)
			mu.Unlock()
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{}`)
	}))
	defer srv.Close()
	tr := newTraffic(srv.URL, "key", []string{"steady"}, 1, newLogger(config{LogLevel: "error"}))
	drawn := 0
	for i := range 1000 {
		tr.remember(charged{fmt.Sprint(i), 4900})
		if p, part, ok := tr.drawRefund(); ok {
			drawn++
			require.Less(t, part, p.amount)
		}
	}
	require.InDelta(t, 1000/refundEvery, drawn, 40)
	tr.giveBack(t.Context(), charged{"paid", 4900}, 0)
	tr.giveBack(t.Context(), charged{"paid", 4900}, 1633)
	tr.giveBack(t.Context(), charged{"unknown", 4900}, 0)
	require.Len(t, bodies, 2, "what may not have been paid is not given back")
	require.NotContains(t, bodies[0], "amount")
	require.InDelta(t, 1633, bodies[1]["amount"], 0)
	require.InDelta(t, 4900, bodies[0]["expected_refundable"], 0)
}
