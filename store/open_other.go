//go:build !linux

package store

import (
	"syscall"
	"time"
)

// giveUpAfter does nothing: the keep-alive probes have to do.
func giveUpAfter(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
