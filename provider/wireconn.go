package provider

import (
	"net"
	"sync/atomic"
	"time"
)

// How "sent" is known. httptrace reports headers when they enter net/http's write
// buffer (WroteHeaderField, WroteHeaders), not when they leave it: measured on
// go1.26.8, a POST over a kept-alive connection that the peer has reset fires
// WroteHeaders and then fails in write(2) with not one byte accepted; and a context
// cancelled at the right moment leaves the writing goroutine free to write after the
// call has returned. So the connection itself keeps the books: every connection is
// wrapped below TLS, httptrace's GotConn (which comes after the handshake) puts a gate
// on it, and the gate is what a request's first byte has to pass.
//
// The gate has three states, changed only by compare-and-swap:
//
//	armed  → written   the first Write of the request begins
//	written → sealed   that very Write reported that the kernel took zero bytes
//	armed  → sealed    the call is over, or another connection has carried it already
//
// and on a sealed gate every Write fails without touching the socket.
//
// A sealed gate proves that nothing was sent and nothing will be; one
// that could not be sealed may have been sent. A second connection for the same call gets a
// sealed gate from the start, so one call is one wire send even where net/http would
// have resent it (a GET, a request with a replayable body).
//
// HTTP/2 connections carry other streams' frames, so there every call that got a
// connection counts as sent.

const (
	gateArmed int32 = iota
	gateWritten
	gateSealed
)

// gate guards one request on one connection.
type gate struct {
	state atomic.Int32
	at    atomic.Int64 // unix nanoseconds of the first write
	now   func() time.Time
}

// enter is called before a Write; first reports that it is the one that may have to be
// taken back, ok that writing is allowed.
func (g *gate) enter() (first, ok bool) {
	if g.state.CompareAndSwap(gateArmed, gateWritten) {
		g.at.Store(g.now().UnixNano())
		return true, true
	}
	return false, g.state.Load() == gateWritten
}

// takeBack records that the kernel took nothing of the first Write. The connection is
// broken then, so the gate closes for good.
func (g *gate) takeBack() { g.state.CompareAndSwap(gateWritten, gateSealed) }

// seal ends the gate and reports whether provably nothing passed it.
func (g *gate) seal() bool {
	return g.state.CompareAndSwap(gateArmed, gateSealed) || g.state.Load() == gateSealed
}

// firstWrite returns when the first byte passed.
func (g *gate) firstWrite() time.Time { return time.Unix(0, g.at.Load()) }

// wireConn is a connection that obeys the gate put on it.
type wireConn struct {
	net.Conn
	gate atomic.Pointer[gate]
}

// Write implements net.Conn.
func (c *wireConn) Write(p []byte) (int, error) {
	g := c.gate.Load()
	if g == nil { // the TLS handshake
		return c.Conn.Write(p)
	}
	first, ok := g.enter()
	if !ok {
		return 0, errSealed
	}
	n, err := c.Conn.Write(p)
	if first && n == 0 && err != nil {
		g.takeBack()
	}
	return n, err
}
