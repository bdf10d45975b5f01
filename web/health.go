package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/breaker"
)

// readyWait bounds the readiness check: a load balancer asks again soon.
const readyWait = 2 * time.Second

// registerHealth adds the probes.
func (s *Server) registerHealth() {
	s.echo.GET("/healthz", s.healthz)
	s.echo.GET("/readyz", s.readyz)
}

// health is what a probe answers.
type health struct {
	Status   string `json:"status"` // ok, ready, not_ready
	Version  string `json:"version"`
	Postgres string `json:"postgres,omitempty"`
	Redis    string `json:"redis,omitempty"`
	Since    string `json:"redis_degraded_since,omitempty"`
}

// healthz says that the process lives. It looks at nothing else: restarting it would
// not bring a database back.
func (s *Server) healthz(c echo.Context) error {
	return answer(c, http.StatusOK, health{Status: "ok", Version: s.cfg.Version})
}

// readyz says whether requests can be served. Without Postgres they cannot; without
// Redis they can, on a local breaker, and it says so.
func (s *Server) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyWait)
	defer cancel()
	h := health{Status: "ready", Version: s.cfg.Version, Postgres: "ok", Redis: "ok"}
	status := http.StatusOK
	if err := s.cfg.Store.Ready(ctx); err != nil {
		// The reason goes to the log: this page is for anyone.
		note(c, slog.String("postgres", err.Error()))
		h.Status, h.Postgres, status = "not_ready", "unavailable", http.StatusServiceUnavailable
	}
	if since := s.degradedNow(ctx); !since.IsZero() {
		h.Redis, h.Since = "degraded", apiTime(since)
	}
	return answer(c, status, h)
}

// degradedNow asks Redis for one circuit before it answers: a process that makes no
// calls of its own would otherwise not notice that Redis is gone, or back.
func (s *Server) degradedNow(ctx context.Context) time.Time {
	if len(s.cfg.Providers) > 0 {
		// The snapshot itself is of no interest, and a failure is what Degraded tells.
		_, _ = s.cfg.Breaker.Snapshot(ctx, breaker.Key{Name: s.cfg.Providers[0].Name, Class: "charge"})
	}
	return s.cfg.Breaker.Degraded()
}
