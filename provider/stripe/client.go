package stripe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	sdk "github.com/stripe/stripe-go/v85"

	"fusebox/provider"
)

// placeholder is the host stripe-go is told; the round tripper puts the configured one
// in its place.
const placeholder = "http://stripe.invalid"

// client is stripe-go on top of our guarded caller.
type client struct {
	caller  *provider.Caller
	backend sdk.Backend
	key     string
	account string // a connected account that is charged instead of the key's own
}

func newClient(s provider.Settings, o Options) (*client, error) {
	caller, err := provider.NewCaller(s, o)
	if err != nil {
		return nil, err
	}
	backend := sdk.GetBackendWithConfig(sdk.APIBackend, &sdk.BackendConfig{
		URL:               sdk.String(placeholder),
		MaxNetworkRetries: sdk.Int64(0),
		EnableTelemetry:   sdk.Bool(false),
		LeveledLogger:     &sdk.LeveledLogger{Level: sdk.LevelNull},
		HTTPClient: &http.Client{
			Transport:     roundTripper{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	return &client{caller: caller, backend: backend, key: s.APIKey, account: s.Account}, nil
}

// post makes the one wire send of a money call.
func (c *client) post(ctx context.Context, path, key string, body []byte) provider.Exchange {
	s := send{do: func(ctx context.Context, call provider.Call) (provider.Exchange, int) {
		return c.caller.Do(ctx, call), 1
	}}
	c.call(ctx, &s, http.MethodPost, path, body, &sdk.Params{IdempotencyKey: sdk.String(key)})
	return s.exchange
}

// get asks a question, with the caller's tries, and says how many requests it took.
func (c *client) get(ctx context.Context, path string, query url.Values) (provider.Exchange, int) {
	s := send{do: c.caller.Ask}
	c.call(ctx, &s, http.MethodGet, path, []byte(query.Encode()), &sdk.Params{})
	return s.exchange, s.requests
}

// getOnce asks a question with one request.
func (c *client) getOnce(ctx context.Context, path string) provider.Exchange {
	s := send{do: func(ctx context.Context, call provider.Call) (provider.Exchange, int) {
		return c.caller.AskOnce(ctx, call), 1
	}}
	c.call(ctx, &s, http.MethodGet, path, nil, &sdk.Params{})
	return s.exchange
}

// call runs one request through stripe-go. What stripe-go makes of the answer is
// dropped: the exchange holds the answer as it came.
func (c *client) call(ctx context.Context, s *send, method, path string, body []byte, p *sdk.Params) {
	p.Context = context.WithValue(ctx, sendKey{}, s)
	if c.account != "" {
		p.StripeAccount = sdk.String(c.account)
	}
	err := c.backend.CallRaw(method, path, c.key, body, p, &discard{})
	if s.made {
		return
	}
	if err == nil {
		err = errNotMade
	}
	s.exchange = local(method, err)
}

// local is a call that stripe-go refused to make.
func local(method string, err error) provider.Exchange {
	return provider.Exchange{Method: method, Err: &provider.LocalError{Err: err}}
}

var (
	errNotMade = errors.New("stripe-go made no request")
	errTwice   = errors.New("a second request within one call")
)

// send is one call and what became of it; the context carries it to the round tripper.
type send struct {
	do       func(context.Context, provider.Call) (provider.Exchange, int) // the caller's way to make it
	made     bool
	exchange provider.Exchange
	requests int
}

type sendKey struct{}

// roundTripper is stripe-go's way to the network. It takes the request apart and sends
// its parts through the caller: the request itself carries a GetBody, with which
// net/http would send it again.
type roundTripper struct{}

// RoundTrip implements http.RoundTripper.
func (roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	s, ok := req.Context().Value(sendKey{}).(*send)
	if !ok || s.made {
		return nil, errTwice
	}
	call, err := callOf(req)
	if err != nil {
		return nil, err
	}
	s.made = true
	s.exchange, s.requests = s.do(req.Context(), call)
	if s.exchange.Err != nil {
		return nil, s.exchange.Err
	}
	return response(req, s.exchange), nil
}

// callOf takes a request apart. stripe-go's own User-Agent headers describe the machine
// it runs on; ours says what is calling.
func callOf(req *http.Request) (provider.Call, error) {
	call := provider.Call{Method: req.Method, Path: req.URL.EscapedPath(), Query: req.URL.Query(), Header: req.Header.Clone()}
	call.Header.Del("X-Stripe-Client-User-Agent")
	call.Header.Set("User-Agent", "fusebox stripe-go/"+sdk.ClientVersion)
	call.Header.Set("Accept", "application/json")
	if req.Method != http.MethodPost {
		call.Header.Del("Content-Type")
		return call, nil
	}
	body, err := io.ReadAll(req.Body)
	call.Body = body
	return call, err
}

// response is what stripe-go gets to see of an exchange. It has no Location: a redirect
// is not followed and must not look like something to follow.
func response(req *http.Request, ex provider.Exchange) *http.Response {
	return &http.Response{
		Status: http.StatusText(ex.Status), StatusCode: ex.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Request-Id": {ex.RequestID}, "Content-Type": {ex.ContentType}},
		Body:          io.NopCloser(bytes.NewReader(ex.Body)),
		ContentLength: int64(len(ex.Body)),
		Request:       req,
	}
}

// discard is the answer type we ask stripe-go for: none.
type discard struct{ sdk.APIResource }

// UnmarshalJSON implements json.Unmarshaler.
func (*discard) UnmarshalJSON([]byte) error { return nil }
