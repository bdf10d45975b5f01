package web

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"fusebox/store"
	"fusebox/views"
)

// Keys of a session whose owner gave the right password and not yet the second factor.
// It is nobody's session until then: sessionUser is not set.
const (
	pendingUser = "pending_user"
	pendingKey  = "pending_key"
	pendingAt   = "pending_at"
	pendingNext = "pending_next"
)

// pendingLife is how long the first proof counts.
const pendingLife = 10 * time.Minute

// errStartOver: the first proof is missing, too old, or worth nothing any more.
var errStartOver = errors.New("web: the sign-in has to begin again")

// startSecond remembers the first proof under a new token and asks for the second.
func (s *Server) startSecond(c echo.Context, u store.User, next string) error {
	ctx := c.Request().Context()
	if err := s.renewSession(c); err != nil {
		return err
	}
	s.sessions.Put(ctx, pendingUser, u.ID.String())
	s.sessions.Put(ctx, pendingKey, u.SessionKey)
	s.sessions.Put(ctx, pendingAt, s.cfg.Now().Unix())
	s.sessions.Put(ctx, pendingNext, next)
	if _, _, err := s.sessions.Commit(ctx); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, views.PathSecond)
}

// pending returns who is half signed in. errStartOver if nobody is.
func (s *Server) pending(c echo.Context) (store.User, error) {
	ctx := c.Request().Context()
	id, err := uuid.Parse(s.sessions.GetString(ctx, pendingUser))
	if err != nil || s.cfg.Now().Sub(time.Unix(s.sessions.GetInt64(ctx, pendingAt), 0)) > pendingLife {
		return store.User{}, errStartOver
	}
	u, err := s.cfg.Store.User(ctx, id)
	if errors.Is(err, store.ErrNotFound) || (err == nil && (u.Disabled || u.SessionKey != s.sessions.GetString(ctx, pendingKey))) {
		return store.User{}, errStartOver
	}
	return u, err
}

// secondPage asks for the second factor.
func (s *Server) secondPage(c echo.Context) error {
	u, err := s.pending(c)
	if err != nil {
		return s.startOver(c, err)
	}
	return s.askSecond(c, http.StatusOK, u, "")
}

// startOver leads back to the first page when that is what err asks for.
func (s *Server) startOver(c echo.Context, err error) error {
	if errors.Is(err, errStartOver) {
		return c.Redirect(http.StatusSeeOther, "/signin")
	}
	return err
}

func (s *Server) askSecond(c echo.Context, status int, u store.User, problem string) error {
	f, err := s.cfg.Store.Factors(c.Request().Context(), u.ID)
	if err != nil {
		return err
	}
	return s.render(c, status, views.SecondFactor(views.SecondPage{Next: s.sessions.GetString(c.Request().Context(), pendingNext),
		App: f.AppSince != nil, Passkeys: s.passkeys != nil && len(f.Passkeys) > 0, Error: problem}))
}

// second checks a code of the app, or a recovery code.
func (s *Server) second(c echo.Context) error {
	u, err := s.pending(c)
	if err != nil {
		return s.startOver(c, err)
	}
	try, wait := s.attempt(c, u.ID.String())
	if wait > 0 {
		return s.askSecond(c, tooMany(c, wait), u, views.SignInTooMany)
	}
	ctx := c.Request().Context()
	if code := c.FormValue("recovery"); code != "" {
		by := store.Actor{Kind: "user", ID: u.ID.String(), Name: u.Name, RequestID: requestIDOf(c)}
		err = s.cfg.Store.TakeRecoveryCode(ctx, u.ID, code, by)
	} else {
		err = s.takeAppCode(c, u.ID, c.FormValue("code"))
	}
	if errors.Is(err, store.ErrCodeUsed) || errors.Is(err, store.ErrNotFound) {
		try.refused(c)
		return s.askSecond(c, http.StatusUnprocessableEntity, u, views.SignInCode)
	}
	if err != nil {
		return err
	}
	try.succeeded(c)
	return s.enter(c, u, s.sessions.GetString(ctx, pendingNext))
}

// takeAppCode accepts a code of the person's app, once. Errors: store.ErrCodeUsed for a
// wrong code and for one that was accepted before, store.ErrNotFound without an app.
func (s *Server) takeAppCode(c echo.Context, user uuid.UUID, code string) error {
	ctx := c.Request().Context()
	secret, err := s.cfg.Store.AppSecret(ctx, user)
	if err != nil {
		return err
	}
	step, ok := appStep(secret, code, s.cfg.Now())
	if !ok {
		return store.ErrCodeUsed
	}
	return s.cfg.Store.TakeAppStep(ctx, user, step)
}

// appPeriod is how long a code of an authenticator app counts: what every app assumes.
const appPeriod = 30

// appStep returns the time step the code belongs to. A phone's clock may be a step off
// either way. No step, no code.
func appStep(secret, code string, now time.Time) (int64, bool) {
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	opts := totp.ValidateOpts{Period: appPeriod, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}
	for _, off := range []int64{0, -1, 1} {
		at := now.Add(time.Duration(off) * appPeriod * time.Second)
		if ok, err := totp.ValidateCustom(code, secret, at, opts); err == nil && ok {
			return at.Unix() / appPeriod, true
		}
	}
	return 0, false
}
