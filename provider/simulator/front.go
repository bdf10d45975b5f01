package simulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// front is the provider's public listener. It can be shut and opened again on
// the same port, which is what an outage of the refusing kind does.
type front struct {
	handler http.Handler
	log     *slog.Logger
	addr    *net.TCPAddr
	release func() // gives the held port back

	mu       sync.Mutex
	server   *http.Server // nil while shut
	listener net.Listener
}

// newFront reserves the address; open starts listening.
func newFront(listen string, handler http.Handler, log *slog.Logger) (*front, error) {
	addr, err := listenAddr(listen)
	if err != nil {
		return nil, err
	}
	held, release, err := holdPort(addr)
	if err != nil {
		return nil, fmt.Errorf("simulator: listen on %s: %w", addr, err)
	}
	return &front{handler: handler, log: log, addr: held, release: release}, nil
}

// open starts listening, if it is not already.
func (f *front) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server != nil {
		return nil
	}
	l, err := net.ListenTCP("tcp", f.addr)
	if err != nil {
		return fmt.Errorf("simulator: listen on %s: %w", f.addr, err)
	}
	f.addr = l.Addr().(*net.TCPAddr)
	f.server, f.listener = newHTTPServer(f.handler, f.log), l
	go serve(f.server, l, f.log)
	return nil
}

// shut stops listening and cuts every connection, as a dead host does. Requests
// in work go on: a provider that is cut off may still book what it was told.
func (f *front) shut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server == nil {
		return
	}
	// The listener first and by itself: the server only knows of it once its
	// goroutine has come to serve.
	_ = f.listener.Close()
	_ = f.server.Close() // closing is all that is wanted of both
	f.server, f.listener = nil, nil
}

// close shuts for good.
func (f *front) close() {
	f.shut()
	f.release()
}

// url is the base URL, the same through every outage.
func (f *front) url() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return baseURL(f.addr)
}

// baseURL names a listener in a URL; an address for every interface is reached
// through loopback.
func baseURL(addr *net.TCPAddr) string {
	host := addr.IP
	if host == nil || host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	return "http://" + net.JoinHostPort(host.String(), fmt.Sprint(addr.Port))
}

// newHTTPServer returns a server with the limits every listener here has. There is
// no write timeout, since silence and dripping are among the products, and the
// limit on reading a body is set where it is read: it would end the silence too.
func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       90 * time.Second, // longer than a sensible client's
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func serve(s *http.Server, l net.Listener, log *slog.Logger) {
	// A listener closed before its server says net.ErrClosed; both are a wanted end.
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		log.Error("listener stopped", "error", err)
	}
}
