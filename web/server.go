// Package web is the HTTP side of Fusebox: console, API, webhook receiver and
// live updates, on Echo. It never talks to a payment provider's charge API.
package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// Config is what a Server is made of; cmd fills and validates it.
type Config struct {
	Store     *store.Store
	Breaker   breaker.Breaker
	Providers []provider.Settings
	Registry  *provider.Registry
	PublicURL string // base URL people and providers use, e.g. https://pay.example.org
	Version   string
	// TranslateURL is a LibreTranslate-compatible API; empty: provider messages stay as they are.
	TranslateURL string
	// Demo is set by `fusebox demo` only: checkout page and fault panel.
	Demo *Demo
	Log  *slog.Logger
	Now  func() time.Time
}

// Demo describes the demo's surroundings to the console.
type Demo struct {
	EmbeddedRedis bool              // shown: "embedded, demo only"
	Simulators    map[string]string // provider name → base URL of its simulator's control API
}

// Server serves everything over HTTP.
type Server struct {
	cfg  Config
	echo *echo.Echo
}

// New builds the server and its routes. Close ends live streams.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, echo: echo.New()}
	return s, nil
}

// Handler returns the root handler.
func (s *Server) Handler() http.Handler { return s.echo }

// Close ends live streams so that the HTTP server can shut down.
func (s *Server) Close() {}

// render writes a component; it is rendered to a buffer before the status goes out.
func (s *Server) render(c echo.Context, status int, component templ.Component) error {
	return component.Render(c.Request().Context(), c.Response())
}
