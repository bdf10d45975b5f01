package web

import (
	"log/slog"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"
	"riverqueue.com/riverui"

	"fusebox/store"
	"fusebox/views"
)

// riverPages are River's own pages on the test's database.
func riverPages(t *testing.T, w *webtest) JobPages {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(w.db.Pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	h, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil),
		Logger: slog.New(slog.DiscardHandler), Prefix: views.PathJobPages})
	require.NoError(t, err)
	return h
}

// lateJobPages are set after the server exists, because they need its database.
type lateJobPages struct{ JobPages }

// TestBrowserJobPages: River's pages work under their policy, which runs no inline script.
func TestBrowserJobPages(t *testing.T) {
	t.Parallel()
	late := &lateJobPages{}
	w := newWebtest(t, func(c *Config) { c.JobPages = late })
	late.JobPages = riverPages(t, w)
	w.db.Exec(t, `INSERT INTO river_job (state, kind, queue, args, max_attempts, scheduled_at)
		VALUES ('available', 'charge', 'charge_atlas', jsonb_build_object('payment_id', $1::text), 25, now())`, uuid.NewString())
	b := w.tab(w.serve(), store.RoleAdmin)
	b.Open("/queues")
	b.Open("/river/jobs?state=available")
	b.Sees(soon, "#root", "charge_atlas")
	require.Empty(t, b.Faults())
	if dir := os.Getenv("FUSEBOX_PICTURES"); dir != "" {
		b.Screenshot(dir, "river")
	}
}

// TestBrowserPause: a person pauses a queue in the dialog; every page says so.
func TestBrowserPause(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.Exec(t, `INSERT INTO river_queue (name, created_at, updated_at) VALUES ('charge_atlas', now(), now()), ('default', now(), now())`)
	b := w.tab(w.serve(), store.RoleOperator)
	b.Open("/queues/charge/atlas/pause")
	b.Fill("#reason", "their maintenance window")
	b.Click("form[data-once] button")
	b.Sees(soon, "main", "Paused by Olena")
	b.Open("/payments")
	b.Sees(soon, "body", "their maintenance window")
	require.Empty(t, b.Faults())
	if dir := os.Getenv("FUSEBOX_PICTURES"); dir != "" {
		for _, width := range []int64{1280, 360} {
			b.Picture(dir, "queues-paused", "/queues", "light", width)
			b.Picture(dir, "pause", "/queues/status/atlas/pause", "dark", width)
			b.Picture(dir, "audit", "/audit", "light", width)
		}
	}
}
