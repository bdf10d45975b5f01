package store

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// order is where a connection of c would look, in turn.
func order(c *pgx.ConnConfig) []string {
	list := []string{c.Host + ":"}
	for _, f := range c.Fallbacks {
		list = append(list, f.Host+":")
	}
	return list
}

func TestTheHostThatAnsweredLastIsAskedFirst(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ mode, first, second string }{{"disable", "a:", "b:"}, {"prefer", "a: a:", "b: b:"}} {
		cfg, err := pgxpool.ParseConfig("postgres://u@a:1,b:2/db?target_session_attrs=read-write&sslmode=" + way.mode)
		require.NoError(t, err)
		cfg.AfterConnect = func(context.Context, *pgx.Conn) error { return nil }
		var h hosts
		h.follow(cfg)
		c := cfg.ConnConfig
		c.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			return map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2", "::2"}}[host], nil
		}
		next := func() string {
			c := c.Copy()
			require.NoError(t, cfg.BeforeConnect(t.Context(), c))
			return strings.Join(order(c), " ")
		}
		require.Equal(t, way.first+" "+way.second, next(), "as written")
		h.connected("[::2]:2")
		require.Equal(t, way.second+" "+way.first, next())
		h.connected("10.0.0.1:1")
		require.Equal(t, way.first+" "+way.second, next())
		h.connected("10.0.0.1:2")
		require.Equal(t, way.first+" "+way.second, next(), "nobody's address")
	}
}

// TestASilentMachineIsGivenUp: the kernel was told how long to wait for the other side.
func TestASilentMachineIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	c, err := watchfulDialer().DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		alive, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		require.NoError(t, err)
		require.NotZero(t, alive)
	}))
}
