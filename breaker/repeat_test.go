package breaker

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

// cutter forwards to addr; while cut is set it lets requests through and closes the
// connection instead of passing the answer.
func cutter(t *testing.T, addr string, cut *atomic.Bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() {
				defer func() { _ = in.Close() }()
				buf := make([]byte, 1<<16)
				for {
					n, err := out.Read(buf)
					if err != nil || cut.Load() {
						return
					}
					if _, err := in.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// A report whose answer was cut off is not sent again, even by a client that repeats
// commands: it would count twice.
func TestReportCutOffIsNotRepeated(t *testing.T) {
	t.Parallel()
	server := breakertest.Start(t)
	var cut atomic.Bool
	eager := redis.NewClient(&redis.Options{Addr: cutter(t, server.Addr(), &cut), MaxRetries: 5, MinRetryBackoff: time.Millisecond,
		MaxRetryBackoff: time.Millisecond, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = eager.Close() })
	b := NewRedis(eager, Options{Worker: "w0", Timeout: 2 * time.Second, Recheck: time.Hour,
		Settings: func(Key) Settings { return Settings{Failures: 100} }})
	require.Nil(t, once(t, b, Fail)) // scripts are loaded
	permit, err := b.Permit(context.Background(), charge)
	require.NoError(t, err)
	cut.Store(true)
	report(permit, Fail)
	require.False(t, b.Degraded().IsZero())
	other := NewRedis(server.Client(), Options{Timeout: patience})
	require.Equal(t, 2, state(t, other).Consecutive)
}
