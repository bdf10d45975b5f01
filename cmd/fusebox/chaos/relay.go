package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// relay stands where a load balancer does, between the providers' events and our
// processes. In a storm it delivers every event several times, late and in another order.
type relay struct {
	addr   string
	log    *slog.Logger
	server *http.Server
	client *http.Client
	apis   []string
	storm  atomic.Bool

	copies    sync.WaitGroup
	delivered atomic.Int64 // acknowledged by us
	refused   atomic.Int64
	repeated  atomic.Int64 // copies nobody asked for
	held      atomic.Int64
}

func newRelay(addr string, log *slog.Logger) *relay {
	return &relay{addr: addr, log: log, client: &http.Client{Timeout: 4 * time.Second}}
}

func (r *relay) start(apis []string) error {
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	r.apis = apis
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.log.Error("relay", "error", err)
		}
	}()
	return nil
}

func (r *relay) close() {
	_ = r.server.Close()
	r.copies.Wait()
}

// serve passes one event on and answers as it was answered.
func (r *relay) serve(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(io.LimitReader(in.Body, 1<<20))
	if err != nil {
		http.Error(w, "broken off", http.StatusBadRequest)
		return
	}
	if r.storm.Load() {
		for range 1 + rand.IntN(3) { //nolint:gosec // no secret
			r.repeated.Add(1)
			r.copies.Go(func() {
				pause(context.Background(), rand.N(2500*time.Millisecond))        //nolint:gosec // no secret
				_, _ = r.pass(context.Background(), in.URL.Path, in.Header, body) // a copy too many is nobody's loss
			})
		}
		// Held back, so that later events overtake it. Its sender waits 5 s.
		if rand.IntN(2) == 0 { //nolint:gosec // no secret
			r.held.Add(1)
			pause(in.Context(), rand.N(1500*time.Millisecond)) //nolint:gosec // no secret
		}
	}
	status, err := r.pass(in.Context(), in.URL.Path, in.Header, body)
	if err != nil {
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	}
	if status/100 == 2 {
		r.delivered.Add(1)
	} else {
		r.refused.Add(1)
	}
	w.WriteHeader(status)
}

// pass tries each process once, beginning with any.
func (r *relay) pass(ctx context.Context, path string, header http.Header, body []byte) (status int, err error) {
	first := rand.IntN(len(r.apis)) //nolint:gosec // no secret
	for i := range r.apis {
		var req *http.Request
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, r.apis[(first+i)%len(r.apis)]+"/webhooks"+path, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header = header.Clone()
		var res *http.Response
		if res, err = r.client.Do(req); err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
		_ = res.Body.Close()
		return res.StatusCode, nil
	}
	return 0, err
}
