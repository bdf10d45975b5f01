package web

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

// PauseQueue and ResumeQueue make the recorder a store.QueueSwitch.
func (r *recorder) PauseQueue(_ context.Context, _ pgx.Tx, queue string) error {
	return r.add("pause", queue)
}

func (r *recorder) ResumeQueue(_ context.Context, _ pgx.Tx, queue string) error {
	return r.add("resume", queue)
}

// TestPauseAndResume: one click pauses once, everybody is told who did it, the second of
// two operators learns that they came late, and the time it ends is kept.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.Exec(t, `INSERT INTO river_queue (name, created_at, updated_at) VALUES ('status_atlas', now(), now())`)
	since := storetest.Epoch
	w.db.SeedPayment(t, func(p *store.Payment) { p.Provider, p.Status, p.UnknownSince = "atlas", store.Unknown, &since })
	b, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	const path = "/queues/status/atlas/pause"
	require.Contains(t, b.get("/queues").body, `href="`+path+`"`)
	page := b.get(path).body
	require.Contains(t, page, "1 payment is unknown at atlas now")

	form := url.Values{"action_id": {uuid.NewString()}, "for": {"1h"}, "reason": {"they deploy"}}
	require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode)
	require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode, "twice is once")
	require.Equal(t, 1, w.jobs.count("pause"))
	require.Len(t, w.audits("queue.pause"), 1)
	late := second.post(path, url.Values{"action_id": {uuid.NewString()}, "for": {"4h"}, "reason": {"me too"}})
	require.Equal(t, http.StatusConflict, late.StatusCode)
	require.Contains(t, late.body, "Olena paused this queue at")
	require.Contains(t, w.signedIn(store.RoleSupport).get("/").body, "they deploy", "a banner on every page")
	require.Contains(t, second.get("/queues").body, "Paused by Olena since")

	list, err := w.store.QueuePauses(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.WithinDuration(t, w.clock.now().Add(time.Hour), *list[0].Until, time.Second)

	const resume = "/queues/status/atlas/resume"
	seen := list[0].At.UTC().Format(time.RFC3339Nano)
	require.Contains(t, b.get(resume).body, seen)
	stale := b.post(resume, url.Values{"action_id": {uuid.NewString()}, "seen": {"2020-01-01T00:00:00Z"}, "reason": {"over"}})
	require.Equal(t, http.StatusConflict, stale.StatusCode, "another pause than the one that stands")
	done := b.post(resume, url.Values{"action_id": {uuid.NewString()}, "seen": {seen}, "reason": {"over"}})
	require.Equal(t, http.StatusSeeOther, done.StatusCode)
	require.Equal(t, 1, w.jobs.count("resume"))
	require.Contains(t, b.get(resume).body, "This queue is not paused.")
}

// TestPauseRefuses what is wrong, and those who may not.
func TestPauseRefuses(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleOperator)
	const path = "/queues/charge/atlas/pause"
	for name, form := range map[string]url.Values{
		"no reason": {"action_id": {uuid.NewString()}, "for": {"1h"}},
		"odd time":  {"action_id": {uuid.NewString()}, "for": {"3h"}, "reason": {"x"}},
	} {
		require.Equal(t, http.StatusUnprocessableEntity, b.post(path, form).StatusCode, name)
	}
	require.Equal(t, http.StatusBadRequest, b.post(path, url.Values{"for": {"1h"}, "reason": {"x"}}).StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/queues/default/atlas/pause").StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/queues/charge/nobody/pause").StatusCode)
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleSupport).get(path).StatusCode)
	require.Zero(t, w.jobs.count("pause"))
}

// jobPagesFake answers everything and counts its starts.
type jobPagesFake struct{ starts int }

func (f *jobPagesFake) Start(context.Context) error { f.starts++; return nil }
func (f *jobPagesFake) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "jobs")
}

// TestJobPages: admins read them, nobody changes anything there, and their background
// work begins with the first look.
func TestJobPages(t *testing.T) {
	t.Parallel()
	f := &jobPagesFake{}
	w := newWebtest(t, func(c *Config) { c.JobPages = f })
	admin := w.signedIn(store.RoleAdmin)
	require.Contains(t, admin.get("/queues").body, `href="/river/"`)
	require.Zero(t, f.starts)
	for range 2 {
		res := admin.get("/river/api/jobs")
		require.Equal(t, "jobs", res.body)
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "script-src 'self';", "no inline script")
	}
	require.Equal(t, 1, f.starts)
	require.Equal(t, contentPolicy, admin.get("/queues").Header.Get("Content-Security-Policy"), "no other page is loosened")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		res := admin.send(method, "/river/api/jobs/retry", url.Values{}, nil)
		require.Equal(t, http.StatusForbidden, res.StatusCode, method)
		require.Contains(t, res.body, "only show")
	}
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleOperator).get("/river/").StatusCode)
	require.NotContains(t, w.signedIn(store.RoleOperator).get("/queues").body, "/river")
	require.Equal(t, http.StatusSeeOther, w.stranger().get("/river/").StatusCode)
}

// TestAuditTabs: a command line's action is a person's; a tab and a file show the same.
func TestAuditTabs(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	for _, actor := range []string{"user:" + b.user.ID.String(), "system:cli:root", "client:shop", "system:charge"} {
		w.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target, reason) VALUES ($1, $2, 'a.b', 'payment:1', $3)`,
			w.clock.now(), actor, "=by "+actor)
	}
	for query, want := range map[string][]string{
		"":                                       {"user:", "system:cli:root"},
		"?who=clients":                           {"client:shop"},
		"?who=engine":                            {"system:charge"},
		"?who=all":                               {"user:", "system:cli:root", "client:shop", "system:charge"},
		"?actor=system:cli:root":                 {"system:cli:root"},
		"?who=all&from=2020-01-01&to=2020-01-02": nil,
		"?from=" + w.clock.now().UTC().Format(time.DateOnly) + "&to=" + w.clock.now().UTC().Format(time.DateOnly): {"user:", "system:cli:root"},
	} {
		page, file := b.get("/audit"+query).body, b.get("/audit.csv"+query).body
		for _, actor := range []string{"user:", "system:cli:root", "client:shop", "system:charge"} {
			shown := false
			for _, x := range want {
				shown = shown || x == actor
			}
			require.Equal(t, shown, strings.Contains(page, "=by "+actor), "%s: %s on the page", query, actor)
			require.Equal(t, shown, strings.Contains(file, "'=by "+actor), "%s: %s in the file", query, actor)
		}
	}
	for _, bad := range []string{"who=me", "from=monday", "to=1", "before=x"} {
		require.Equal(t, http.StatusUnprocessableEntity, b.get("/audit?"+bad).StatusCode, bad)
	}
}
