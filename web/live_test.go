package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// event is one server-sent event.
type event struct {
	name string
	data map[string]string
}

// stream is an open /live of a signed-in browser over a real connection, because the
// recorder cannot take deadlines.
type stream struct {
	res    *http.Response
	events chan event // closed when the stream ends
}

func (w *webtest) stream(b *browser) *stream {
	w.t.Helper()
	srv := httptest.NewUnstartedServer(w.server.Handler())
	srv.Config.WriteTimeout, srv.Config.ReadTimeout = 300*time.Millisecond, 300*time.Millisecond
	srv.Start()
	w.t.Cleanup(srv.Close)
	w.t.Cleanup(w.server.Close)
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/live", nil)
	require.NoError(w.t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	s := &stream{res: res, events: make(chan event, 64)}
	go s.read()
	return s
}

func (s *stream) read() {
	defer close(s.events)
	defer func() { _ = s.res.Body.Close() }()
	var e event
	for lines := bufio.NewScanner(s.res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e = event{name: value}
		case "data":
			_ = json.Unmarshal([]byte(value), &e.data)
		case "":
			s.events <- e
		}
	}
}

// next waits for an event that ok accepts.
func (s *stream) next(t *testing.T, ok func(event) bool) event {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e, open := <-s.events:
			require.True(t, open, "the stream ended")
			if ok(e) {
				return e
			}
		case <-deadline:
			require.Fail(t, "no such event")
		}
	}
}

func movedTopic(topic string) func(event) bool {
	return func(e event) bool { return e.data[topic] != "" }
}

func TestStreamTellsWhatChangedAndOutlivesTheServersTimeouts(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	s := w.stream(w.signedIn(store.RoleSupport))
	require.Equal(t, "text/event-stream", s.res.Header.Get("Content-Type"))
	require.Empty(t, s.res.Header.Get("Content-Encoding"))
	first := s.next(t, func(event) bool { return true })
	require.Equal(t, "rev", first.name)
	require.Len(t, first.data, len(topics), "the first event tells every topic")

	time.Sleep(2 * 300 * time.Millisecond) // past both of the server's timeouts, which is the point
	require.NoError(t, w.store.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return store.Notify(ctx, tx, store.TopicWallets)
	}))
	e := s.next(t, movedTopic("wallets"))
	require.NotEqual(t, first.data["wallets"], e.data["wallets"])
}

// TestStreamBeatsAndEndsInTime: a stream that has nothing to say still shows that it
// lives, and ends after its time, so that whose session ended meanwhile stays outside.
func TestStreamBeatsAndEndsInTime(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.a.hub.beat, w.server.a.hub.life = 20*time.Millisecond, 200*time.Millisecond
	b := w.signedIn(store.RoleSupport)
	s := w.stream(b)
	s.next(t, func(e event) bool { return e.name == "beat" })
	s.next(t, func(e event) bool { return e.name == "end" })
	w.db.Exec(t, `DELETE FROM sessions`)
	require.Equal(t, http.StatusUnauthorized, b.get("/live").StatusCode)
}

func TestStreamEndsWhenTheServerCloses(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	s := w.stream(w.signedIn(store.RoleSupport))
	s.next(t, func(event) bool { return true })
	w.server.Close()
	s.next(t, func(e event) bool { return e.name == "end" })
	for range s.events { //nolint:revive // until the stream is closed
	}
}

func TestStreamNeedsASession(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for _, path := range []string{"/live", "/live/revs"} {
		require.Equal(t, http.StatusUnauthorized, w.stranger().get(path).StatusCode, path)
	}
}

func TestRevsAnswerBrowsersThatPoll(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	var revs map[string]string
	res := b.get("/live/revs")
	require.NoError(t, json.Unmarshal([]byte(res.body), &revs))
	require.Len(t, revs, len(topics))
	require.Equal(t, w.server.a.hub.rev("payments"), revs["payments"])
	require.True(t, w.server.a.hub.watched(), "a poller counts as somebody looking")
}

// testHub is a hub without a database; nothing listens until it is started.
func testHub(t *testing.T, moved func(string)) *hub {
	t.Helper()
	w := newWebtest(t)
	h := newHub(w.db.Pool, w.server.cfg.Log, moved)
	h.once.Do(func() {}) // the test turns the wheels itself
	t.Cleanup(h.close)
	return h
}

func TestHubCoalescesAndWakesOnlyOnChange(t *testing.T) {
	t.Parallel()
	var dropped []string
	h := testHub(t, func(topic string) { dropped = append(dropped, topic) })
	wake, leave := h.join()
	h.flush()
	require.Len(t, dropped, len(topics), "whoever comes after a time without anybody gets nothing old")
	<-wake
	dropped = nil
	seen := map[string]string{}
	h.changes(seen)

	for range 100 {
		h.touch("payments", "no-such-topic")
	}
	require.Empty(t, h.changes(seen), "nothing moves before the flush")
	h.flush()
	require.Equal(t, []string{"payments"}, dropped)
	<-wake
	require.Equal(t, map[string]string{"payments": h.rev("payments")}, h.changes(seen), "a hundred touches are one move")

	h.flush()
	require.Empty(t, wake, "a flush of nothing wakes nobody")
	_, leaveToo := h.join()
	h.flush()
	require.Empty(t, dropped[1:], "nor does a second viewer move anything")
	leave()
	leaveToo()
	require.False(t, h.watched())
}

func TestHubReadsItsSourcesOnlyWhileSomebodyLooks(t *testing.T) {
	t.Parallel()
	h := testHub(t, func(string) {})
	var reads atomic.Int64
	h.watch(func(context.Context) []string { reads.Add(1); return []string{topicOverview} })
	require.False(t, h.watched())
	before := h.rev(topicOverview)
	h.tick(1)
	h.flush()
	require.NotEqual(t, before, h.rev(topicOverview))
	queues := h.rev(topicQueues)
	h.tick(queueTicks)
	h.flush()
	require.NotEqual(t, queues, h.rev(topicQueues), "River notifies nobody")
	runs := h.rev("runs")
	h.tick(safeTicks)
	h.flush()
	require.NotEqual(t, runs, h.rev("runs"), "a lost notification costs seconds, not the day")
	require.EqualValues(t, 3, reads.Load())
}

func TestRevisionsOfTwoProcessesNeverMatch(t *testing.T) {
	t.Parallel()
	a, b := testHub(t, nil), testHub(t, nil)
	require.NotEqual(t, a.rev("payments"), b.rev("payments"))
}

func TestFragmentOfTheShownRevisionIs204(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	first := b.htmx("/alerts")
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.True(t, strings.HasPrefix(first.body, `<div id="alerts" class="live"`), "the region alone, no frame")
	rev := first.Header.Get(headerRev)
	require.Contains(t, first.body, `data-rev="`+rev+`"`)

	again := b.send(http.MethodGet, "/alerts", nil, http.Header{"Hx-Request": {"true"}, headerRev: {rev}})
	require.Equal(t, http.StatusNoContent, again.StatusCode)
	require.Empty(t, again.body)

	w.server.a.hub.touch("alerts")
	w.server.a.hub.flush()
	moved := b.send(http.MethodGet, "/alerts", nil, http.Header{"Hx-Request": {"true"}, headerRev: {rev}})
	require.Equal(t, http.StatusOK, moved.StatusCode)
	require.NotEqual(t, rev, moved.Header.Get(headerRev))
}

func TestOnePageAndItsFragmentAreCachedApart(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	res := w.signedIn(store.RoleSupport).get("/alerts")
	require.Contains(t, res.Header.Values("Vary"), "HX-Request")
	require.Contains(t, res.body, "<html")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
}

func TestManyViewersOfOneRevisionCostOneReading(t *testing.T) {
	t.Parallel()
	f := newFragmentCache()
	var renders atomic.Int64
	release := make(chan struct{})
	render := func(context.Context) ([]byte, error) {
		renders.Add(1)
		<-release
		return []byte("x"), nil
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			body, err := f.get(t.Context(), "payments", "k", render)
			if err != nil || string(body) != "x" {
				t.Error(string(body), err)
			}
		})
	}
	require.Eventually(t, func() bool { return renders.Load() == 1 }, 5*time.Second, time.Millisecond)
	close(release)
	wg.Wait()
	_, err := f.get(t.Context(), "payments", "k", render)
	require.NoError(t, err)
	require.EqualValues(t, 1, renders.Load())

	f.drop("payments")
	_, found := f.find("payments", "k")
	require.False(t, found, "a moved revision forgets its fragments")
}

func TestARenderingOutlivesTheOneWhoStartedIt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body, err := newFragmentCache().get(ctx, "payments", "k", func(ctx context.Context) ([]byte, error) {
		return []byte("x"), ctx.Err()
	})
	require.NoError(t, err)
	require.Equal(t, "x", string(body))
}

func TestFragmentCacheIsBounded(t *testing.T) {
	t.Parallel()
	f := newFragmentCache()
	for i := range 3 * fragmentCap {
		f.put("payments", strings.Repeat("k", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), nil)
		require.LessOrEqual(t, f.count, fragmentCap)
		require.Len(t, f.byKey["payments"], f.count)
	}
}

func TestFragmentsDifferByReader(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	english, french := w.signedIn(store.RoleSupport), w.signedIn(store.RoleSupport)
	french.cookies[cookieLang] = "fr"
	require.Contains(t, english.htmx("/alerts").body, "No alerts")
	require.Contains(t, french.htmx("/alerts").body, "Aucune alerte")
}
