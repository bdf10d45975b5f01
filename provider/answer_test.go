package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestC04_RedirectsAreNeverFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			var hits, followed atomic.Int32
			mux := http.NewServeMux()
			mux.HandleFunc("/payments", func(w http.ResponseWriter, _ *http.Request) {
				hits.Add(1)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
			})
			mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) {
				followed.Add(1)
				_, _ = io.WriteString(w, `{"id":"pay_1","status":"succeeded","amount":4900,"currency":"EUR"}`)
			})
			srv := httptest.NewServer(mux)
			t.Cleanup(srv.Close)
			c := newTestCaller(t, testSettings(srv.URL), CallerOptions{})

			ex := c.Do(t.Context(), post())

			require.EqualValues(t, 1, hits.Load())
			require.Zero(t, followed.Load())
			require.Equal(t, "/elsewhere", ex.Location)
			got := classify(ex)
			require.Equal(t, Classification{Outcome: Unknown, Reason: ReasonRedirect, Health: HealthFail, Next: NextReconcile, Alert: AlertRedirects}, got)

			ask, n := c.Ask(t.Context(), Call{Method: http.MethodGet, Path: "payments"})
			require.Equal(t, status, ask.Status, "a question carries the API key and is not led elsewhere either")
			require.Equal(t, 1, n)
			require.Zero(t, followed.Load())
		})
	}
}

func TestC05_ABodyThatDripsOrStops(t *testing.T) {
	t.Parallel()
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n"
	for name, rest := range map[string]func(c *rawConn){
		"drip": func(c *rawConn) {
			c.reply(`{"id":"pay_1","status`)
			for {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond) // the provider's pace, not ours
			}
		},
		"silence": func(c *rawConn) { _, _ = c.in.ReadByte() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newRaw(t, func(c *rawConn) { c.request(); c.reply(head); rest(c) })
			s := testSettings(srv.url)
			s.AnswerTimeout = time.Second
			c := newTestCaller(t, s, CallerOptions{})

			ex := c.Do(t.Context(), post())

			require.Less(t, ex.Latency(), 5*time.Second, "the worker is free at the deadline")
			require.Equal(t, http.StatusOK, ex.Status, "kept as evidence")
			require.True(t, ex.Expired)
			require.False(t, ex.BodyComplete)
			got := classify(ex)
			require.Equal(t, Unknown, got.Outcome)
			require.Equal(t, ReasonBodyTimeout, got.Reason)
			require.Equal(t, HealthFail, got.Health)
		})
	}
}

// Headers that drip for ever end at the same deadline.
func TestC05_HeadersThatDrip(t *testing.T) {
	t.Parallel()
	srv := newRaw(t, func(c *rawConn) {
		c.request()
		c.reply("HTTP/1.1 200 OK\r\nX-Slow: ")
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	s := testSettings(srv.url)
	s.AnswerTimeout = time.Second
	ex := newTestCaller(t, s, CallerOptions{}).Do(t.Context(), post())
	require.Less(t, ex.Latency(), 5*time.Second)
	require.Equal(t, ReasonTimeoutAfter, classify(ex).Reason, "%+v", ex)
}

func TestC07_AHugeErrorPageIsCapped(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Server", "cdn")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>"+strings.Repeat("x", 5<<20))
	}))
	t.Cleanup(srv.Close)
	ex := newTestCaller(t, testSettings(srv.URL), CallerOptions{}).Do(t.Context(), post())
	require.Len(t, ex.Body, MaxMoneyBody)
	require.False(t, ex.BodyComplete)
	require.NoError(t, ex.Err)
	require.Equal(t, "cdn", ex.Server)
	got := classify(ex)
	require.Equal(t, "gateway_502", got.Reason)
	require.Equal(t, Unknown, got.Outcome)
	require.Equal(t, HealthFail, got.Health)
	require.True(t, got.Quick)
}

func TestC06_AChunkedBodyCutBeforeItsEnd(t *testing.T) {
	t.Parallel()
	srv := newRaw(t, func(c *rawConn) {
		c.request()
		c.reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n{\"id\":\"pay_1\",\"status\":\"succ\"\r\n")
	})
	ex := newTestCaller(t, testSettings(srv.url), CallerOptions{}).Do(t.Context(), post())
	require.ErrorIs(t, ex.Err, io.ErrUnexpectedEOF)
	require.NotEmpty(t, ex.Body, "kept as evidence")
	got := classify(ex)
	require.Equal(t, ReasonBodyCut, got.Reason)
	require.Equal(t, Unknown, got.Outcome)
	require.Equal(t, HealthFail, got.Health)
}

// hanging answers nothing and tells when a request is there.
func hanging(t *testing.T) (*rawServer, <-chan struct{}) {
	t.Helper()
	arrived := make(chan struct{}, 100)
	return newRaw(t, func(c *rawConn) {
		if c.request() != nil {
			arrived <- struct{}{}
			_, _ = c.in.ReadByte()
		}
	}), arrived
}

func TestB01_CancellationIsJudgedByOurContext(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"shutdown":                    ErrShutdown,
		"errgroup sibling":            errors.New("a sibling failed"),
		"plain cancel":                nil,
		"shutdown after its own wait": errors.Join(ErrShutdown, context.DeadlineExceeded),
	} {
		t.Run(name+"/sent", func(t *testing.T) {
			t.Parallel()
			srv, arrived := hanging(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-arrived; cancel(cause) }()
			ex := newTestCaller(t, testSettings(srv.url), CallerOptions{}).Do(ctx, post())
			require.True(t, ex.Cancelled)
			require.False(t, ex.Expired)
			require.Equal(t, Classification{Outcome: Unknown, Reason: ReasonShutdownAfter, Health: HealthNeutral, Next: NextReconcile}, classify(ex))
		})
		t.Run(name+"/not sent", func(t *testing.T) {
			t.Parallel()
			connected := make(chan struct{}, 1)
			srv := newRaw(t, func(*rawConn) { connected <- struct{}{}; <-t.Context().Done() })
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-connected; cancel(cause) }() // during the TLS handshake
			c := newTestCaller(t, testSettings(strings.Replace(srv.url, "http:", "https:", 1)), CallerOptions{})
			ex := c.Do(ctx, post())
			require.True(t, ex.Cancelled)
			require.Equal(t, Classification{Outcome: NotSent, Reason: ReasonShutdownBefore, Health: HealthNeutral, Next: NextRetry}, classify(ex))
		})
	}
	t.Run("cancelled before it began", func(t *testing.T) {
		t.Parallel()
		srv, _ := hanging(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrShutdown)
		ex := newTestCaller(t, testSettings(srv.url), CallerOptions{}).Do(ctx, post())
		require.Equal(t, NotSent, classify(ex).Outcome)
		require.Equal(t, HealthNeutral, classify(ex).Health)
		require.Zero(t, srv.requests.Load())
	})
	t.Run("a genuine deadline is the provider's", func(t *testing.T) {
		t.Parallel()
		srv, _ := hanging(t)
		s := testSettings(srv.url)
		s.AnswerTimeout = time.Second
		ex := newTestCaller(t, s, CallerOptions{}).Do(t.Context(), post())
		require.True(t, ex.Expired)
		require.Equal(t, HealthFail, classify(ex).Health)
	})
	t.Run("so is the caller's deadline", func(t *testing.T) {
		t.Parallel()
		srv, _ := hanging(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ex := newTestCaller(t, testSettings(srv.url), CallerOptions{}).Do(ctx, post())
		require.True(t, ex.Expired)
		require.Equal(t, ReasonTimeoutAfter, classify(ex).Reason)
		require.Equal(t, HealthFail, classify(ex).Health)
	})
	t.Run("an answer that is whole counts, cancelled or not", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrShutdown)
		ex := Exchange{Status: 200, BodyComplete: true}
		judge(ctx, &ex)
		require.False(t, ex.Cancelled)
	})
}

// askServer answers each request with the next status; the last repeats.
func askServer(t *testing.T, header http.Header, statuses ...int) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	n := &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i := min(int(n.Add(1)), len(statuses)) - 1
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(statuses[i])
	}))
	t.Cleanup(srv.Close)
	return srv, n
}

func TestAskRetriesQuestionsOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		header   http.Header
		statuses []int
		want     int
		requests int
	}{
		{"answered", nil, []int{200}, 200, 1},
		{"two failures", nil, []int{503, 500, 200}, 200, 3},
		{"down", nil, []int{503}, 503, 3},
		{"throttled without a time", nil, []int{429, 200}, 200, 2},
		{"throttled with a long time", http.Header{"Retry-After": {"30"}}, []int{429, 200}, 429, 1},
		{"refused", nil, []int{403, 200}, 403, 1},
		{"not found", nil, []int{404, 200}, 404, 1},
		{"provider timeout", nil, []int{408, 200}, 408, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv, n := askServer(t, tt.header, tt.statuses...)
			var slept []time.Duration
			c := newTestCaller(t, testSettings(srv.URL), CallerOptions{Sleep: func(_ context.Context, d time.Duration) error {
				slept = append(slept, d)
				return nil
			}})
			ex, made := c.Ask(t.Context(), Call{Method: http.MethodGet, Path: "payments"})
			require.Equal(t, tt.want, ex.Status)
			require.Equal(t, tt.requests, made)
			require.EqualValues(t, tt.requests, n.Load())
			require.Len(t, slept, tt.requests-1)
			for i, d := range slept {
				mean := askPause << i
				require.InDelta(t, mean, d, float64(mean)/4)
			}
		})
	}
}

// A provider that cuts every connection gets AskTries requests, warm pool or not.
func TestAskCountsWhatTheProviderSees(t *testing.T) {
	t.Parallel()
	k := &cutter{warm: 4, allWarm: make(chan struct{})}
	srv := newRaw(t, k.serve)
	c := newTestCaller(t, testSettings(srv.url), CallerOptions{Sleep: func(context.Context, time.Duration) error { return nil }})
	c.money = c.query // warm the pool that questions use
	warmUp(t, c, 4)
	_, n := c.Ask(t.Context(), Call{Method: http.MethodGet, Path: "payments"})
	require.Equal(t, AskTries, n)
	require.EqualValues(t, 4+AskTries, srv.requests.Load())
}

func TestAskStopsWhenWeStop(t *testing.T) {
	t.Parallel()
	srv, arrived := hanging(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-arrived; cancel(ErrShutdown) }()
	ex, n := newTestCaller(t, testSettings(srv.url), CallerOptions{}).Ask(ctx, Call{Method: http.MethodGet, Path: "payments"})
	require.Equal(t, 1, n)
	require.True(t, ex.Cancelled)
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, sleep(t.Context(), time.Hour))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrShutdown)
		require.ErrorIs(t, sleep(ctx, time.Hour), ErrShutdown)
	})
}

func TestARequestThatCannotBeBuiltIsOurFault(t *testing.T) {
	t.Parallel()
	c := newTestCaller(t, testSettings("http://provider.test"), CallerOptions{})
	call := post()
	call.Header = http.Header{"Idempotency-Key": {"a\r\nX-Evil: 1"}}
	ex := c.Do(t.Context(), call)
	var local *LocalError
	require.ErrorAs(t, ex.Err, &local)
	require.Equal(t, Classification{Outcome: NotSent, Reason: ReasonLocal, Health: HealthNeutral, Next: NextRetry, Alert: AlertContract}, classify(ex))
}

func TestExchangeKeepsTheEvidence(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("Idempotent-Replayed", "true")
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Server", "nginx")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Should-Retry", "true")
		w.Header().Set("Set-Cookie", "session=1")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(srv.Close)
	keep := CallerOptions{KeepHeaders: []string{"Should-Retry", "Absent"}}
	ex := newTestCaller(t, testSettings(srv.URL+"/v1/"), keep).Do(t.Context(), post())
	require.NoError(t, ex.Err)
	require.Equal(t, srv.URL+"/v1/payments", ex.URL)
	require.Equal(t, "req_1", ex.RequestID)
	require.True(t, ex.Replayed)
	require.Equal(t, "7", ex.RetryAfter)
	require.Equal(t, http.Header{"Should-Retry": {"true"}}, ex.Kept, "what was asked for and nothing else")
	require.Equal(t, "nginx", ex.Server)
	require.Equal(t, "application/json", ex.ContentType)
	require.Equal(t, "{}", string(ex.Body))
	require.True(t, ex.BodyComplete)
	require.False(t, ex.StartedAt.After(ex.FirstSentAt))
	require.False(t, ex.FirstSentAt.After(ex.FirstByteAt))
	require.False(t, ex.FirstByteAt.After(ex.DoneAt))
}
