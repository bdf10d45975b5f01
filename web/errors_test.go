package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

func TestTheErrorMap(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err    error
		status int
		code   string
	}{
		{invalid("amount", "is required"), 422, "invalid"},
		{&provider.FieldError{Field: "currency", Reason: "no"}, 422, "invalid"},
		{&badRequest{"body", "is empty"}, 400, "bad-request"},
		{&http.MaxBytesError{Limit: 10}, 413, "too-large"},
		{store.ErrNotFound, 404, "not-found"},
		{store.ErrWalletNotFound, 404, "not-found"},
		{store.ErrKeyReused, 422, "key-reused"},
		{store.ErrOperationReused, 422, "key-reused"},
		{store.ErrWalletCurrency, 422, "invalid"},
		{store.ErrInsufficient, 422, "insufficient-balance"},
		{store.ErrWalletFull, 422, "wallet-full"},
		{store.ErrUserExists, 422, "invalid"},
		{&store.OrderBusyError{PaymentID: uuid.New(), Status: store.Unknown}, 409, "order-busy"},
		{&store.ConflictError{By: "Olena", At: time.Now(), Status: store.Succeeded}, 409, "conflict"},
		{store.ErrNotAllowed, 409, "not-allowed"},
		{store.ErrInFlight, 409, "in-progress"},
		{store.ErrPaused, 409, "paused"},
		{breaker.ErrEpoch, 409, "conflict"},
		{breaker.ErrUnavailable, 503, "unavailable"},
		{&pgconn.PgError{Code: "40P01"}, 503, "unavailable"},
		{context.DeadlineExceeded, 503, "unavailable"},
		{&forbidden{needs: store.RoleOperator}, 403, "forbidden"},
		{errCrossOrigin, 403, "cross-origin"},
		{errNoSession, 401, "no-session"},
		{errNoKey, 401, "no-key"},
		{echo.ErrNotFound, 404, "not-found"},
		{echo.ErrMethodNotAllowed, 405, "http-405"},
		{echo.ErrUnsupportedMediaType, 415, "media-type"},
		{errors.New("a bug"), 500, "internal"},
		{echo.NewHTTPError(500, "inner words"), 500, "internal"},
		{&pgconn.PgError{Code: "42P01", Message: "relation does not exist"}, 500, "internal"},
	} {
		p := problemOf(fmt.Errorf("while doing: %w", row.err))
		require.Equal(t, row.status, p.Status, row.err)
		require.Equal(t, "urn:fusebox:problem:"+row.code, p.Type, row.err)
		require.NotEmpty(t, p.Title, row.err)
		require.NotNil(t, p.Errors, "an empty list, not null")
		if row.status >= 500 {
			require.NotContains(t, p.Detail, "relation")
			require.NotContains(t, p.Detail, "inner words")
		}
		if row.status == 503 || row.code == "in-progress" {
			require.Positive(t, p.retryAfter, row.err)
		}
	}
}

func TestConflictNamesThePerson(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 2, 14, 2, 31, 0, time.UTC)
	p := problemOf(&store.ConflictError{By: "Olena", At: at, Status: store.Succeeded})
	require.Equal(t, "Olena changed this at 14:02:31 UTC; it is now succeeded. Nothing was changed.", p.Detail)
}

// failing serves err under /api/v1/fail and /fail.
func failing(w *webtest, err error) {
	fail := func(echo.Context) error { return err }
	w.server.echo.GET("/api/v1/fail", fail)
	w.server.public.GET("/fail", fail)
}

// failingForm serves err to whoever posts to /fail.
func failingForm(w *webtest, err error) {
	w.server.public.POST("/fail", func(echo.Context) error { return err })
}

func TestProgramsGetProblemJSON(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	failing(w, invalid("amount", "is required"))
	res := w.stranger().get("/api/v1/fail")
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.JSONEq(t, `{"type":"urn:fusebox:problem:invalid","title":"Invalid content","status":422,
		"detail":"The request was understood and refused; each field says why. Nothing was stored.",
		"errors":[{"field":"amount","reason":"is required"}]}`, res.body)
}

func TestPeopleGetAPageOrAFragment(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	failing(w, invalid("<b>reason</b>", "is <i>required</i>"))
	page := w.stranger().get("/fail")
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, strings.ToLower(page.body), "<!doctype html>")
	fragment := w.stranger().htmx("/fail")
	require.Equal(t, http.StatusUnprocessableEntity, fragment.StatusCode)
	require.NotContains(t, strings.ToLower(fragment.body), "<html")
	for _, res := range []reply{page, fragment} {
		require.Contains(t, res.Header.Get("Content-Type"), "text/html")
		require.NotContains(t, res.body, "<b>reason", "escaped")
	}
}

func TestUnknownErrorsAreGenericOutsideAndWholeInTheLog(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	failing(w, errors.New("secret inner words"))
	for _, res := range []reply{w.stranger().get("/fail"), w.stranger().get("/api/v1/fail")} {
		require.Equal(t, http.StatusInternalServerError, res.StatusCode)
		require.NotContains(t, res.body, "secret inner words")
		require.Contains(t, w.log.String(), res.Header.Get("X-Request-Id"))
	}
	require.Equal(t, 2, strings.Count(w.log.String(), `"error":"secret inner words"`))
	require.Equal(t, 2, strings.Count(w.log.String(), `"level":"ERROR"`))
}

func TestRetryAfterIsSent(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	failing(w, &pgconn.PgError{Code: "57P03"})
	res := w.stranger().get("/api/v1/fail")
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Equal(t, "2", res.Header.Get("Retry-After"))
}

func TestAnErrorAfterTheFirstByteIsOnlyLogged(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.public.GET("/late", func(c echo.Context) error {
		_ = c.String(http.StatusOK, "begun")
		return errors.New("too late")
	})
	res := w.stranger().get("/late")
	require.Equal(t, "begun", res.body)
	require.Contains(t, w.log.String(), "too late")
}

func TestWrongMethods(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	res := w.stranger().send(http.MethodDelete, "/signin", nil, nil)
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	res = w.stranger().get("/webhooks/atlas")
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	require.Equal(t, "POST", res.Header.Get("Allow"))
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	require.True(t, json.Valid([]byte(res.body)))
}
