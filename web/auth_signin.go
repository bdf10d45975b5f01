package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// registerAuth adds sign-in, its second step, proving again who one is, and sign-out.
func (s *Server) registerAuth() {
	s.guard = newSignInGuard(s.cfg.Now)
	s.public.GET("/signin", s.signInPage)
	s.public.POST("/signin", s.signIn)
	s.public.GET(views.PathSecond, s.secondPage)
	s.public.POST(views.PathSecond, s.second)
	if s.passkeys != nil {
		s.public.POST("/signin/passkey/begin", s.beginPasskeySignIn)
		s.public.POST("/signin/passkey", s.passkeySignIn)
		s.public.POST(views.PathSecond+"/passkey/begin", s.beginSecondPasskey)
		s.public.POST(views.PathSecond+"/passkey", s.secondPasskey)
		s.public.POST(views.PathAgain+"/passkey/begin", s.beginAgainPasskey, s.requireUser)
		s.public.POST(views.PathAgain+"/passkey", s.againPasskey, s.requireUser)
	}
	s.public.POST("/signout", s.signOut)
	if s.cfg.OIDC != nil {
		s.public.GET(views.PathOIDC, s.startOIDC)
		s.public.GET(views.PathOIDC+"/callback", s.finishOIDC)
	}
	s.registerAgain()
}

// oidcName is how the sign-in provider is called; empty: there is none.
func (s *Server) oidcName() string {
	if s.cfg.OIDC == nil {
		return ""
	}
	return s.cfg.OIDC.Name
}

// signInPage shows the form, or goes on when somebody is signed in already.
func (s *Server) signInPage(c echo.Context) error {
	next := safeNext(c.QueryParam("next"))
	if s.user(c).Email != "" {
		return c.Redirect(http.StatusSeeOther, next)
	}
	return s.signInAgain(c, http.StatusOK, views.SignInPage{Next: next})
}

// signInAgain shows the form with what went wrong.
func (s *Server) signInAgain(c echo.Context, status int, p views.SignInPage) error {
	p.OIDC, p.Passkeys = s.oidcName(), s.passkeys != nil
	return s.render(c, status, views.SignIn(p))
}

// tooMany names the pause in the header and returns the status.
func tooMany(c echo.Context, wait time.Duration) int {
	c.Response().Header().Set("Retry-After", seconds(wait))
	return http.StatusTooManyRequests
}

// signIn checks the form. The answer to an unknown email, a wrong password and a
// disabled user is the same, and takes the same time.
func (s *Server) signIn(c echo.Context) error {
	form := views.SignInPage{Email: store.NormalEmail(c.FormValue("email")), Next: safeNext(c.FormValue("next"))}
	try, wait := s.attempt(c, form.Email)
	if wait > 0 {
		form.Error = views.SignInTooMany
		return s.signInAgain(c, tooMany(c, wait), form)
	}
	u, err := s.cfg.Store.Authenticate(c.Request().Context(), form.Email, c.FormValue("password"))
	if errors.Is(err, store.ErrBadCredentials) {
		try.refused(c)
		form.Error = views.SignInWrong
		return s.signInAgain(c, http.StatusUnprocessableEntity, form)
	}
	if err != nil {
		return err
	}
	try.succeeded(c)
	return s.proceed(c, u, form.Next)
}

// proceed goes on after the first proof: to the second factor, or in.
func (s *Server) proceed(c echo.Context, u store.User, next string) error {
	if u.HasFactor {
		return s.startSecond(c, u, next)
	}
	return s.enter(c, u, next)
}

// enter signs u in and goes to next.
func (s *Server) enter(c echo.Context, u store.User, next string) error {
	if err := s.startSession(c, u); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, safeNext(next))
}

// startSession signs u in under a new token and with nothing of what the old session
// held, so that a token planted before the sign-in is worth nothing. It commits at once:
// a redirect without a stored session would only lead back to the form.
func (s *Server) startSession(c echo.Context, u store.User) error {
	ctx := c.Request().Context()
	if err := s.renewSession(c); err != nil {
		return err
	}
	now := s.cfg.Now().Unix()
	s.sessions.Put(ctx, sessionUser, u.ID.String())
	s.sessions.Put(ctx, sessionKey, u.SessionKey)
	s.sessions.Put(ctx, sessionSeen, now)
	s.sessions.Put(ctx, sessionAuth, now)
	s.ownSession(c, u)
	if _, _, err := s.sessions.Commit(ctx); err != nil {
		return err
	}
	c.Set(ctxUser, u)
	return s.cfg.Store.SignedIn(ctx, u.ID, s.actor(c))
}

// renewSession empties the session and gives it a new token.
func (s *Server) renewSession(c echo.Context) error {
	ctx := c.Request().Context()
	if err := s.sessions.Clear(ctx); err != nil {
		return err
	}
	return s.sessions.RenewToken(ctx)
}

// signOut ends the session. Signing out twice is no error.
func (s *Server) signOut(c echo.Context) error {
	ctx := c.Request().Context()
	if err := s.sessions.Destroy(ctx); err != nil {
		return err
	}
	if u := s.user(c); u.Email != "" {
		if err := s.cfg.Store.AuditAlone(ctx, s.actor(c), "user.sign_out", "user:"+u.ID.String(), nil); err != nil {
			return err
		}
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
		u.Path == "/signin" || strings.HasPrefix(u.Path, "/signin/") || u.Path == "/signout" {
		return "/"
	}
	return next
}
