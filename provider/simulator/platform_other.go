//go:build !linux

package simulator

import (
	"net"
	"os"
)

// lockFile does nothing here: sharing a ledger is the caller's mistake to avoid.
func lockFile(*os.File) error { return nil }

// holdPort cannot reserve a port here; after an outage the listener asks for the
// same one again.
func holdPort(addr *net.TCPAddr) (*net.TCPAddr, func(), error) {
	return addr, func() {}, nil
}
