package simulator

import (
	"net"
	"os"
	"syscall"
)

// lockFile takes an exclusive lock that ends with the process, so that two
// simulators never share a ledger.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// holdPort binds a TCP address without listening on it and returns the address
// with its port. Connections to it are refused, but the port stays ours while an
// outage has the real listener closed: otherwise any outgoing connection on the
// machine may take it. Both sockets set SO_REUSEADDR, which Linux accepts as long
// as one of them does not listen.
func holdPort(addr *net.TCPAddr) (*net.TCPAddr, func(), error) {
	family, sa := sockaddr(addr)
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	release := func() { _ = syscall.Close(fd) } // nothing was written to it
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		release()
		return nil, nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, sa); err != nil {
		release()
		return nil, nil, os.NewSyscallError("bind", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return nil, nil, os.NewSyscallError("getsockname", err)
	}
	held := *addr
	switch b := bound.(type) {
	case *syscall.SockaddrInet4:
		held.Port = b.Port
	case *syscall.SockaddrInet6:
		held.Port = b.Port
	}
	return &held, release, nil
}

// sockaddr converts an address; without an IP it is every address, both families.
func sockaddr(addr *net.TCPAddr) (family int, sa syscall.Sockaddr) {
	if ip := addr.IP.To4(); ip != nil {
		return syscall.AF_INET, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)}
	}
	six := &syscall.SockaddrInet6{Port: addr.Port}
	copy(six.Addr[:], addr.IP.To16())
	return syscall.AF_INET6, six
}
