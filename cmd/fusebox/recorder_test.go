package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is an HTTP server that keeps the bodies posted to it.
type recorder struct {
	url    string
	mu     sync.Mutex
	bodies []string
}

func newRecorder(t *testing.T, status int) *recorder {
	t.Helper()
	r := &recorder{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err == nil {
			r.mu.Lock()
			r.bodies = append(r.bodies, string(b))
			r.mu.Unlock()
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// count is the number of bodies that contain part.
func (r *recorder) count(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.bodies {
		if strings.Contains(b, part) {
			n++
		}
	}
	return n
}

// scalar reads one integer from the database.
func (w *world) scalar(sql string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

func contains(s, part string) bool { return strings.Contains(s, part) }
