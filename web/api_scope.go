package web

import (
	"github.com/labstack/echo/v4"

	"fusebox/store"
)

// missingScope is a request with an API key that is for something else.
type missingScope struct{ needs store.Scope }

// Error implements error.
func (e *missingScope) Error() string { return "this API key lacks the scope " + string(e.needs) }

// requireScope lets API keys with that scope through.
func requireScope(scope store.Scope) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !client(c).Allows(scope) {
				return &missingScope{scope}
			}
			return next(c)
		}
	}
}
