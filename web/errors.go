package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// fieldError is one refused field of a request.
type fieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// fieldErrors refuses a request's content (422).
type fieldErrors []fieldError

// Error implements error.
func (e fieldErrors) Error() string {
	parts := make([]string, len(e))
	for i, f := range e {
		parts[i] = f.Field + " " + f.Reason
	}
	return strings.Join(parts, "; ")
}

// invalid refuses one field (422).
func invalid(field, reason string) error { return fieldErrors{{field, reason}} }

// badRequest is a request that cannot be read at all (400); field may name the part.
type badRequest struct{ field, reason string }

// Error implements error.
func (e *badRequest) Error() string { return strings.TrimSpace(e.field + " " + e.reason) }

// forbidden is an action the person's role may not take.
type forbidden struct{ needs store.Role }

// Error implements error.
func (e *forbidden) Error() string { return fmt.Sprintf("this needs the role %s", e.needs) }

var (
	// errNoSession: not signed in, or not any more.
	errNoSession = errors.New("web: not signed in")
	// errNoKey: no API key, or one that is unknown or revoked.
	errNoKey = errors.New("web: no valid API key")
	// errClientGone wraps whatever failed after the client had left.
	errClientGone = errors.New("web: client gone")
)

// statusClientGone is what the log says when nobody was there to answer; nginx's word.
const statusClientGone = 499

// problem is what a caller learns of an error: RFC 9457 for programs, a page or
// fragment for people.
type problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail"`
	Errors fieldErrors `json:"errors"`

	code       string // last part of Type; the key of a translation
	needs      string // role that may do it
	retryAfter time.Duration
}

// newProblem fills in what every problem has.
func newProblem(status int, code, title, detail string, fields ...fieldError) problem {
	if fields == nil {
		fields = fieldErrors{}
	}
	return problem{Type: "urn:fusebox:problem:" + code, Title: title, Status: status, Detail: detail, Errors: fields, code: code}
}

// problemOf is the only map from errors to HTTP. The order matters: a typed refusal
// inside a wrapped error wins over what wraps it.
func problemOf(err error) problem {
	for _, read := range []func(error) (problem, bool){requestProblem, storeProblem, accessProblem, echoProblem} {
		if p, ok := read(err); ok {
			return p
		}
	}
	if store.Unavailable(err) || errors.Is(err, breaker.ErrUnavailable) {
		p := newProblem(http.StatusServiceUnavailable, "unavailable", "Temporarily unavailable",
			"Nothing was changed. Try again in a moment.")
		p.retryAfter = 2 * time.Second
		return p
	}
	return newProblem(http.StatusInternalServerError, "internal", "Internal error",
		"This is our fault, not yours. The request id tells us what happened.")
}

// requestProblem reads what is wrong with a request's content.
func requestProblem(err error) (problem, bool) {
	var (
		fields  fieldErrors
		field   *provider.FieldError
		bad     *badRequest
		tooBig  *http.MaxBytesError
		invalid = "The request was understood and refused; each field says why. Nothing was stored."
	)
	switch {
	case errors.As(err, &fields):
		return newProblem(http.StatusUnprocessableEntity, "invalid", "Invalid content", invalid, fields...), true
	case errors.As(err, &field):
		return newProblem(http.StatusUnprocessableEntity, "invalid", "Invalid content", invalid,
			fieldError{field.Field, field.Reason}), true
	case errors.As(err, &bad):
		return newProblem(http.StatusBadRequest, "bad-request", "Bad request",
			"The request could not be read.", fieldError{bad.field, bad.reason}), true
	case errors.As(err, &tooBig):
		return newProblem(http.StatusRequestEntityTooLarge, "too-large", "Body too large",
			fmt.Sprintf("The body may have at most %d bytes.", tooBig.Limit),
			fieldError{"body", "is too large"}), true
	}
	return problem{}, false
}

// storeProblem reads the store's and the breaker's refusals.
func storeProblem(err error) (problem, bool) {
	var (
		busy     *store.OrderBusyError
		conflict *store.ConflictError
	)
	switch {
	case errors.As(err, &busy):
		return newProblem(http.StatusConflict, "order-busy", "The order has an unsettled payment",
			fmt.Sprintf("Payment %s for this order is %s. Wait until it is settled, or send allow_concurrent: true.",
				busy.PaymentID, busy.Status), fieldError{"order_ref", "has an unsettled payment"}), true
	case errors.As(err, &conflict):
		return newProblem(http.StatusConflict, "conflict", "Changed meanwhile",
			fmt.Sprintf("%s changed this at %s; it is now %s. Nothing was changed.",
				conflict.By, conflict.At.UTC().Format("15:04:05 UTC"), conflict.Status)), true
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrWalletNotFound):
		return newProblem(http.StatusNotFound, "not-found", "Not found", "There is nothing under this address."), true
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			p := newProblem(r.status, r.code, r.title, r.detail, r.fields...)
			p.retryAfter = r.retryAfter
			return p, true
		}
	}
	return problem{}, false
}

// refusals are the sentinels that always mean the same to a caller.
var refusals = []struct {
	err                 error
	status              int
	code, title, detail string
	retryAfter          time.Duration
	fields              fieldErrors
}{
	{err: store.ErrKeyReused, status: http.StatusUnprocessableEntity, code: "key-reused", title: "Idempotency key reused",
		detail: "This key was used before with other content. A new intent needs a new key.",
		fields: fieldErrors{{"Idempotency-Key", "was used with other content"}}},
	{err: store.ErrWalletCurrency, status: http.StatusUnprocessableEntity, code: "invalid", title: "Invalid content",
		detail: "A wallet holds one currency.", fields: fieldErrors{{"currency", "differs from the wallet's"}}},
	{err: store.ErrInsufficient, status: http.StatusUnprocessableEntity, code: "insufficient-balance", title: "Insufficient balance",
		detail: "The wallet's available balance is lower.", fields: fieldErrors{{"amount", "is more than the available balance"}}},
	{err: store.ErrOperationReused, status: http.StatusUnprocessableEntity, code: "key-reused", title: "Operation id reused",
		detail: "This operation id was used before with another amount or wallet.",
		fields: fieldErrors{{"operation_id", "was used with other content"}}},
	{err: store.ErrWalletFull, status: http.StatusUnprocessableEntity, code: "wallet-full", title: "Wallet full",
		detail: "The wallet cannot hold that much.", fields: fieldErrors{{"amount", "is more than the wallet can hold"}}},
	{err: store.ErrNotAllowed, status: http.StatusConflict, code: "not-allowed", title: "Not possible in this state",
		detail: "What it is now does not allow this. Nothing was changed."},
	{err: store.ErrInFlight, status: http.StatusConflict, code: "in-progress", title: "In progress",
		detail: "The same request is being worked on.", retryAfter: time.Second},
	{err: store.ErrPaused, status: http.StatusConflict, code: "paused", title: "Charges are paused",
		detail: "Charges of this provider are paused after a configuration alarm."},
	{err: store.ErrUserExists, status: http.StatusUnprocessableEntity, code: "invalid", title: "Invalid content",
		detail: "Each person signs in with an email of their own.", fields: fieldErrors{{"email", "has a user already"}}},
	{err: breaker.ErrEpoch, status: http.StatusConflict, code: "conflict", title: "Changed meanwhile",
		detail: "The circuit changed since you looked at it. Nothing was changed."},
	{err: breaker.ErrNotOpen, status: http.StatusConflict, code: "not-open", title: "The circuit is not open",
		detail: "Only an open circuit that nobody forced open can be probed. Nothing was changed."},
}

// accessProblem reads who may not do what.
func accessProblem(err error) (problem, bool) {
	var (
		role  *forbidden
		scope *missingScope
	)
	switch {
	case errors.As(err, &scope):
		return newProblem(http.StatusForbidden, "missing-scope", "Not allowed",
			fmt.Sprintf("This API key lacks the scope %s. Make one with: fusebox apikey add --scope %s", scope.needs, scope.needs),
			fieldError{"Authorization", "lacks the scope " + string(scope.needs)}), true
	case errors.As(err, &role):
		p := newProblem(http.StatusForbidden, "forbidden", "Not allowed",
			fmt.Sprintf("The role %s may do this.", role.needs))
		p.needs = string(role.needs)
		return p, true
	case errors.Is(err, errCrossOrigin):
		return newProblem(http.StatusForbidden, "cross-origin", "Cross-origin request refused",
			"The request came from another site. Nothing was changed."), true
	case errors.Is(err, errNoSession):
		return newProblem(http.StatusUnauthorized, "no-session", "Signed out", "Sign in to go on."), true
	case errors.Is(err, errNoKey):
		return newProblem(http.StatusUnauthorized, "no-key", "No valid API key",
			"Send an API key as Authorization: Bearer."), true
	}
	return problem{}, false
}

// echoProblem reads Echo's own errors: routing, methods, content types.
func echoProblem(err error) (problem, bool) {
	var he *echo.HTTPError
	if !errors.As(err, &he) || he.Code >= 500 {
		return problem{}, false
	}
	detail, _ := he.Message.(string)
	switch he.Code {
	case http.StatusNotFound:
		return newProblem(he.Code, "not-found", "Not found", "There is nothing under this address."), true
	case http.StatusUnsupportedMediaType:
		return newProblem(he.Code, "media-type", "Unsupported content type", "Send the content type this endpoint reads.",
			fieldError{"Content-Type", "is not supported here"}), true
	}
	return newProblem(he.Code, "http-"+strconv.Itoa(he.Code), http.StatusText(he.Code), detail), true
}

// renderError is Echo's error handler: every error of a handler or middleware ends
// here, as problem+json for programs and as a page or fragment for people.
func (s *Server) renderError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	if errors.Is(err, errClientGone) || (errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil) {
		c.Response().Status = statusClientGone // for the log; nobody reads an answer
		return
	}
	p := problemOf(err)
	if p.retryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(int(max(p.retryAfter, time.Second)/time.Second)))
	}
	// Through the recovering wrapper: an error page that panics is still an answer.
	sent := recoverPanic(func(c echo.Context) error { return s.sendProblem(c, p) })(c)
	if sent != nil && !c.Response().Committed {
		s.cfg.Log.ErrorContext(c.Request().Context(), "error page failed", "request_id", requestIDOf(c), "error", sent)
		_ = c.String(p.Status, p.Title)
	}
}

// sendProblem picks the form of the answer by who asked.
func (s *Server) sendProblem(c echo.Context, p problem) error {
	switch {
	case isMachine(c):
		return writeProblem(c, p)
	case p.code == "no-session":
		return s.toSignIn(c)
	}
	return s.renderErrorView(c, p)
}

// writeProblem answers a program.
func writeProblem(c echo.Context, p problem) error {
	if p.Status == http.StatusUnauthorized {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="fusebox"`)
	}
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(p.Status)
	return c.Echo().JSONSerializer.Serialize(c, p, "")
}
