package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// DefaultIdleTimeout is how long an unused connection is kept. It has to be shorter
// than any provider's own (5 s is the shortest common default, Node's), or charges
// meet connections that are being closed.
const DefaultIdleTimeout = 4 * time.Second

// maxHeaderBytes caps an answer's header block.
const maxHeaderBytes = 64 << 10

// newTransport returns the transport of one provider. It has no proxy (a proxy may
// resend on its own), no automatic decompression (caps count wire bytes), and bounds
// of its own for every phase.
func newTransport(s Settings, o CallerOptions, keepAlive bool, idle int) *http.Transport {
	d := dialer{connect: s.ConnectTimeout, tls: o.TLS, net: &net.Dialer{KeepAlive: 15 * time.Second, Resolver: o.Resolver}}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	d.alpn = []string{"http/1.1"}
	if o.HTTP2 && keepAlive {
		protocols.SetHTTP2(true)
		d.alpn = []string{"h2", "http/1.1"}
	}
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		Protocols:              protocols,
		DisableKeepAlives:      !keepAlive,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        o.IdleTimeout,
		ResponseHeaderTimeout:  s.AnswerTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// dialer makes wrapped connections. One budget covers name lookup, TCP and TLS.
type dialer struct {
	connect time.Duration
	tls     *tls.Config
	alpn    []string
	net     *net.Dialer
}

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	return d.tcp(ctx, network, addr)
}

func (d dialer) tcp(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, connectError(err, ReasonDial)
	}
	return &wireConn{Conn: c}, nil
}

func (d dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	c, err := d.tcp(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := tls.Client(c, d.config(addr))
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, connectError(err, ReasonTLS)
	}
	return t, nil
}

func (d dialer) config(addr string) *tls.Config {
	c := &tls.Config{}
	if d.tls != nil {
		c = d.tls.Clone()
	}
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.NextProtos = d.alpn
	if c.ServerName == "" {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			c.ServerName = host
		}
	}
	return c
}

// connectError names the phase for people; that nothing was sent is known without it.
func connectError(err error, phase string) error {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		phase = ReasonDNS
	case errors.Is(err, context.DeadlineExceeded), phase == ReasonDial && errors.As(err, &timeout) && timeout.Timeout():
		phase = ReasonConnectTimeout
	}
	return &ConnectError{Phase: phase, Err: err}
}

// joinURL appends a path and query to a base URL that may have a path of its own. It is
// what parsing its text would give.
func joinURL(base *url.URL, path string, query url.Values) *url.URL {
	u := base.JoinPath(path)
	if u.Path != "" && u.Path[0] != '/' { // joined to a base without a path
		u.Path = "/" + u.Path
		if u.RawPath != "" {
			u.RawPath = "/" + u.RawPath
		}
	}
	u.RawQuery = query.Encode()
	return u
}
