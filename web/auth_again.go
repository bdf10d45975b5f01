package web

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// recentFor is how long a proof of who somebody is stands for changes of factors, keys
// and people. An unlocked screen somebody walked away from is older.
const recentFor = 10 * time.Minute

// registerAgain adds the page that asks for the proof again.
func (s *Server) registerAgain() {
	s.public.GET(views.PathAgain, s.againPage, s.requireUser)
	s.public.POST(views.PathAgain, s.again, s.requireUser)
}

// requireRecent lets a change through when its author proved who they are lately, and
// else asks. Every change has its page at the same address, so that is where they go on.
func (s *Server) requireRecent(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		at := time.Unix(s.sessions.GetInt64(c.Request().Context(), sessionAuth), 0)
		if s.cfg.Now().Sub(at) <= recentFor {
			return next(c)
		}
		back := c.Request().URL.Path
		if from, ok := goesOn[c.Path()]; ok {
			back = from
		}
		return s.leadTo(c, views.PathAgain+"?next="+url.QueryEscape(back))
	}
}

// goesOn are the addresses that only take forms, and the page of each form.
var goesOn = map[string]string{
	views.PathFactors + "/passkeys":       views.PathFactors,
	views.PathFactors + "/passkeys/begin": views.PathFactors,
}

func (s *Server) againPage(c echo.Context) error {
	return s.askAgain(c, http.StatusOK, c.QueryParam("next"), "")
}

func (s *Server) askAgain(c echo.Context, status int, next, problem string) error {
	u := s.user(c)
	f, err := s.cfg.Store.Factors(c.Request().Context(), u.ID)
	if err != nil {
		return err
	}
	return s.render(c, status, views.AskAgain(views.AgainPage{Next: safeNext(next), Email: u.Email,
		Passkeys: s.passkeys != nil && len(f.Passkeys) > 0, OIDC: s.oidcName(), Error: problem}))
}

// again checks the password of the person who is signed in.
func (s *Server) again(c echo.Context) error {
	u, next := s.user(c), safeNext(c.FormValue("next"))
	try, wait := s.attempt(c, u.Email)
	if wait > 0 {
		return s.askAgain(c, tooMany(c, wait), next, views.SignInTooMany)
	}
	_, err := s.cfg.Store.Authenticate(c.Request().Context(), u.Email, c.FormValue("password"))
	if errors.Is(err, store.ErrBadCredentials) {
		try.refused(c)
		return s.askAgain(c, http.StatusUnprocessableEntity, next, views.SignInWrong)
	}
	if err != nil {
		return err
	}
	try.succeeded(c)
	return s.proved(c, next)
}

// proved notes a fresh proof and goes on.
func (s *Server) proved(c echo.Context, next string) error {
	s.sessions.Put(c.Request().Context(), sessionAuth, s.cfg.Now().Unix())
	return c.Redirect(http.StatusSeeOther, safeNext(next))
}
