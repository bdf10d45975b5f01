// Package web is the HTTP side of Fusebox: console, API, webhook receiver and
// live updates, on Echo. It never talks to a payment provider's charge API.
package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/alexedwards/scs/v2"
	"github.com/go-webauthn/webauthn/webauthn"
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
	// TranslateKey is that API's key; may be empty.
	TranslateKey string
	// TrustedProxies may set X-Forwarded-For; empty: the peer's address is the client's.
	TrustedProxies []netip.Prefix
	// MetricsToken guards /metrics. Empty: only direct connections from loopback and
	// private addresses may read it.
	MetricsToken string
	// OIDC is a provider where people may sign in too; nil: none.
	OIDC *OIDC
	// RequireFactor makes operators and admins set up a second factor before anything else.
	RequireFactor bool
	// JobPages shows admins single jobs of the queue; nil: nobody.
	JobPages JobPages
	// FourEyes: above these amounts, in minor units by currency ("*" for all others), a
	// payment is marked paid or failed by two people. Empty: by one.
	FourEyes map[string]int64
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
	cfg      Config
	echo     *echo.Echo
	https    bool   // PublicURL is https: Secure cookies, HSTS
	base     string // PublicURL without a slash at its end
	origin   string // scheme and host of PublicURL
	sessions *scs.SessionManager
	guard    *signInGuard
	passkeys *webauthn.WebAuthn
	oidc     *oidcClient
	watchers *watchers
	metrics  *metrics
	rejects  *rejectBudget
	csrf     *http.CrossOriginProtection

	public  *echo.Group // anyone: sign-in, assets, the demo's checkout
	console *echo.Group // signed in, any role

	// viewContext adds what every page needs (locale, zone, theme) to the context
	// a component is rendered under.
	viewContext func(echo.Context) context.Context
	closers     []func()

	a consoleA
	b consoleB
}

// New builds the server and its routes. Close ends live streams.
func New(cfg Config) (*Server, error) {
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	s.useMiddleware()
	s.public = s.echo.Group("")
	s.console = s.echo.Group("", s.requireUser)
	s.registerAssets()
	s.registerAuth()
	s.registerAPI()
	s.registerWebhooks()
	s.registerHealth()
	s.registerMetrics()
	s.registerTranslate()
	registerConsoleA(s)
	registerConsoleB(s)
	s.registerSettings()
	// Last, because the groups above register one of their own behind the sign-in:
	// a path that does not exist is 404 to everybody.
	s.echo.RouteNotFound("/*", s.notFound)
	return s, nil
}

// newServer checks cfg and returns a server without routes.
func newServer(cfg Config) (*Server, error) {
	if cfg.Store == nil || cfg.Registry == nil || cfg.Breaker == nil {
		return nil, errors.New("web: Store, Registry and Breaker are required")
	}
	base, err := url.Parse(cfg.PublicURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("web: PublicURL %q is not an absolute http(s) URL", cfg.PublicURL)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, echo: echo.New(), https: base.Scheme == "https",
		base: strings.TrimRight(cfg.PublicURL, "/"), origin: base.Scheme + "://" + base.Host}
	s.watchers = newWatchers(cfg)
	s.sessions = newSessions(s.watchers, s.https)
	if s.passkeys, err = newPasskeys(s.origin); err != nil {
		return nil, fmt.Errorf("web: PublicURL: %w", err)
	}
	s.oidc = &oidcClient{client: &http.Client{Timeout: oidcTimeout}}
	s.metrics = newMetrics(cfg)
	s.rejects = newRejectBudget()
	// Behind a proxy that rewrites Host, a browser's Origin is still the public one.
	s.csrf = http.NewCrossOriginProtection()
	if err := s.csrf.AddTrustedOrigin(s.origin); err != nil {
		return nil, fmt.Errorf("web: PublicURL: %w", err)
	}
	s.viewContext = func(c echo.Context) context.Context { return c.Request().Context() }
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = s.renderError
	s.echo.IPExtractor = ipExtractor(cfg.TrustedProxies)
	return s, nil
}

// notFound answers paths without a handler. Echo forgets 405 for routes with parameters
// once a catch-all exists, so the methods a path would take are looked up here.
func (s *Server) notFound(c echo.Context) error {
	var allowed []string
	for _, r := range s.echo.Routes() {
		if r.Method != echo.RouteNotFound && matches(r.Path, c.Request().URL.Path) {
			allowed = append(allowed, r.Method)
		}
	}
	if len(allowed) == 0 {
		return echo.ErrNotFound
	}
	slices.Sort(allowed)
	c.Response().Header().Set(echo.HeaderAllow, strings.Join(slices.Compact(allowed), ", "))
	return echo.ErrMethodNotAllowed
}

// matches reports whether path fits a route without a wildcard.
func matches(route, path string) bool {
	want, have := strings.Split(route, "/"), strings.Split(path, "/")
	return len(want) == len(have) && !strings.HasSuffix(route, "*") && !slices.ContainsFunc(want, func(part string) bool {
		got := have[0]
		have = have[1:]
		if strings.HasPrefix(part, ":") {
			return got == ""
		}
		return got != part
	})
}

// Handler returns the root handler. Every GET route answers HEAD too: Echo sees a GET,
// and net/http drops the body by the original request's method.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.WithContext(r.Context())
			r.Method = http.MethodGet
		}
		s.echo.ServeHTTP(w, r)
	})
}

// onClose registers fn to run when the server closes; live streams end there.
func (s *Server) onClose(fn func()) { s.closers = append(s.closers, fn) }

// Close ends live streams so that the HTTP server can shut down.
func (s *Server) Close() {
	for _, fn := range s.closers {
		fn()
	}
}

// render writes a component; it is rendered to a buffer before the status goes out,
// so a component that fails becomes an error page and never half a page.
func (s *Server) render(c echo.Context, status int, component templ.Component) error {
	var buf bytes.Buffer
	if err := component.Render(s.viewContext(c), &buf); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	// What a signed-in person sees belongs in no cache, and Back must ask again.
	if c.Response().Header().Get(echo.HeaderCacheControl) == "" {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	}
	return c.HTMLBlob(status, buf.Bytes())
}

// settings returns a configured provider's settings, and whether there is one.
func (s *Server) settings(name string) (provider.Settings, bool) {
	for _, p := range s.cfg.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return provider.Settings{}, false
}
