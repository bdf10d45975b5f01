package web

import (
	"slices"

	"github.com/labstack/echo/v4"

	"fusebox/store"
)

// missingScope is a request with an API key that is for something else.
type missingScope struct{ needs store.Scope }

// Error implements error.
func (e *missingScope) Error() string { return "this API key lacks the scope " + string(e.needs) }

// requireScope lets API keys with any of these scopes through; the first is named to
// those without.
func requireScope(scopes ...store.Scope) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !slices.ContainsFunc(scopes, client(c).Allows) {
				return &missingScope{scopes[0]}
			}
			return next(c)
		}
	}
}
