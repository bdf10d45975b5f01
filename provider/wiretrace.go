package provider

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// wireTrace gathers one call's facts. Its hooks run on net/http's goroutines, some of
// them after the call has returned, so everything is under the mutex.
type wireTrace struct {
	now func() time.Time

	mu        sync.Mutex
	gates     []*gate
	shared    int // HTTP/2 connections obtained
	sharedAt  time.Time
	firstByte time.Time
	over      bool
}

// hooks returns the httptrace hooks of this call.
func (w *wireTrace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { w.gotConn(i.Conn) },
		GotFirstResponseByte: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.firstByte.IsZero() && !w.over {
				w.firstByte = w.now()
			}
		},
	}
}

func (w *wireTrace) gotConn(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wc := underTLS(c)
	if wc == nil {
		w.shared++
		if w.sharedAt.IsZero() {
			w.sharedAt = w.now()
		}
		return
	}
	g := &gate{now: w.now}
	// Sealing the earlier gates settles whether this connection may still carry the
	// call: only if nothing has passed any of them.
	if !w.sealAll() || w.shared > 0 || w.over {
		g.state.Store(gateSealed)
	}
	w.gates = append(w.gates, g)
	wc.gate.Store(g)
}

// sealAll seals every gate and reports whether nothing passed any of them.
func (w *wireTrace) sealAll() bool {
	clean := true
	for _, g := range w.gates {
		clean = g.seal() && clean
	}
	return clean
}

// end closes the books: after it, nothing of this call can reach a socket any more.
// It must be called when the call has failed or its answer has been read.
func (w *wireTrace) end(ex *Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.sealAll()
	ex.WireSends = w.shared
	ex.FirstSentAt = w.sharedAt
	for _, g := range w.gates {
		if g.state.Load() != gateWritten {
			continue
		}
		ex.WireSends++
		if at := g.firstWrite(); ex.FirstSentAt.IsZero() || at.Before(ex.FirstSentAt) {
			ex.FirstSentAt = at
		}
	}
	ex.HeaderWritten = ex.WireSends > 0
	ex.FirstByteAt = w.firstByte
}

// underTLS returns the wrapped connection that belongs to one request at a time, or
// nil for an HTTP/2 connection, which many share.
func underTLS(c net.Conn) *wireConn {
	if t, ok := c.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		c = t.NetConn()
	}
	wc, _ := c.(*wireConn)
	return wc
}
