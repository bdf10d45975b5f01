package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// sink is an alert receiver that refuses the first deliveries.
type sink struct {
	mu     sync.Mutex
	refuse int
	bodies []string
	calls  int
}

func newSink(t *testing.T, refuse int) (*sink, string) {
	t.Helper()
	s := &sink{refuse: refuse}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.calls <= s.refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.bodies = append(s.bodies, string(body))
}

func (s *sink) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.bodies...)
}

func (b *bench) raiseAlert(key string) {
	b.inTx(func(ctx context.Context, tx pgxTx) error {
		_, err := b.store.RaiseAlert(ctx, tx, store.Alert{
			Kind: "circuit_opened", Severity: "critical", Provider: "atlas", Title: "Charges at atlas are stopped",
			Detail: "5 failures in a row: <dial> & more", DedupeKey: key,
		})
		return err
	})
}

func (b *bench) delivered() {
	b.t.Helper()
	b.eventually("delivered", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM alerts WHERE delivered_at IS NULL`)
		return n == 0, fmt.Sprint(n)
	})
}

// One sink is down at first: the other gets the alert once, not once per retry.
func TestAnAlertReachesEachSinkOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	generic, genericURL := newSink(t, 0)
	slack, slackURL := newSink(t, 2)
	b.start("w1", func(c *Config) {
		c.Sinks = []AlertSink{{"ops", sinkGeneric, genericURL}, {"chat", sinkSlack, slackURL}}
	})
	b.raiseAlert("once")
	b.raiseAlert("once")
	b.delivered()
	require.Len(t, generic.taken(), 1)
	require.Len(t, slack.taken(), 1)

	var body alertBody
	require.NoError(t, json.Unmarshal([]byte(generic.taken()[0]), &body))
	require.Equal(t, "circuit_opened", body.Kind)
	require.Equal(t, "critical", body.Severity)
	require.NotZero(t, body.ID)
	require.JSONEq(t, `{"text":"[critical] Charges at atlas are stopped\n5 failures in a row: &lt;dial&gt; &amp; more"}`, slack.taken()[0])
}

func TestAnAlertWithoutSinksIsDeliveredToTheConsole(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.start("w1", nil)
	b.raiseAlert("console")
	b.delivered()
	require.Equal(t, "console", b.text(`SELECT deliveries -> 0 ->> 'sink' FROM alerts`))
}

// A sink's URL is its secret: it must not reach the log, the job's errors or the row.
func TestAFailedDeliveryDoesNotTellTheURL(t *testing.T) {
	t.Parallel()
	w := newAlertWorker(&Runner{})
	err := w.post(context.Background(), AlertSink{"chat", sinkSlack, "http://127.0.0.1:1/services/T0/SECRET"}, store.Alert{Title: "x"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "SECRET")
	err = w.post(context.Background(), AlertSink{"chat", sinkSlack, "http://127.0.0.1:1/\x7fSECRET"}, store.Alert{Title: "x"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "SECRET")
}

func TestASinkThatRedirectsIsNotFollowed(t *testing.T) {
	t.Parallel()
	stranger, strangerURL := newSink(t, 0)
	srv := httptest.NewServer(http.RedirectHandler(strangerURL, http.StatusTemporaryRedirect))
	defer srv.Close()
	err := newAlertWorker(&Runner{}).post(context.Background(), AlertSink{"ops", sinkGeneric, srv.URL}, store.Alert{})
	require.ErrorContains(t, err, "307")
	require.Empty(t, stranger.taken())
}

func TestAHangingSinkIsLeftAfterItsTime(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	w := newAlertWorker(&Runner{})
	w.http.Timeout = 50 * time.Millisecond
	began := time.Now()
	require.Error(t, w.post(context.Background(), AlertSink{"ops", sinkGeneric, srv.URL}, store.Alert{}))
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, 5*time.Second, newAlertWorker(&Runner{}).http.Timeout)
}

func TestRenderLeavesOutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	body, err := render(sinkGeneric, store.Alert{ID: 3, Kind: "k", Severity: "info", Title: "t", CreatedAt: time.Unix(0, 0).UTC()})
	require.NoError(t, err)
	require.JSONEq(t, `{"id":3,"kind":"k","severity":"info","title":"t","created_at":"1970-01-01T00:00:00Z"}`, string(body))
	id := uuid.MustParse("018f0000-0000-7000-8000-000000000001")
	body, err = render(sinkGeneric, store.Alert{PaymentID: &id})
	require.NoError(t, err)
	require.Contains(t, string(body), id.String())
}

func TestCheckSinksNamesTheSink(t *testing.T) {
	t.Parallel()
	for want, sinks := range map[string][]AlertSink{
		"unique":     {{"a", sinkSlack, "https://x.example"}, {"a", sinkSlack, "https://y.example"}},
		"neither":    {{"a", "pager", "https://x.example"}},
		"not an htt": {{"a", sinkSlack, "ftp://x.example"}},
		"not empty":  {{"", sinkSlack, "https://x.example"}},
	} {
		err := checkSinks(sinks)
		require.ErrorContains(t, err, want)
		require.False(t, strings.Contains(err.Error(), "example"), "never the URL")
	}
	require.NoError(t, checkSinks([]AlertSink{{"a", sinkSlack, "https://x.example/h"}, {"b", sinkGeneric, "http://y.example"}}))
}
