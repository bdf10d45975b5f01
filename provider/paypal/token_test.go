package paypal

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// answering is a caller of a server that gives one answer to everything.
func answering(t *testing.T, status int, body string) *provider.Caller {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	c, err := provider.NewCaller((&fake{url: srv.URL}).settings().WithDefaults(), provider.CallerOptions{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// clock is moved by the test.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }
func (c *clock) option(_ *provider.Settings, o *Options) {
	o.Now = c.now
}

func (f *fake) asks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokenAsked
}

// charge makes a charge of its own.
func charge(t *testing.T, a *Adapter, id string) provider.Charged {
	t.Helper()
	r := request(asked49)
	r.PaymentID = id
	body, err := a.Freeze(r)
	require.NoError(t, err)
	return a.Charge(t.Context(), "key-"+id, body, asked49)
}

func TestOneTokenForAll(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := a.tokens.get(t.Context())
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	require.Equal(t, provider.Succeeded, charge(t, a, "p1").Outcome)
	require.Equal(t, 1, f.asks())
}

// A token is renewed while the old one still serves, and never used to its very end.
func TestATokenIsRenewedBeforeItEnds(t *testing.T) {
	t.Parallel()
	f, c := newFake(t), newClock()
	f.tokenLife = 3600
	a := f.adapter(t, c.option)
	first, err := a.tokens.get(t.Context())
	require.NoError(t, err)
	c.advance(50 * time.Minute)
	again, err := a.tokens.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, f.asks())

	c.advance(6 * time.Minute) // four minutes left
	again, err = a.tokens.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.text, again.text, "nobody waits for the new one")
	require.Eventually(t, func() bool {
		tok, err := a.tokens.get(t.Context())
		return err == nil && tok.text != first.text
	}, 5*time.Second, time.Millisecond)
	require.Equal(t, 2, f.asks())

	c.advance(2 * time.Hour)
	last, err := a.tokens.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "A21AAtoken3", last.text, "one that has ended is waited for")
}

// Without a token a charge is provably not sent, and no word about what takes charges.
func TestNoTokenIsNotSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fails  http.HandlerFunc
		reason string
		next   provider.Next
		alert  string
	}{
		"down":     {func(w http.ResponseWriter, _ *http.Request) { page(w, 503) }, reasonAuthDown, provider.NextRetry, ""},
		"cut":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, reasonAuthDown, provider.NextRetry, ""},
		"HTML":     {func(w http.ResponseWriter, _ *http.Request) { page(w, 200) }, reasonAuthDown, provider.NextRetry, ""},
		"no token": {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"expires_in": 1}) }, reasonAuthDown, provider.NextRetry, ""},
		"an odd one": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"access_token": "a\nb", "expires_in": 9})
		}, reasonAuthDown, provider.NextRetry, ""},
		"throttled": {func(w http.ResponseWriter, _ *http.Request) { fail(w, 429, "RATE_LIMIT_REACHED", "") }, reasonAuthThrottled, provider.NextSnooze, ""},
		"credentials": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 401, map[string]string{"error": "invalid_client"})
		}, reasonAuthRefused, provider.NextPause, provider.AlertConfig},
		"redirected": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(302)
		}, reasonAuthDown, provider.NextRetry, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.tokenFails = func(w http.ResponseWriter, _ int) bool { tt.fails(w, nil); return true }
			a := f.adapter(t)
			got := charge(t, a, "p1")
			require.Equal(t, provider.NotSent, got.Outcome, "%+v", got.Classification)
			require.Equal(t, provider.HealthNeutral, got.Health)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.next, got.Next)
			require.Equal(t, tt.alert, got.Alert)
			require.Zero(t, got.Exchange.WireSends)
			require.False(t, got.Exchange.MaybeSent())
			require.Empty(t, f.Received())

			looked := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1"})
			require.Equal(t, provider.LookupNoAnswer, looked.Verdict)
			require.Equal(t, provider.HealthNeutral, looked.Health)
			require.Equal(t, tt.reason, looked.Reason)
			require.Equal(t, tt.alert, looked.Alert)
			require.Zero(t, looked.Requests)
			asks := 2 // what says something about health is the circuit's to count
			if tt.reason != reasonAuthDown {
				asks = 1 // what says nothing of it rests
			}
			require.Equal(t, asks, f.asks())
		})
	}
}

// What says nothing about health makes a pause that doubles, and ends with an answer.
func TestTheTokenEndpointRests(t *testing.T) {
	t.Parallel()
	f, c := newFake(t), newClock()
	f.tokenFails = func(w http.ResponseWriter, n int) bool {
		if n == 3 {
			w.Header().Set("Retry-After", "120")
		}
		if n < 5 {
			fail(w, http.StatusTooManyRequests, "RATE_LIMIT_REACHED", "")
		}
		return n < 5
	}
	a := f.adapter(t, c.option)
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 120 * time.Second, 8 * time.Second} {
		got := charge(t, a, "p1")
		require.Equal(t, provider.NotSent, got.Outcome)
		require.Equal(t, provider.NextSnooze, got.Next)
		require.Equal(t, wait, got.RetryAfter)
		require.Equal(t, i+1, f.asks())
		c.advance(wait - time.Millisecond)
		require.Equal(t, provider.NotSent, charge(t, a, "p1").Outcome)
		require.Equal(t, i+1, f.asks(), "nothing is asked before its time")
		c.advance(time.Millisecond)
	}
	require.Equal(t, provider.Succeeded, charge(t, a, "p1").Outcome)
	require.Zero(t, a.tokens.pauses)
}

// gate is a circuit that the test opens and closes.
type gate struct {
	mu   sync.Mutex
	shut time.Duration // open for so long
	said []provider.Verdict
	why  []string
}

func (g *gate) ask(context.Context) (provider.Report, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut > 0 {
		return nil, &provider.HeldBackError{RetryAfter: g.shut, Err: errToken}
	}
	return func(v provider.Verdict, _ time.Duration, reason string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.said, g.why = append(g.said, v), append(g.why, reason)
	}, nil
}

func (g *gate) option(_ *provider.Settings, o *Options) { o.TokenGuard = g.ask }

// The circuit of tokens hears every request, and while it is open none is made: charges
// wait as long as it says, provably not sent, and no other circuit is told anything.
func TestTheTokenCircuit(t *testing.T) {
	t.Parallel()
	f, c, g := newFake(t), newClock(), &gate{}
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { page(w, http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) { page(w, http.StatusOK) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) { fail(w, http.StatusTooManyRequests, "RATE_LIMIT_REACHED", "") },
		func(w http.ResponseWriter) {
			reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		},
	}
	f.tokenFails = func(w http.ResponseWriter, n int) bool {
		if n <= len(answers) {
			answers[n-1](w)
		}
		return n <= len(answers)
	}
	a := f.adapter(t, c.option, g.option)
	for range answers {
		require.Equal(t, provider.NotSent, charge(t, a, "p1").Outcome)
		c.advance(time.Minute)
	}
	require.Equal(t, []provider.Verdict{provider.HealthFail, provider.HealthFail, provider.HealthFail, provider.HealthNeutral, provider.HealthNeutral}, g.said)
	require.Equal(t, []string{"http_503", provider.ReasonNotJSON, provider.ReasonCutAfterSend, provider.ReasonThrottled, provider.ReasonUnauthorized}, g.why)

	g.shut = 90 * time.Second
	for range 3 {
		got := charge(t, a, "p1")
		require.Equal(t, provider.NotSent, got.Outcome)
		require.Equal(t, provider.HealthNeutral, got.Health)
		require.Equal(t, reasonAuthDown, got.Reason)
		require.Equal(t, provider.NextSnooze, got.Next)
		require.Equal(t, 90*time.Second, got.RetryAfter)
		require.Empty(t, got.Alert)
		require.Zero(t, got.Exchange.WireSends)
	}
	looked := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1"})
	require.Equal(t, provider.LookupNoAnswer, looked.Verdict)
	require.Equal(t, provider.HealthNeutral, looked.Health)
	require.Equal(t, provider.HealthNeutral, a.Ping(t.Context()).Health)
	require.Equal(t, len(answers), f.asks())

	g.shut = 0
	c.advance(heldFor)
	require.Equal(t, provider.Succeeded, charge(t, a, "p1").Outcome)
	require.Equal(t, provider.HealthOK, g.said[len(g.said)-1])
	require.Len(t, f.Received(), 1)
}

// While the old token serves, a failed renewal holds nothing up.
func TestAFailedRenewalHoldsNothingUp(t *testing.T) {
	t.Parallel()
	f, c := newFake(t), newClock()
	f.tokenLife = 3600
	f.tokenFails = func(w http.ResponseWriter, n int) bool {
		if n > 1 {
			page(w, http.StatusServiceUnavailable)
		}
		return n > 1
	}
	a := f.adapter(t, c.option)
	require.Equal(t, provider.Succeeded, charge(t, a, "p1").Outcome)
	c.advance(57 * time.Minute)
	require.Equal(t, provider.Succeeded, charge(t, a, "p2").Outcome)
	require.Eventually(t, func() bool { return f.asks() == 2 }, 5*time.Second, time.Millisecond)
	require.Equal(t, provider.Succeeded, charge(t, a, "p3").Outcome)
	c.advance(3 * time.Minute)
	require.Equal(t, provider.NotSent, charge(t, a, "p4").Outcome, "one that has ended is not used")
}

// PayPal took the token back before its time: the charge was not executed, and the next
// try has a new one. A fresh token that is refused is a matter of credentials.
func TestARevokedToken(t *testing.T) {
	t.Parallel()
	f, c := newFake(t), newClock()
	a := f.adapter(t, c.option)
	require.Equal(t, provider.Succeeded, charge(t, a, "p1").Outcome)
	c.advance(time.Hour)
	f.set(func() { f.revoked["A21AAtoken1"] = true })
	got := charge(t, a, "p2")
	require.Equal(t, provider.NotExecuted, got.Outcome)
	require.Equal(t, provider.NextRetry, got.Next)
	require.Empty(t, got.Alert)
	require.Equal(t, provider.Succeeded, charge(t, a, "p2").Outcome)
	require.Equal(t, 2, f.asks())

	f.set(func() { f.revoked["A21AAtoken2"] = true })
	got = charge(t, a, "p3")
	require.Equal(t, provider.NextPause, got.Next)
	require.Equal(t, provider.AlertConfig, got.Alert)

	// A lookup that meets one proves nothing and leaves a new one behind.
	f.set(func() { f.revoked["A21AAtoken3"] = true })
	require.Equal(t, provider.LookupNoAnswer, a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1"}).Verdict)
	require.Equal(t, provider.LookupFound, a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1"}).Verdict)
}

// A charge that waits for a token ends with its context, and the token arrives all the same.
func TestWaitingForATokenEnds(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	release := make(chan struct{})
	f.tokenFails = func(http.ResponseWriter, int) bool { <-release; return false }
	a := f.adapter(t)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(provider.ErrShutdown)
	got := a.Charge(ctx, "k1", []byte(`{}`), asked49)
	require.Equal(t, provider.NotSent, got.Outcome)
	require.Equal(t, provider.ReasonShutdownBefore, got.Reason)
	require.Equal(t, provider.HealthNeutral, got.Health)

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	got = a.Charge(ctx, "k1", []byte(`{}`), asked49)
	require.Equal(t, provider.NotSent, got.Outcome)
	require.Equal(t, reasonAuthDown, got.Reason)
	require.Equal(t, provider.HealthNeutral, got.Health)
	close(release)
	_, err := a.tokens.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, f.asks())

	// What is left of its time would not be enough for an answer.
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got = a.Charge(ctx, "k1", []byte(`{}`), asked49)
	require.Equal(t, provider.NotSent, got.Outcome)
	require.Equal(t, reasonAuthDown, got.Reason)
	require.Empty(t, f.Received())
}

// No card number, token or secret in anything that is kept.
func TestTokensAreNotKept(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	f.Next(providertest.Unauthorized)
	got := charge(t, a, "p1")
	require.NotContains(t, string(got.Exchange.Body), "A21AAtoken")
	_, err := readToken(provider.Exchange{Status: 200, Body: []byte(`{"access_token":"A21AAsecret"}`)}, time.Now())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "A21AA")
}
