package web

import (
	"context"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"
)

// attempt is one try to prove who somebody is, counted before it is checked.
type attempt struct {
	s       *Server
	ip, who string
}

// attempt counts a try of who (an email, or a person's id at the second step) from this
// address. wait is positive when there were too many: then nothing may be checked. All
// processes count together in the database; when it does not answer, this process counts
// alone, so that a failing count locks nobody out.
func (s *Server) attempt(c echo.Context, who string) (a attempt, wait time.Duration) {
	a = attempt{s, c.RealIP(), who}
	ctx := c.Request().Context()
	wait, err := a.count(ctx, c)
	if err != nil {
		note(c, slog.String("sign_in_count", err.Error()))
		wait = s.guard.wait(a.ip, who)
	}
	s.guard.failed(a.ip, who) // kept in step, for the moment the shared count is gone
	return a, wait
}

// count counts in the database.
func (a attempt) count(ctx context.Context, c echo.Context) (wait time.Duration, err error) {
	store, now := a.s.cfg.Store, a.s.cfg.Now()
	for _, k := range []struct {
		key   string
		limit int
	}{{pairKey(a.ip, a.who), guardPerPair}, {a.ip, guardPerIP}} {
		n, since, err := store.CountTry(ctx, k.key, guardWindow)
		if err != nil {
			return 0, err
		}
		if n > k.limit {
			wait = max(wait, guardWindow-now.Sub(since))
		}
		if n == k.limit+1 { // the first one refused in this window
			a.report(c, "too many attempts")
		}
	}
	return wait, nil
}

// report writes the audit row of a refused attempt. It is called for the first of a
// window only: a flood of attempts must not become a flood of rows.
func (a attempt) report(c echo.Context, why string) {
	if err := a.s.cfg.Store.SignInFailed(c.Request().Context(), a.who, a.ip, why, a.s.actor(c)); err != nil {
		note(c, slog.String("audit_error", err.Error()))
	}
}

// refused notes a wrong password or code.
func (a attempt) refused(c echo.Context) {
	note(c, slog.String("sign_in", "refused"))
	n, _, err := a.s.cfg.Store.CountTry(c.Request().Context(), "audited "+pairKey(a.ip, a.who), guardWindow)
	if err == nil && n == 1 {
		a.report(c, "wrong password or code")
	}
}

// succeeded forgets the pair's attempts; the address keeps those that failed.
func (a attempt) succeeded(c echo.Context) {
	a.s.guard.succeeded(a.ip, a.who)
	for key, all := range map[string]bool{pairKey(a.ip, a.who): true, "audited " + pairKey(a.ip, a.who): true, a.ip: false} {
		if err := a.s.cfg.Store.ForgetTry(c.Request().Context(), key, all); err != nil {
			note(c, slog.String("sign_in_count", err.Error()))
		}
	}
}
