package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// Caps on an answer's body.
const (
	MaxMoneyBody = 64 << 10 // a charge's answer
	MaxAskBody   = 4 << 20  // a lookup's answer: a page of a list
)

// Call is one request to a provider.
type Call struct {
	Method string
	Path   string // below the configured base URL
	Query  url.Values
	Header http.Header
	Body   []byte
}

// CallerOptions are the parts of a Caller that tests and special providers replace.
// The zero value is for production.
type CallerOptions struct {
	Now      func() time.Time
	Sleep    func(ctx context.Context, d time.Duration) error // between a lookup's tries
	Resolver *net.Resolver
	TLS      *tls.Config // root certificates and the like; protocols and minimum version are ours
	// HTTP2 lets the connection be shared by calls. Off by default: one GOAWAY or one
	// broken connection would make every charge in flight unknown at once.
	HTTP2 bool
	// ConnectionPerCall gives every money call a connection of its own, for a provider
	// that moves money on GET.
	ConnectionPerCall bool
	IdleTimeout       time.Duration // default DefaultIdleTimeout
	RequestIDHeader   string        // default "Request-Id"
	ReplayedHeader    string        // default "Idempotent-Replayed"; its value must be "true"
	KeepHeaders       []string      // further answer headers the adapter reads; see Exchange.Kept
}

func (o CallerOptions) withDefaults() CallerOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.RequestIDHeader == "" {
		o.RequestIDHeader = "Request-Id"
	}
	if o.ReplayedHeader == "" {
		o.ReplayedHeader = "Idempotent-Replayed"
	}
	return o
}

// Caller is the guarded HTTP client of one provider. It works on http.Transport and
// not on http.Client: there is no redirect, cookie or retry to switch off. Money calls
// and questions have transports of their own.
type Caller struct {
	base         *url.URL
	answer       time.Duration
	opts         CallerOptions
	secrets      [][]byte // credentials that no answer may repeat
	money, query *http.Transport
}

// NewCaller returns a caller for validated settings.
func NewCaller(s Settings, o CallerOptions) (*Caller, error) {
	base, err := parseBase(s.BaseURL)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Caller{
		base: base, answer: s.AnswerTimeout, opts: o, secrets: ownSecrets(s),
		money: newTransport(s, o, !o.ConnectionPerCall, s.ChargeWorkers),
		query: newTransport(s, o, true, s.StatusWorkers),
	}, nil
}

// Close closes idle connections.
func (c *Caller) Close() {
	c.money.CloseIdleConnections()
	c.query.CloseIdleConnections()
}

// Do makes a money call: at most one wire send, no redirect, no retry, the whole
// answer within the provider's answer timeout. What happened is in the Exchange.
func (c *Caller) Do(ctx context.Context, call Call) Exchange {
	return c.once(ctx, c.money, call, MaxMoneyBody)
}

// once sends a call at most once and reads its answer.
func (c *Caller) once(ctx context.Context, rt *http.Transport, call Call, limit int64) (ex Exchange) {
	ex = Exchange{Method: call.Method, StartedAt: c.opts.Now()}
	ctx, cancel := context.WithTimeoutCause(ctx, c.answer, errAnswerDeadline)
	defer cancel()
	w := &wireTrace{now: c.opts.Now}
	defer func() {
		w.end(&ex)
		ex.DoneAt = c.opts.Now()
		judge(ctx, &ex)
	}()
	req, err := c.request(httptrace.WithClientTrace(ctx, w.hooks()), call)
	if err != nil {
		ex.Err = &LocalError{Err: err}
		return ex
	}
	ex.URL = req.URL.String()
	res, err := rt.RoundTrip(req)
	if err != nil {
		ex.Err = err
		return ex
	}
	defer func() { _ = res.Body.Close() }()
	c.note(&ex, res)
	ex.Body, ex.BodyComplete, ex.Err = readCapped(res.Body, limit)
	ex.Body = c.hide(ex.Body)
	return ex
}

// request builds the request. GetBody stays nil: with it net/http sends a keyed POST
// again when a kept-alive connection is cut (six times with five idle connections),
// and any POST on some HTTP/2 errors.
func (c *Caller) request(ctx context.Context, call Call) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, call.Method, "/", nil)
	if err != nil {
		return nil, err
	}
	req.URL = joinURL(c.base, call.Path, call.Query)
	req.URL.Host = strings.TrimSuffix(req.URL.Host, ":")
	req.Host = req.URL.Host
	if len(call.Body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(call.Body)), int64(len(call.Body))
	}
	req.Header, err = sendable(call.Header)
	return req, err
}

// sendable checks headers and returns them under their canonical names: h itself, which
// net/http only reads, if they have those already.
func sendable(h http.Header) (http.Header, error) {
	canonical := h != nil
	for k, vs := range h {
		for _, v := range vs {
			if !headerSafe(v) {
				return nil, &FieldError{Field: k, Reason: "not printable ASCII"}
			}
		}
		canonical = canonical && k == http.CanonicalHeaderKey(k)
	}
	if canonical {
		return h, nil
	}
	out := make(http.Header, len(h))
	for k, vs := range h {
		out[http.CanonicalHeaderKey(k)] = vs
	}
	return out, nil
}

// headerSafe reports whether v can stand in a header unchanged.
func headerSafe(v string) bool {
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return false
		}
	}
	return true
}

func (c *Caller) note(ex *Exchange, res *http.Response) {
	h := func(name string) string {
		v := res.Header.Get(name)
		if v == "" {
			return ""
		}
		return cut(RedactText(string(c.hide([]byte(v)))), 500)
	}
	ex.Status = res.StatusCode
	ex.ContentType = h("Content-Type")
	ex.Server = h("Server")
	ex.Location = h("Location")
	ex.RetryAfter = h("Retry-After")
	ex.RequestID = h(c.opts.RequestIDHeader)
	ex.Replayed = res.Header.Get(c.opts.ReplayedHeader) == "true"
	for _, name := range c.opts.KeepHeaders {
		if v := h(name); v != "" {
			if ex.Kept == nil {
				ex.Kept = http.Header{}
			}
			ex.Kept.Set(name, v)
		}
	}
}

// readCapped reads at most limit bytes. A longer body is not complete and no error.
func readCapped(r io.Reader, limit int64) (body []byte, complete bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(body)) > limit {
		return body[:limit], false, nil
	}
	return body, err == nil, err
}

// judge says whose end a failed call was, by our own context and not by the error:
// the same "context canceled" text comes from a shutdown and from a lost race. The
// deadline is read from the clock too, because a transport timer set to the same moment
// can come back before the context's own timer has been scheduled.
func judge(ctx context.Context, ex *Exchange) {
	if ex.Err == nil {
		return
	}
	deadline, _ := ctx.Deadline()
	switch err := ctx.Err(); {
	case errors.Is(context.Cause(ctx), ErrShutdown):
		ex.Cancelled = true
	case errors.Is(err, context.DeadlineExceeded), err == nil && !time.Now().Before(deadline):
		ex.Expired = true
	case err != nil:
		ex.Cancelled = true
	}
}

// cut shortens s to at most n bytes.
func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
