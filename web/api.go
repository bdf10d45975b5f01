package web

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
)

// registerAPI adds the API for integrators.
func (s *Server) registerAPI() {
	v1, pays := s.echo.Group("/api/v1", s.requireKey), requireScope(store.ScopePayments)
	v1.POST("/payments", s.createPayment, pays)
	v1.GET("/payments", s.listPayments, pays)
	v1.GET("/payments/:id", s.getPayment, pays)
	v1.GET("/payments/:id/timeline", s.getTimeline, pays)
	v1.POST("/wallets", s.createWallet, pays)
	v1.GET("/wallets", s.findWallet, pays)
	v1.GET("/wallets/:id", s.getWallet, pays)
	v1.POST("/wallets/:id/credit", s.moveWallet(+1), pays)
	v1.POST("/wallets/:id/debit", s.moveWallet(-1), pays)
	v1.GET("/wallets/:id/entries", s.listEntries, pays)
	s.registerRefundAPI(v1)
	s.registerCaptureAPI(v1)
	s.registerCircuitAPI(v1)
	v1.RouteNotFound("/*", s.notFound)
}

// requireKey lets requests with a live API key through.
func (s *Server) requireKey(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		scheme, secret, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
		if !strings.EqualFold(scheme, "bearer") {
			return errNoKey
		}
		key, err := s.cfg.Store.APIKeyBySecret(c.Request().Context(), strings.TrimSpace(secret))
		if errors.Is(err, store.ErrNotFound) {
			return errNoKey
		}
		if err != nil {
			return err
		}
		c.Set(ctxClient, key)
		return next(c)
	}
}

// client returns the API key of a request that passed requireKey.
func client(c echo.Context) store.APIKey {
	k, _ := c.Get(ctxClient).(store.APIKey)
	return k
}

// pathID reads :id. Something that is no id names nothing: 404.
func pathID(c echo.Context) (uuid.UUID, error) {
	id, err := uuid.Parse(c.Param("id"))
	if err != nil || len(c.Param("id")) != 36 { // Parse also takes urn: and braces
		return uuid.Nil, echo.ErrNotFound
	}
	return id, nil
}

// maxKey is the longest idempotency key and operation id, in characters.
const maxKey = 255

// idempotencyKey reads the header: exactly one of 1 to 255 printable ASCII characters.
func idempotencyKey(c echo.Context) (string, error) {
	values := c.Request().Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", &badRequest{"Idempotency-Key", "is required"}
	}
	if len(values) > 1 {
		return "", &badRequest{"Idempotency-Key", "is there more than once"}
	}
	if !printableASCII(values[0]) {
		return "", &badRequest{"Idempotency-Key", "must be 1 to 255 printable ASCII characters"}
	}
	return values[0], nil
}

// printableASCII reports whether s can be a key.
func printableASCII(s string) bool {
	outside := func(r rune) bool { return r < 0x20 || r > 0x7e }
	return s != "" && len(s) <= maxKey && strings.TrimSpace(s) == s && strings.IndexFunc(s, outside) < 0
}

// apiTime is how times look on the wire: RFC 3339, UTC, to the microsecond.
func apiTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00") }

// apiTimePtr is apiTime for times that may be absent.
func apiTimePtr(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := apiTime(*t)
	return &s
}

// answer sends a JSON object that no cache may keep.
func answer(c echo.Context, status int, v any) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(status, v)
}

// created answers 201 with the new thing's address.
func created(c echo.Context, location string, v any) error {
	c.Response().Header().Set(echo.HeaderLocation, location)
	return answer(c, http.StatusCreated, v)
}
