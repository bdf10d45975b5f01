package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fusebox/store"
)

// metrics are this process's own counts and the shared numbers it reads on demand.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	webhooks *prometheus.CounterVec
	calls    *prometheus.CounterVec
}

// newMetrics registers everything on a registry of its own, so that two servers in
// one process do not meet.
func newMetrics(cfg Config) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fusebox_http_request_duration_seconds", Help: "Time to answer a request, live streams excepted.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"method", "route", "status"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fusebox_webhook_deliveries_total", Help: "Webhook deliveries by provider, signature verdict and what became of them.",
		}, []string{"provider", "signature", "state"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fusebox_translations_total", Help: "Translations asked for, by where the text came from: service, cache, original.",
		}, []string{"source"}),
	}
	m.registry.MustRegister(m.requests, m.webhooks, m.calls, newStateCollector(cfg),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	return m
}

// request counts one answered request. The route and not the path is the label: paths
// hold ids. A method that is not HTTP's is one label, not as many as callers invent.
func (m *metrics) request(c echo.Context, took time.Duration) {
	if isStream(c) {
		return
	}
	route := c.Path()
	if route == "" || route == "/*" {
		route = "none"
	}
	m.requests.WithLabelValues(knownMethod(c.Request().Method), route, strconv.Itoa(c.Response().Status)).Observe(took.Seconds())
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// webhook counts one delivery.
func (m *metrics) webhook(d store.Delivery, state string) {
	m.webhooks.WithLabelValues(d.Provider, d.Verification.Verdict, state).Inc()
}

// registerMetrics adds the page Prometheus reads.
func (s *Server) registerMetrics() {
	page := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, DisableCompression: true})
	s.echo.GET("/metrics", echo.WrapHandler(page), s.guardMetrics)
}

// guardMetrics keeps business numbers from strangers: a token when one is set, else
// only callers that reach us directly from this machine or a private network.
func (s *Server) guardMetrics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if s.cfg.MetricsToken != "" {
			_, token, _ := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
			if !sameSecret(token, s.cfg.MetricsToken) {
				return echo.ErrNotFound
			}
			return next(c)
		}
		forwarded := r.Header.Get(echo.HeaderXForwardedFor) != "" || r.Header.Get("Forwarded") != ""
		if forwarded || !isPrivate(r.RemoteAddr) {
			return echo.ErrNotFound
		}
		return next(c)
	}
}

// sameSecret compares in a time that tells nothing, the lengths included.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// isPrivate reports whether a peer address is this machine or a private network.
func isPrivate(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.Unmap().IsPrivate())
}
