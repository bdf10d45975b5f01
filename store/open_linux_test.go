package store

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	for _, o := range []struct{ level, name, want int }{
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, int(keepIdle.Seconds())},
		{syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds())},
	} {
		var got int
		require.NoError(t, raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), o.level, o.name) }))
		require.NoError(t, err)
		require.Equal(t, o.want, got)
	}
}
