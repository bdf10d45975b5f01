package provider

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// h2 serves raw HTTP/2: it reads each request to its end and answers as told.
func h2(refuse func(f *http2.Framer, stream uint32)) func(*rawConn) {
	return func(c *rawConn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c.in, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		f := http2.NewFramer(c, c.in)
		if f.WriteSettings() != nil {
			return
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch fr := frame.(type) {
			case *http2.SettingsFrame:
				if !fr.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				c.srv.requests.Add(1)
				if fr.StreamEnded() {
					refuse(f, fr.StreamID)
				}
			case *http2.DataFrame:
				if fr.StreamEnded() {
					refuse(f, fr.StreamID)
				}
			}
		}
	}
}

func TestC02_OneSendOnHTTP2(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t, time.Now().Add(time.Hour))
	rst := func(code http2.ErrCode) func(*http2.Framer, uint32) {
		return func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, code) }
	}
	for name, refuse := range map[string]func(*http2.Framer, uint32){
		"PROTOCOL_ERROR": rst(http2.ErrCodeProtocol),
		"REFUSED_STREAM": rst(http2.ErrCodeRefusedStream),
		"INTERNAL_ERROR": rst(http2.ErrCodeInternal),
		"CANCEL":         rst(http2.ErrCodeCancel),
		"GOAWAY":         func(f *http2.Framer, _ uint32) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newRawTLS(t, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}, h2(refuse))
			c := newTestCaller(t, testSettings(srv.url), CallerOptions{HTTP2: true, TLS: &tls.Config{RootCAs: pool}})

			call := post()
			call.Header = nil // no key at all
			ex := c.Do(t.Context(), call)

			require.EqualValues(t, 1, srv.requests.Load())
			require.Equal(t, 1, ex.WireSends)
			got := classify(ex)
			require.Equal(t, Unknown, got.Outcome, "%v", ex.Err)
			require.Equal(t, HealthFail, got.Health)
		})
	}
}

// Without the guard the same server is asked over and over.
func TestC02_StandardClientWouldResend(t *testing.T) {
	t.Parallel()
	cert, pool := certificate(t, time.Now().Add(time.Hour))
	srv := newRawTLS(t, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}},
		h2(func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) }))
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(tr.CloseIdleConnections)
	client := &http.Client{Transport: tr, Timeout: 2 * time.Second}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.url, http.NoBody)
	require.NoError(t, err)
	res, err := client.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	require.Greater(t, srv.requests.Load(), int32(1))
}

func TestC02_ChargesSpeakHTTP1UnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]CallerOptions{"HTTP/1.1": {}, "HTTP/2.0": {HTTP2: true}} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", r.Proto)
			_, _ = io.WriteString(w, "{}")
		}))
		srv.EnableHTTP2 = true
		srv.StartTLS()
		t.Cleanup(srv.Close)
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		o.TLS = &tls.Config{RootCAs: roots}
		c := newTestCaller(t, testSettings(srv.URL), o)
		for range 2 {
			ex := c.Do(t.Context(), post())
			require.NoError(t, ex.Err)
			require.Equal(t, want, ex.Server)
			require.Equal(t, 1, ex.WireSends)
			require.False(t, ex.FirstSentAt.IsZero())
		}
	}
}
