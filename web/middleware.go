package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// Limits of a request. Webhook bodies have their own cap because a provider's
// batch is larger than any form.
const (
	maxFormBody    = 64 << 10
	maxAPIBody     = 64 << 10
	maxWebhookBody = 1 << 20
	requestTimeout = 15 * time.Second
)

// contentPolicy forbids inline script and style, eval, and every foreign origin.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// useMiddleware installs what every request passes, outermost first.
func (s *Server) useMiddleware() {
	s.echo.Use(
		s.requestID,
		s.logRequest,
		recoverPanic,
		s.securityHeaders,
		s.refuseCrossOrigin,
		limitBody,
		refuseBrokenText,
		limitTime,
		middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1024, Skipper: uncompressed}),
		s.loadSession,
	)
}

// isMachine reports whether the path is for programs: no session, no CSRF check,
// problem+json errors.
func isMachine(c echo.Context) bool {
	p := c.Request().URL.Path
	return strings.HasPrefix(p, "/api/") || strings.HasPrefix(p, "/webhooks/")
}

// isStream reports whether the route is a live stream: no compression, no deadline.
func isStream(c echo.Context) bool { return strings.HasPrefix(c.Path(), "/live") }

// uncompressed reports whether an answer goes as it is: streams, and the short ones to
// programs that post, for which the compressor would be set up in vain.
func uncompressed(c echo.Context) bool {
	return isStream(c) || c.Request().Method == http.MethodPost && isMachine(c)
}

// isHTMX reports whether htmx made the request and wants a fragment.
func isHTMX(c echo.Context) bool {
	h := c.Request().Header
	return h.Get("HX-Request") == "true" && h.Get("HX-Boosted") != "true"
}

// requestID gives every request an id of our own making: it goes into the audit
// log, so a caller does not get to choose it.
func (s *Server) requestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := uuid.Must(uuid.NewV7()).String()
		c.Set(ctxRequestID, id)
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		return next(c)
	}
}

// Keys of what middleware leaves in the Echo context.
const (
	ctxRequestID = "request_id"
	ctxUser      = "user"
	ctxClient    = "client"
	ctxNotes     = "notes"
)

// requestIDOf returns the request's id.
func requestIDOf(c echo.Context) string {
	id, _ := c.Get(ctxRequestID).(string)
	return id
}

// note adds attributes to the request's one log event.
func note(c echo.Context, attrs ...slog.Attr) {
	have, _ := c.Get(ctxNotes).([]slog.Attr)
	c.Set(ctxNotes, append(have, attrs...))
}

// logRequest writes one event per request, at its end. It renders errors itself so
// that the status in the log is the status that went out. The query is left out:
// it holds what people searched for.
func (s *Server) logRequest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start, client := time.Now(), c.Request().Context()
		err := next(c)
		if err != nil && client.Err() != nil {
			err = fmt.Errorf("%w: %w", errClientGone, err)
		}
		if err != nil {
			c.Error(err)
		}
		res, req := c.Response(), c.Request()
		took := time.Since(start)
		s.metrics.request(c, took)
		attrs := []slog.Attr{
			slog.String("request_id", requestIDOf(c)), slog.String("method", req.Method),
			slog.String("path", req.URL.Path), slog.String("route", c.Path()),
			slog.Int("status", res.Status), slog.Int64("bytes", res.Size),
			slog.Duration("took", took), slog.String("ip", c.RealIP()),
		}
		if a := s.actor(c); a.ID != "" {
			attrs = append(attrs, slog.String("actor", a.String()))
		}
		notes, _ := c.Get(ctxNotes).([]slog.Attr)
		attrs = append(attrs, notes...)
		level := slog.LevelInfo
		if err != nil {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		if res.Status >= 500 {
			level = slog.LevelError
		}
		s.cfg.Log.LogAttrs(context.WithoutCancel(req.Context()), level, "request", attrs...)
		return nil
	}
}

// panicError is a recovered panic with its stack, for the log.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

func recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				if abort, ok := v.(error); ok && errors.Is(abort, http.ErrAbortHandler) {
					panic(v)
				}
				err = &panicError{value: v, stack: debug.Stack()}
			}
		}()
		return next(c)
	}
}

func (s *Server) securityHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
		if s.https {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		return next(c)
	}
}

// errCrossOrigin is a browser's unsafe request from another site.
var errCrossOrigin = errors.New("web: cross-origin request refused")

// refuseCrossOrigin is the CSRF defence. Programs' endpoints carry no ambient
// credentials, so they need none.
func (s *Server) refuseCrossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !isMachine(c) {
			if err := s.csrf.Check(c.Request()); err != nil {
				return fmt.Errorf("%w: %w", errCrossOrigin, err)
			}
		}
		return next(c)
	}
}

// limitBody caps the body by the kind of endpoint. Console forms are parsed here,
// because Echo's FormValue swallows the error of a form that is too large.
func limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, limit := c.Request(), int64(maxFormBody)
		switch {
		case strings.HasPrefix(r.URL.Path, "/webhooks/"):
			limit = maxWebhookBody
		case strings.HasPrefix(r.URL.Path, "/api/"):
			limit = maxAPIBody
		}
		if r.ContentLength > limit {
			return &http.MaxBytesError{Limit: limit}
		}
		r.Body = http.MaxBytesReader(c.Response(), r.Body, limit)
		if !isMachine(c) && r.Method == http.MethodPost {
			if err := parseForm(r); err != nil {
				return err
			}
		}
		return next(c)
	}
}

// parseForm reads an urlencoded form; an empty body needs no content type.
func parseForm(r *http.Request) error {
	ct, _, _ := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if ct != echo.MIMEApplicationForm && r.ContentLength != 0 {
		return echo.ErrUnsupportedMediaType
	}
	if err := r.ParseForm(); err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return tooBig
		}
		return echo.NewHTTPError(http.StatusBadRequest, "the form could not be read").SetInternal(err)
	}
	return nil
}

// refuseBrokenText refuses what no text column takes, before any handler trips over it:
// invalid UTF-8 and NUL in the path, the query or a form.
func refuseBrokenText(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return &badRequest{"query", "is not readable"}
		}
		if brokenText(r.URL.Path) {
			return echo.ErrNotFound
		}
		for _, values := range []url.Values{query, r.PostForm} {
			for name, texts := range values {
				if brokenText(name) || slices.ContainsFunc(texts, brokenText) {
					return &badRequest{printable(name), "is not valid text"}
				}
			}
		}
		return next(c)
	}
}

func brokenText(s string) bool { return !utf8.ValidString(s) || strings.Contains(s, "\x00") }

// limitTime gives every request a deadline, so that a stuck database frees the handler.
// Live streams have none, nor have exports: those write until they are done.
func limitTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if isStream(c) || strings.HasSuffix(c.Path(), ".csv") {
			return next(c)
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), requestTimeout)
		defer func() {
			cancel()
			// The error page is rendered after this returns, and wants the values but not
			// the deadline that may have caused it.
			c.SetRequest(c.Request().WithContext(context.WithoutCancel(c.Request().Context())))
		}()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// ipExtractor believes X-Forwarded-For only from the configured proxies.
func ipExtractor(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	opts := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range trusted {
		_, ipNet, err := net.ParseCIDR(p.Masked().String())
		if err == nil { // always: a valid Prefix prints as a CIDR
			opts = append(opts, echo.TrustIPRange(ipNet))
		}
	}
	return echo.ExtractIPFromXFFHeader(opts...)
}
