package store

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall lacks.
const tcpUserTimeout = 18

// giveUpAfter has the kernel end a connection whose data is not acknowledged for so long.
func giveUpAfter(d time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if network == "unix" {
			return nil
		}
		var err error
		if ctl := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
		}); ctl != nil {
			return ctl
		}
		return err
	}
}
