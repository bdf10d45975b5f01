package stripe

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// stripeMock runs stripe-mock, Stripe's own server that checks every request against its
// OpenAPI description and answers from fixtures. It is a tool of this module: go builds
// it from the module proxy and keeps it in its build cache.
func stripeMock(t *testing.T) *url.URL {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "stripe-mock").Output()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, strings.TrimSpace(string(path)), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // killed: an error is wanted
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
			go func() {
				for lines.Scan() { // so that it never waits for its reader
				}
			}()
			u, err := url.Parse("http://" + addr)
			require.NoError(t, err)
			return u
		}
	}
	require.FailNow(t, "stripe-mock did not say where it listens")
	return nil
}

// seen are the requests that went to stripe-mock, with its answers' statuses.
type seen struct {
	mu  sync.Mutex
	got []string
}

func (s *seen) ModifyResponse(r *http.Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.Request.URL.Path
	for _, id := range []string{"pi_", "re_"} {
		if dir, _, ok := strings.Cut(path, "/"+id); ok {
			for _, end := range []string{"", "/capture", "/cancel"} {
				if strings.HasSuffix(r.Request.URL.Path, end) {
					path = dir + "/{id}" + end
				}
			}
		}
	}
	s.got = append(s.got, fmt.Sprintf("%d %s %s", r.StatusCode, r.Request.Method, path))
	return nil
}

// Every request the adapter can make is one that Stripe's API description has.
func TestStripeMockTakesEveryRequest(t *testing.T) {
	t.Parallel()
	var s seen
	target := stripeMock(t)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: s.ModifyResponse,
	})
	t.Cleanup(proxy.Close)
	a, err := New(provider.Settings{
		Name: "mock", BaseURL: proxy.URL + "/v1/", APIKey: "sk_test_123", WebhookSecrets: []string{"whsec"}, AnswerTimeout: 20 * time.Second,
	}, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)

	full := provider.ChargeRequest{
		PaymentID: "0190f3c2-7a1e-7c3e-9b7f-3a0a5a1b2c3d", OrderRef: "order 7/é", Description: "Two tickets & a <drink>",
		CustomerName: "Zoë O'Neill", CustomerEmail: "zoe@example.com", PaymentMethod: "pm_123", CustomerID: "cus_123",
	}
	bare := provider.ChargeRequest{PaymentID: full.PaymentID}
	for _, r := range []provider.ChargeRequest{full, bare} {
		for _, code := range []string{"EUR", "JPY", "KWD", "UGX", "ISK", "HUF"} {
			r.Money = provider.Money{Amount: 18600, Currency: code}
			body, err := a.Freeze(r)
			require.NoError(t, err)
			got := a.Charge(t.Context(), "key-"+code, body, r.Money)
			require.Equal(t, http.StatusOK, got.Exchange.Status, "%s", got.Exchange.Body)
			require.Equal(t, 1, got.Exchange.WireSends)
		}
	}
	q := provider.LookupQuery{PaymentID: full.PaymentID, ProviderPaymentID: "pi_123", SentFrom: time.Now().Add(-time.Hour), SentTo: time.Now()}
	a.Lookup(t.Context(), q)
	l := lookup{Adapter: a, ctx: t.Context(), q: q, most: 100}
	from, to := l.stretch()
	l.page(from, to, "pi_123")
	l.q.PaymentID = `it's a \ name`
	l.bySearch()
	_, _ = a.List(t.Context(), provider.ListQuery{From: time.Now().Add(-time.Hour), Limit: 1000}) // its fixture is of another time
	_, _, _ = a.slice(t.Context(), cursor{at: 1, width: 1, after: "pi_123"}, 2, 100)
	require.Equal(t, provider.HealthOK, a.Ping(t.Context()).Health)

	a.everyRefundRequest(t)
	a.everyActionRequest(t)
	s.requireAll(t)
	// And it does look: a parameter Stripe does not have is refused.
	got := a.Charge(t.Context(), "k", []byte("amount=100&currency=eur&nonsense=1"), provider.Money{})
	require.Equal(t, http.StatusBadRequest, got.Exchange.Status)
}

// requireAll wants every kind of request to have been made, and taken.
func (s *seen) requireAll(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := map[string]bool{}
	for _, line := range s.got {
		require.True(t, strings.HasPrefix(line, "200 "), line)
		kinds[line] = true
	}
	require.Equal(t, map[string]bool{
		"200 POST /v1/payment_intents": true, "200 GET /v1/payment_intents": true, "200 GET /v1/payment_intents/{id}": true,
		"200 GET /v1/payment_intents/search": true, "200 GET /v1/balance": true,
		"200 POST /v1/refunds": true, "200 GET /v1/refunds": true, "200 GET /v1/refunds/{id}": true,
		"200 POST /v1/payment_intents/{id}/capture": true, "200 POST /v1/payment_intents/{id}/cancel": true,
	}, kinds)
}
