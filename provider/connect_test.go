package provider

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// fakeDNS answers every name with the given addresses, or NXDOMAIN with none. With
// silent it never answers.
func fakeDNS(t *testing.T, silent bool, addrs ...net.IP) *net.Resolver {
	t.Helper()
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := dnsAnswer(buf[:n], addrs); answer != nil && !silent {
				_, _ = pc.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func dnsAnswer(query []byte, addrs []net.IP) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if len(addrs) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, ip := range addrs {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
		switch v4 := ip.To4(); {
		case q.Type == dnsmessage.TypeA && v4 != nil:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
		case q.Type == dnsmessage.TypeAAAA && v4 == nil:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// blackHole returns the port of an address that swallows connections: its accept queue
// is full, so the kernel drops every further SYN.
func blackHole(t *testing.T, ip net.IP) int {
	t.Helper()
	family, sa := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: [16]byte(ip.To16())})
	if v4 := ip.To4(); v4 != nil {
		family, sa = syscall.AF_INET, &syscall.SockaddrInet4{Addr: [4]byte(v4)}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, sa))
	require.NoError(t, syscall.Listen(fd, 0))
	bound, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	port := 0
	switch b := bound.(type) {
	case *syscall.SockaddrInet4:
		port = b.Port
	case *syscall.SockaddrInet6:
		port = b.Port
	}
	addr := net.JoinHostPort(ip.String(), strconv.Itoa(port))
	d := net.Dialer{Timeout: 200 * time.Millisecond}
	for range 8 { // fill the queue; the first that hangs proves that it is full
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the accept queue never filled")
	return 0
}

func requireNotSent(t *testing.T, ex Exchange, reason string) {
	t.Helper()
	require.Error(t, ex.Err)
	require.Zero(t, ex.WireSends)
	require.False(t, ex.HeaderWritten)
	require.True(t, ex.FirstSentAt.IsZero())
	got := classify(ex)
	require.Equal(t, reason, got.Reason, "%v", ex.Err)
	require.Equal(t, NotSent, got.Outcome)
	require.Equal(t, HealthFail, got.Health)
	require.Equal(t, NextRetry, got.Next)
}

func TestC15_NothingWasSent(t *testing.T) {
	t.Parallel()
	hang := func(t *testing.T) string { // accepts and never speaks
		return newRaw(t, func(c *rawConn) { _, _ = c.in.ReadByte(); <-t.Context().Done() }).url
	}
	httpsOf := func(url string) string { return strings.Replace(url, "http://", "https://", 1) }

	t.Run("NXDOMAIN", func(t *testing.T) {
		t.Parallel()
		c := newTestCaller(t, testSettings("http://pay.provider.test"), CallerOptions{Resolver: fakeDNS(t, false)})
		requireNotSent(t, c.Do(t.Context(), post()), ReasonDNS)
	})
	t.Run("silent DNS", func(t *testing.T) {
		t.Parallel()
		s := testSettings("http://pay.provider.test")
		s.ConnectTimeout = 200 * time.Millisecond
		c := newTestCaller(t, s, CallerOptions{Resolver: fakeDNS(t, true)})
		ex := c.Do(t.Context(), post())
		requireNotSent(t, ex, ReasonDNS)
		require.Less(t, ex.Latency(), 4*time.Second)
	})
	t.Run("connection refused", func(t *testing.T) {
		t.Parallel()
		l := listen(t, "127.0.0.1:0")
		require.NoError(t, l.Close())
		c := newTestCaller(t, testSettings("http://"+l.Addr().String()), CallerOptions{})
		requireNotSent(t, c.Do(t.Context(), post()), ReasonDial)
	})
	t.Run("black hole", func(t *testing.T) {
		t.Parallel()
		s := testSettings("http://127.0.0.1:" + strconv.Itoa(blackHole(t, net.IPv4(127, 0, 0, 1))))
		s.ConnectTimeout = 200 * time.Millisecond
		c := newTestCaller(t, s, CallerOptions{})
		ex := c.Do(t.Context(), post())
		requireNotSent(t, ex, ReasonConnectTimeout)
		require.Less(t, ex.Latency(), 4*time.Second)
	})
	t.Run("TLS handshake timeout", func(t *testing.T) {
		t.Parallel()
		s := testSettings(httpsOf(hang(t)))
		s.ConnectTimeout = 200 * time.Millisecond
		c := newTestCaller(t, s, CallerOptions{})
		ex := c.Do(t.Context(), post())
		requireNotSent(t, ex, ReasonConnectTimeout)
		require.Less(t, ex.Latency(), 4*time.Second, "one budget covers name, TCP and TLS")
	})
	t.Run("TLS on a plain port", func(t *testing.T) {
		t.Parallel()
		srv := newRaw(t, func(c *rawConn) { c.reply("HTTP/1.1 400 Bad Request\r\n\r\n") })
		c := newTestCaller(t, testSettings(httpsOf(srv.url)), CallerOptions{})
		requireNotSent(t, c.Do(t.Context(), post()), ReasonTLS)
	})
	t.Run("certificate expired", func(t *testing.T) {
		t.Parallel()
		cert, pool := certificate(t, time.Now().Add(-time.Hour))
		srv := newRawTLS(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(c *rawConn) { c.request() })
		c := newTestCaller(t, testSettings(srv.url), CallerOptions{TLS: &tls.Config{RootCAs: pool}})
		requireNotSent(t, c.Do(t.Context(), post()), ReasonTLS)
		require.Zero(t, srv.requests.Load())
	})
	t.Run("certificate of a stranger", func(t *testing.T) {
		t.Parallel()
		cert, _ := certificate(t, time.Now().Add(time.Hour))
		srv := newRawTLS(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(c *rawConn) { c.request() })
		c := newTestCaller(t, testSettings(srv.url), CallerOptions{})
		requireNotSent(t, c.Do(t.Context(), post()), ReasonTLS)
	})
	t.Run("deadline before a connection", func(t *testing.T) {
		t.Parallel()
		s := testSettings("http://127.0.0.1:" + strconv.Itoa(blackHole(t, net.IPv4(127, 0, 0, 1))))
		s.AnswerTimeout = 100 * time.Millisecond
		c := newTestCaller(t, s, CallerOptions{})
		ex := c.Do(t.Context(), post())
		require.True(t, ex.Expired)
		requireNotSent(t, ex, ReasonDeadlineBefore)
	})
}

// A dead IPv6 path must not cost the charge while IPv4 works.
func TestC15_IPv6BlackHoleThenIPv4Works(t *testing.T) {
	t.Parallel()
	v6 := net.ParseIP("::1")
	port := blackHole(t, v6)
	l := listen(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	serveRaw(t, l, "", func(c *rawConn) { c.request(); c.reply(okReply) })
	c := newTestCaller(t, testSettings("http://pay.provider.test:"+strconv.Itoa(port)),
		CallerOptions{Resolver: fakeDNS(t, false, v6, net.IPv4(127, 0, 0, 1))})
	ex := c.Do(t.Context(), post())
	require.NoError(t, ex.Err)
	require.Equal(t, http.StatusOK, ex.Status)
	require.Equal(t, 1, ex.WireSends)
}

func TestC15_MaybeSentIsUnknown(t *testing.T) {
	t.Parallel()
	t.Run("reset while the body is written", func(t *testing.T) {
		t.Parallel()
		srv := newRaw(t, func(c *rawConn) {
			_, _ = c.in.ReadString('\n') // the request line, no more
			c.reset()
		})
		c := newTestCaller(t, testSettings(srv.url), CallerOptions{})
		call := post()
		call.Body = make([]byte, 16<<20) // more than any socket buffer
		ex := c.Do(t.Context(), call)
		require.Error(t, ex.Err)
		require.Equal(t, 1, ex.WireSends)
		got := classify(ex)
		require.Equal(t, Unknown, got.Outcome)
		require.Equal(t, HealthFail, got.Health)
		require.Equal(t, NextReconcile, got.Next)
	})
	t.Run("read timeout after a full write", func(t *testing.T) {
		t.Parallel()
		srv := newRaw(t, func(c *rawConn) { c.request(); _, _ = c.in.ReadByte() })
		s := testSettings(srv.url)
		s.AnswerTimeout = time.Second
		c := newTestCaller(t, s, CallerOptions{})
		ex := c.Do(t.Context(), post())
		require.True(t, ex.Expired)
		require.EqualValues(t, 1, srv.requests.Load())
		got := classify(ex)
		require.Equal(t, ReasonTimeoutAfter, got.Reason)
		require.Equal(t, Unknown, got.Outcome)
		require.Equal(t, HealthFail, got.Health)
		require.False(t, ex.FirstSentAt.IsZero())
		require.True(t, ex.FirstByteAt.IsZero())
	})
	t.Run("garbage instead of HTTP", func(t *testing.T) {
		t.Parallel()
		srv := newRaw(t, func(c *rawConn) { c.request(); c.reply("SSH-2.0-OpenSSH_9.6\r\n") })
		c := newTestCaller(t, testSettings(srv.url), CallerOptions{})
		got := classify(c.Do(t.Context(), post()))
		require.Equal(t, Unknown, got.Outcome)
		require.Equal(t, ReasonCutAfterSend, got.Reason)
	})
}
