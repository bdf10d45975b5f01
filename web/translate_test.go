package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
)

// translations is a LibreTranslate-compatible service that counts its calls.
type translations struct {
	*httptest.Server
	calls  atomic.Int64
	handle atomic.Pointer[http.HandlerFunc] // nil: "[target] text"
}

func newTranslations(t *testing.T) *translations {
	t.Helper()
	s := &translations{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		if h := s.handle.Load(); h != nil {
			(*h)(w, r)
			return
		}
		var q struct{ Q, Source, Target, Format, APIKey string }
		if r.URL.Path != "/translate" || json.NewDecoder(r.Body).Decode(&q) != nil || q.Source != "auto" || q.Format != "text" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"translatedText": "[" + q.Target + "] " + q.Q})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *translations) answer(h http.HandlerFunc) { s.handle.Store(&h) }

// always answers with a status and body.
func always(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// newClient is a translator of service on a circuit of its own.
func newClient(t *testing.T, service *translations) (*translator, breaker.Breaker) {
	t.Helper()
	circuits := breaker.NewLocal(breaker.Options{Settings: func(breaker.Key) breaker.Settings { return breaker.NonMoney() }})
	return newTranslator(Config{TranslateURL: service.URL + "/", Breaker: circuits}), circuits
}

func TestTranslateOnceAndFromThenOnFromMemory(t *testing.T) {
	t.Parallel()
	service := newTranslations(t)
	c, _ := newClient(t, service)
	text, from := c.translate(t.Context(), "Your card was declined.", "uk")
	require.Equal(t, "[uk] Your card was declined.", text)
	require.Equal(t, fromService, from)
	text, from = c.translate(t.Context(), "Your card was declined.", "uk")
	require.Equal(t, "[uk] Your card was declined.", text)
	require.Equal(t, fromCache, from)
	_, from = c.translate(t.Context(), "Your card was declined.", "fr")
	require.Equal(t, fromService, from, "another language is another text")
	require.Equal(t, int64(2), service.calls.Load())
}

func TestReadersOfOneTextShareOneCall(t *testing.T) {
	t.Parallel()
	service := newTranslations(t)
	hold := make(chan struct{})
	service.answer(func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		_, _ = io.WriteString(w, `{"translatedText":"Відхилено"}`)
	})
	c, _ := newClient(t, service)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			text, from := c.translate(t.Context(), "Declined", "uk")
			require.Equal(t, "Відхилено", text)
			require.NotEqual(t, fromOriginal, from)
		})
	}
	require.Eventually(t, func() bool { return service.calls.Load() == 1 }, 5*time.Second, time.Millisecond)
	close(hold)
	wg.Wait()
	require.Equal(t, int64(1), service.calls.Load())
}

func TestItem13FailingTranslationsShowTheOriginal(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"500":      always(500, "{}"),
		"403":      always(403, `{"error":"bad key"}`),
		"429":      always(429, "{}"),
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"html":     always(200, "<html>"),
		"empty":    always(200, `{"translatedText":""}`),
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_, _ = io.WriteString(w, `{"transl`)
		},
	} {
		service := newTranslations(t)
		service.answer(h)
		c, _ := newClient(t, service)
		text, from := c.translate(t.Context(), "Declined", "uk")
		require.Equal(t, "Declined", text, name)
		require.Equal(t, fromOriginal, from, name)
		require.Equal(t, int64(1), service.calls.Load(), "%s: asked once, never retried", name)
	}
}

// Item 13 of the first issue: five failures open the circuit, and while it is open the
// original shows at once and nobody is called.
func TestItem13FallbackOpenCircuitMakesNoCalls(t *testing.T) {
	t.Parallel()
	service := newTranslations(t)
	service.answer(always(503, ""))
	c, circuits := newClient(t, service)
	for i := range 5 {
		_, from := c.translate(t.Context(), "Declined", "uk")
		require.Equal(t, fromOriginal, from)
		require.Equal(t, int64(i+1), service.calls.Load())
	}
	snap, err := circuits.Snapshot(t.Context(), TranslateKey)
	require.NoError(t, err)
	require.Equal(t, breaker.Open, snap.State)
	require.InDelta(t, 120, time.Until(snap.OpenUntil).Seconds(), 5)

	service.handle.Store(nil) // well again, but nobody asks yet
	for range 50 {
		text, from := c.translate(t.Context(), "Declined", "uk")
		require.Equal(t, "Declined", text)
		require.Equal(t, fromOriginal, from)
	}
	require.Equal(t, int64(5), service.calls.Load())
}

func TestRefusalsOfOurRequestsDoNotOpenTheCircuit(t *testing.T) {
	t.Parallel()
	service := newTranslations(t)
	service.answer(always(400, "{}"))
	c, circuits := newClient(t, service)
	for range 20 {
		c.translate(t.Context(), "Declined", "uk")
	}
	snap, err := circuits.Snapshot(t.Context(), TranslateKey)
	require.NoError(t, err)
	require.Equal(t, breaker.Closed, snap.State)
}

func TestASlowServiceIsGivenUpAfterItsTime(t *testing.T) {
	t.Parallel()
	service := newTranslations(t)
	stop := make(chan struct{})
	defer close(stop)
	service.answer(func(http.ResponseWriter, *http.Request) { <-stop })
	c, _ := newClient(t, service)
	start := time.Now()
	_, from := c.translate(t.Context(), "Declined", "uk")
	require.Equal(t, fromOriginal, from)
	require.InDelta(t, translateTimeout.Seconds(), time.Since(start).Seconds(), 1.5)
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newTranslator(Config{})
	for i := range translateCached + 10 {
		c.keep(textKey{text: strings.Repeat("x", i%50) + time.Duration(i).String()}, "y")
	}
	require.Len(t, c.cache, translateCached)
	require.Len(t, c.order, translateCached)
}

func TestTranslateFragment(t *testing.T) {
	t.Parallel()
	service := newTranslations(t)
	w := newWebtest(t, func(c *Config) { c.TranslateURL = service.URL })
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.ProviderMessage = "Your card was <b>declined</b>." })
	path := "/console/translate?payment=" + p.ID.String()
	b := w.signedIn(store.RoleSupport)
	res := b.htmx(path)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.body, "] Your card was &lt;b&gt;declined&lt;/b&gt;.")
	require.NotContains(t, strings.ToLower(res.body), "<html")

	w.circuits.set(breaker.Snapshot{Key: TranslateKey, State: breaker.Open})
	q := w.db.SeedPayment(t, func(p *store.Payment) { p.ProviderMessage = "Expired card" })
	res = b.htmx("/console/translate?payment=" + q.ID.String())
	require.Contains(t, res.body, "Expired card")
	require.Contains(t, res.body, "original")

	w.exercise(page{method: http.MethodGet, path: path, role: store.RoleSupport,
		absent: "/console/translate?payment=" + uuid.NewString(), bad: "/console/translate?payment=7"})
}

func TestTranslateFragmentWithoutAService(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.ProviderMessage = "Expired card" })
	res := w.signedIn(store.RoleSupport).htmx("/console/translate?payment=" + p.ID.String())
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.body, "Expired card")
}
