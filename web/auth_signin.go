package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// registerAuth adds sign-in and sign-out.
func (s *Server) registerAuth() {
	guard := newSignInGuard(s.cfg.Now)
	s.public.GET("/signin", s.signInPage)
	s.public.POST("/signin", func(c echo.Context) error { return s.signIn(c, guard) })
	s.public.POST("/signout", s.signOut)
}

// signInPage shows the form, or goes on when somebody is signed in already.
func (s *Server) signInPage(c echo.Context) error {
	next := safeNext(c.QueryParam("next"))
	if s.user(c).Email != "" {
		return c.Redirect(http.StatusSeeOther, next)
	}
	return s.render(c, http.StatusOK, views.SignIn(views.SignInPage{Next: next}))
}

// signIn checks the form. The answer to an unknown email, a wrong password and a
// disabled user is the same, and takes the same time.
func (s *Server) signIn(c echo.Context, guard *signInGuard) error {
	ctx := c.Request().Context()
	form := views.SignInPage{Email: store.NormalEmail(c.FormValue("email")), Next: safeNext(c.FormValue("next"))}
	if wait := guard.wait(c.RealIP(), form.Email); wait > 0 {
		c.Response().Header().Set("Retry-After", seconds(wait))
		form.Error = views.SignInTooMany
		return s.render(c, http.StatusTooManyRequests, views.SignIn(form))
	}
	u, err := s.cfg.Store.Authenticate(ctx, form.Email, c.FormValue("password"))
	if errors.Is(err, store.ErrBadCredentials) {
		guard.failed(c.RealIP(), form.Email)
		note(c, slog.String("sign_in", "refused"))
		form.Error = views.SignInWrong
		return s.render(c, http.StatusUnprocessableEntity, views.SignIn(form))
	}
	if err != nil {
		return err
	}
	guard.succeeded(c.RealIP(), form.Email)
	if err := s.startSession(c, u); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, form.Next)
}

// startSession signs u in under a new token, so that a token planted before the
// sign-in is worth nothing. It commits at once: a redirect without a stored session
// would only lead back to the form.
func (s *Server) startSession(c echo.Context, u store.User) error {
	ctx := c.Request().Context()
	if err := s.sessions.RenewToken(ctx); err != nil {
		return err
	}
	s.sessions.Put(ctx, sessionUser, u.ID.String())
	s.sessions.Put(ctx, sessionKey, u.SessionKey)
	s.sessions.Put(ctx, sessionSeen, s.cfg.Now().Unix())
	if _, _, err := s.sessions.Commit(ctx); err != nil {
		return err
	}
	c.Set(ctxUser, u)
	return s.cfg.Store.SignedIn(ctx, u.ID, s.actor(c))
}

// signOut ends the session. Signing out twice is no error.
func (s *Server) signOut(c echo.Context) error {
	if err := s.sessions.Destroy(c.Request().Context()); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/signin")
}

// safeNext returns where to go after the sign-in: a path of ours, never another site.
// Browsers read a backslash as a slash and drop control characters, so both are out.
func safeNext(next string) string {
	u, err := url.Parse(next)
	bad := func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.IndexFunc(next, bad) >= 0 ||
		u.Path == "/signin" || u.Path == "/signout" {
		return "/"
	}
	return next
}
