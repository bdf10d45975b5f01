package provider

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rawServer is a provider that can misbehave below HTTP. It counts the requests whose
// head arrived.
type rawServer struct {
	net.Listener
	url      string
	requests atomic.Int32
	conns    atomic.Int32
}

// rawConn is one accepted connection.
type rawConn struct {
	net.Conn
	srv *rawServer
	in  *bufio.Reader
}

// newRaw serves every connection with serve, in a goroutine of its own.
func newRaw(t *testing.T, serve func(c *rawConn)) *rawServer {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	return serveRaw(t, l, "http://"+l.Addr().String(), serve)
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	return l
}

// newRawTLS is newRaw behind TLS.
func newRawTLS(t *testing.T, conf *tls.Config, serve func(c *rawConn)) *rawServer {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	return serveRaw(t, tls.NewListener(l, conf), "https://"+l.Addr().String(), serve)
}

func serveRaw(t *testing.T, l net.Listener, url string, serve func(c *rawConn)) *rawServer {
	t.Helper()
	s := &rawServer{Listener: l, url: url}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				serve(&rawConn{Conn: c, srv: s, in: bufio.NewReader(c)})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

// request reads one whole request; nil at the end of the connection.
func (c *rawConn) request() *http.Request {
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return nil
	}
	c.srv.requests.Add(1)
	if _, err := io.ReadAll(req.Body); err != nil {
		return nil
	}
	return req
}

// reply writes raw bytes.
func (c *rawConn) reply(s string) { _, _ = io.WriteString(c, s) }

// reset closes with RST instead of FIN.
func (c *rawConn) reset() {
	under := c.Conn
	if t, ok := under.(*tls.Conn); ok {
		under = t.NetConn()
	}
	if tcp, ok := under.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

const okReply = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// certificate makes a self-signed server certificate for 127.0.0.1, ::1 and localhost,
// and the pool that trusts it.
func certificate(t *testing.T, notAfter time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provider"},
		NotBefore: notAfter.Add(-48 * time.Hour), NotAfter: notAfter,
		DNSNames: []string{"localhost", "provider.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// testSettings are valid settings for a server at url, with short budgets.
func testSettings(url string) Settings {
	return Settings{
		Name: "atlas", BaseURL: url, APIKey: "key", WebhookSecrets: []string{"secret"},
		ConnectTimeout: 5 * time.Second, AnswerTimeout: 15 * time.Second,
	}.WithDefaults()
}

func newTestCaller(t *testing.T, s Settings, o CallerOptions) *Caller {
	t.Helper()
	c, err := NewCaller(s, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// post is a charge as the adapters make it.
func post() Call {
	return Call{Method: http.MethodPost, Path: "payments", Header: http.Header{"Idempotency-Key": {"k1"}}, Body: []byte(`{"amount":4900}`)}
}

// classify reads an exchange without a body of interest.
func classify(ex Exchange) Classification {
	return Classify(ex, Answer{Malformed: true}, Money{Amount: 4900, Currency: "EUR"})
}
