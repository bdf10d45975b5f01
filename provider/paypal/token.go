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
	// The pause after a failure: it doubles from the first to the last.
	firstTokenPause = time.Second
	lastTokenPause  = 30 * time.Second
)

// Reasons of a call that did not go out for want of a token.
const (
	reasonAuthRefused   = provider.ReasonUnauthorized // PayPal does not take our client id and secret
	reasonAuthThrottled = provider.ReasonThrottled    // too many tokens asked for
	reasonAuthDown      = "auth_unavailable"          // no token to be had now
)

// tokenError is why there is no token.
type tokenError struct {
	reason string
	err    error
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
	basic  string
	now    func() time.Time

	mu       sync.Mutex
	current  token
	flight   *flight
	failures int
	err      error     // of the last request
	again    time.Time // no request before
}

// flight is a request for a token under way.
type flight struct {
	done  chan struct{}
	token token
	err   error
}

func newTokens(c *provider.Caller, basic string, now func() time.Time) *tokens {
	return &tokens{caller: c, basic: "Basic " + basic, now: now}
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

// fetch makes the one request, on a context of its own: the caller that began it may
// leave, the others wait on. Its deadline is the provider's whole-answer deadline.
func (t *tokens) fetch(f *flight) {
	ex := t.caller.AskOnce(context.Background(), provider.Call{
		Method: http.MethodPost, Path: "v1/oauth2/token", Body: []byte("grant_type=client_credentials"),
		Header: http.Header{
			"Authorization": {t.basic}, "Accept": {"application/json"}, "User-Agent": {"fusebox"},
			"Content-Type": {"application/x-www-form-urlencoded"},
		},
	})
	now := t.now()
	f.token, f.err = readToken(ex, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flight = nil
	if f.err == nil {
		t.current, t.failures, t.err, t.again = f.token, 0, nil, time.Time{}
	} else {
		pause := min(firstTokenPause<<min(t.failures, 10), lastTokenPause)
		t.failures++
		t.err, t.again = f.err, now.Add(max(pause, provider.ParseRetryAfter(ex.RetryAfter, now)))
	}
	close(f.done)
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
	if err := json.Unmarshal(ex.Body, &body); err != nil || body.Token == "" || !printable(body.Token) || body.Expires <= 0 {
		return fail(reasonAuthDown, errToken)
	}
	life := longestToken
	if body.Expires < int64(longestToken/time.Second) {
		life = time.Duration(body.Expires) * time.Second
	}
	return token{text: body.Token, obtained: now, ends: now.Add(life - tokenMargin)}, nil
}
