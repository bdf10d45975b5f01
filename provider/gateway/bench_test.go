package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// accepted is what a provider answers to the charge of frozenCharge.
const (
	frozenCharge = `{"reference":"019ad5c1-7c2e-7d3a-9f10-2b4c6d8e0f12","amount":4900,"currency":"EUR","description":"An order","order_ref":"bench-000123"}`
	accepted     = `{"id":"pay_8f1d0c5b7a3e94d2c6b1f0a7","reference":"019ad5c1-7c2e-7d3a-9f10-2b4c6d8e0f12","status":"succeeded","amount":4900,` +
		`"currency":"EUR","created_at":"2026-03-02T15:02:11.123456Z","idempotency_key":"` + benchKey + `",` +
		`"order_ref":"bench-000123","totals":{"captured":4900,"refunded":0}}`
	benchKey = "fbx_019ad5c1-7c2e-7d3a-9f10-2b4c6d8e0f12_1"
)

// answerAll answers every request of a connection with the same bytes, at next to no cost
// of its own.
func answerAll(conn net.Conn, answer []byte) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// BenchmarkCharge is one charge call over a kept-alive connection, the far end included.
func BenchmarkCharge(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	answer := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nRequest-Id: req_8f1d0c5b7a3e94d2c6b1f0a7\r\n"+
		"Date: Mon, 02 Mar 2026 15:02:11 GMT\r\nContent-Length: %d\r\n\r\n%s", len(accepted), accepted))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(conn, answer)
		}
	}()
	a, err := New(provider.Settings{
		Name: "atlas", Kind: Kind, BaseURL: "http://" + l.Addr().String(), APIKey: "sk_test_8f1d0c5b7a3e94d2c6b1f0a7",
		WebhookSecrets: []string{"whsec_8f1d0c5b7a3e94d2c6b1f0a7"}, AnswerTimeout: 10 * time.Second,
	}, Options{})
	require.NoError(b, err)
	b.Cleanup(a.Close)
	b.ReportAllocs()
	for b.Loop() {
		c := a.Charge(b.Context(), benchKey, []byte(frozenCharge), asked)
		if c.Outcome != provider.Succeeded || c.Object == nil || len(c.Exchange.Body) == 0 {
			b.Fatal(c.Outcome, c.Reason)
		}
	}
}

// BenchmarkRead is the reading of a charge's answer alone.
func BenchmarkRead(b *testing.B) {
	a := &Adapter{settings: provider.Settings{Name: "atlas"}}
	ex := provider.Exchange{Status: http.StatusOK, WireSends: 1, HeaderWritten: true, BodyComplete: true, Body: []byte(accepted)}
	b.ReportAllocs()
	for b.Loop() {
		if ans := a.read(ex, benchKey, []byte(frozenCharge)); ans.Object == nil || ans.Foreign {
			b.Fatal(ans)
		}
	}
}
