package paypal

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"fusebox/provider"
)

const (
	// tokenMargin is how long before its end a token is not used any more.
	tokenMargin = 30 * time.Second
	// tokenEarly is how long before its end a token is renewed while it is still used.
	tokenEarly = 5 * time.Minute
	// longestToken bounds what a token's life is believed to be.
	longestToken = 24 * time.Hour
	// The pause after an answer that says nothing about health, a refusal or a throttle: it
	// doubles from the first to the last. What does say something is the circuit's matter.
	firstTokenPause = time.Second
	lastTokenPause  = 30 * time.Second
)

// Reasons of a call that did not go out for want of a token.
const (
	reasonAuthRefused   = provider.ReasonUnauthorized // PayPal does not take our client id and secret
	reasonAuthThrottled = provider.ReasonThrottled    // too many tokens asked for
	reasonAuthDown      = provider.ReasonNoToken      // no token to be had now
)

// heldFor is how long a refusal of the circuit is repeated without asking again, so that a
// crowd of charges asks it once and a person's reset is still heard at once.
const heldFor = time.Second

// tokenError is why there is no token.
type tokenError struct {
	reason string
	err    error
	until  time.Time // nothing is asked before; zero: the next call asks
}

// Error implements error.
func (e *tokenError) Error() string { return e.reason + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *tokenError) Unwrap() error { return e.err }

// token is an OAuth token in use.
type token struct {
	text     string
	obtained time.Time
	ends     time.Time // when it is not used any more
}

// tokens holds the app's token. At most one request for a token is under way, whoever
// waits for it, and it outlives whoever began it.
type tokens struct {
	caller *provider.Caller
	guard  provider.Guard
	basic  string
	now    func() time.Time

	mu      sync.Mutex
	current token
	flight  *flight
	pauses  int       // in a row
	err     error     // of the last request
	again   time.Time // no request before
}

// flight is a request for a token under way.
type flight struct {
	done  chan struct{}
	token token
	err   error
}

func newTokens(c *provider.Caller, guard provider.Guard, basic string, now func() time.Time) *tokens {
	return &tokens{caller: c, guard: guard, basic: "Basic " + basic, now: now}
}

// basic is the client id and secret as the token endpoint wants them.
func basic(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(id + ":" + secret))
}

// get returns a token to use now. The error is a *tokenError, or the end of ctx.
func (t *tokens) get(ctx context.Context) (token, error) {
	tok, f, err := t.have()
	if f == nil {
		return tok, err
	}
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return token{}, context.Cause(ctx)
	}
}

// have returns what there is: a token, or why there is none, or the request to wait for.
func (t *tokens) have() (token, *flight, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	usable := t.current.text != "" && now.Before(t.current.ends)
	resting := now.Before(t.again)
	if !resting && t.flight == nil && (!usable || now.After(t.current.ends.Add(tokenMargin-tokenEarly))) {
		t.flight = &flight{done: make(chan struct{})}
		go t.fetch(t.flight)
	}
	switch {
	case usable:
		return t.current, nil, nil
	case t.flight != nil:
		return token{}, t.flight, nil
	}
	return token{}, nil, t.err
}

// drop forgets a token that PayPal does not take any more, unless it was renewed.
func (t *tokens) drop(stale token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.text == stale.text {
		t.current = token{}
	}
}

// fetch makes the one request, if the circuit admits it, on a context of its own: the
// caller that began it may leave, the others wait on. Its deadline is the provider's
// whole-answer deadline.
func (t *tokens) fetch(f *flight) {
	report, err := t.guard.Ask(context.Background())
	if err != nil {
		t.land(f, t.heldBack(err))
		return
	}
	ex := t.caller.AskOnce(context.Background(), provider.Call{
		Method: http.MethodPost, Path: "v1/oauth2/token", Body: []byte("grant_type=client_credentials"),
		Header: http.Header{
			"Authorization": {t.basic}, "Accept": {"application/json"}, "User-Agent": {"fusebox"},
			"Content-Type": {"application/x-www-form-urlencoded"},
		},
	})
	tok, err := readToken(ex, t.now())
	f.token = tok
	said := provider.ClassifyPing(ex, err == nil)
	report(said.Health, ex.Latency(), said.Reason)
	t.land(f, t.rest(err, ex, said.Health))
}

// land ends a flight. err is nil when it brought a token.
func (t *tokens) land(f *flight, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flight = nil
	if f.err = err; err == nil {
		t.current, t.pauses, t.again = f.token, 0, time.Time{}
	}
	t.err = err
	close(f.done)
}

// heldBack is a request that the circuit did not admit.
func (t *tokens) heldBack(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, wait := t.now(), heldFor
	var held *provider.HeldBackError
	if errors.As(err, &held) {
		wait = held.RetryAfter
	}
	t.again = now.Add(min(wait, heldFor))
	return &tokenError{reason: reasonAuthDown, err: err, until: now.Add(wait)}
}

// rest sets the pause after a request that brought no token, and tells it to who waits.
func (t *tokens) rest(err error, ex provider.Exchange, health provider.Verdict) error {
	var te *tokenError
	if !errors.As(err, &te) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	pause := provider.ParseRetryAfter(ex.RetryAfter, now)
	if health == provider.HealthNeutral {
		pause = max(pause, min(firstTokenPause<<min(t.pauses, 10), lastTokenPause))
		t.pauses++
	}
	if pause > 0 {
		t.again = now.Add(pause)
		te.until = t.again
	}
	return te
}

var errToken = errors.New("the answer holds no usable token")

// readToken reads the token endpoint's answer. Nothing of the body is kept.
func readToken(ex provider.Exchange, now time.Time) (token, error) {
	fail := func(reason string, err error) (token, error) { return token{}, &tokenError{reason: reason, err: err} }
	status := errors.New("status " + http.StatusText(ex.Status))
	switch {
	case ex.Err != nil:
		return fail(reasonAuthDown, ex.Err)
	case ex.Status == http.StatusUnauthorized, ex.Status == http.StatusForbidden, ex.Status == http.StatusBadRequest:
		return fail(reasonAuthRefused, status)
	case ex.Status == http.StatusTooManyRequests:
		return fail(reasonAuthThrottled, status)
	case ex.Status != http.StatusOK:
		return fail(reasonAuthDown, status)
	}
	var body struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int64  `json:"expires_in"` // seconds
	}
	if err := json.Unmarshal(ex.Body, &body); err != nil || body.Token == "" || !provider.Printable(body.Token) || body.Expires <= 0 {
		return fail(reasonAuthDown, errToken)
	}
	life := longestToken
	if body.Expires < int64(longestToken/time.Second) {
		life = time.Duration(body.Expires) * time.Second
	}
	return token{text: body.Token, obtained: now, ends: now.Add(life - tokenMargin)}, nil
}
