package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shop is an API whose one payment "held" is decided by the first capture or void, unless
// it fails the first time.
type shop struct {
	mu     sync.Mutex
	fails  int
	asked  []string
	status string
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPost:
		var body struct {
			Amount             int64
			ExpectedCapturable int64 `json:"expected_capturable"`
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || body.ExpectedCapturable != 4900 || body.Amount > 4900 {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.asked = append(s.asked, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		if s.fails--; s.fails < 0 {
			s.status = "succeeded"
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{}`)
	case strings.HasSuffix(r.URL.Path, "/captures"):
		fmt.Fprint(w, `{"capturable":4900}`)
	default:
		fmt.Fprintf(w, `{"status":%q}`, s.status)
	}
}

// TestDemoTrafficDecidesWhatIsHeld: every held payment is captured or let go in the end,
// also when the first capture failed.
func TestDemoTrafficDecidesWhatIsHeld(t *testing.T) {
	t.Parallel()
	s := &shop{status: "processing", fails: 1}
	srv := httptest.NewServer(s)
	defer srv.Close()
	tr := newTraffic(srv.URL, "key", []string{"steady", "never"}, 1, newLogger(config{LogLevel: "error"}))
	tr.holds = map[string]bool{"steady": true}
	manual := 0
	for range 1000 {
		if body, _ := tr.draw(); body["capture"] != nil {
			require.Equal(t, "steady", body["provider"])
			manual++
		}
	}
	require.InDelta(t, 500/holdEvery, manual, 25)
	tr.keepHeld(charged{"held", 4900})
	_, ok := tr.drawHeld()
	require.False(t, ok, "it is held for a while")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tr.decideAll(ctx)
	require.NoError(t, ctx.Err())
	require.Len(t, s.asked, 2)
	require.Empty(t, tr.held)
	actions := map[string]int{}
	for range 400 {
		action, body := tr.drawAction(4900)
		if body["amount"] != nil {
			action += " in part"
		}
		actions[action]++
	}
	require.Len(t, actions, 3)
}
