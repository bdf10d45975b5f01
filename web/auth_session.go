package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/gob"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// Life of a session: one shift in all, and less when nobody is there. A live page's
// own refreshes do not count as somebody being there.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 4 * time.Hour
	seenEvery   = time.Minute // how exact the idle time is
)

// Keys of what a session holds.
const (
	sessionUser  = "user"
	sessionKey   = "key"  // the user's SessionKey at sign-in
	sessionSeen  = "seen" // Unix seconds of the last page or action
	sessionFlash = "flash"
	sessionAuth  = "auth" // Unix seconds of the last time they proved who they are
)

// newSessions returns the session manager. Tokens are stored hashed: who reads the
// table cannot sign in with it.
func newSessions(st *watchers, https bool) *scs.SessionManager {
	gob.Register([]Flash{}) // the codec has to know what a session may hold
	m := scs.New()
	m.Store = st
	m.Lifetime = sessionLife
	m.HashTokenInStore = true
	m.Cookie.Name = "fusebox_session"
	if https {
		m.Cookie.Name = "__Host-fusebox_session"
		m.Cookie.Secure = true
	}
	m.Cookie.HttpOnly = true
	m.Cookie.SameSite = http.SameSiteLaxMode
	m.Cookie.Path = "/"
	return m
}

// loadSession reads the session of a browser's request and, when it changed, writes
// it back just before the answer's first byte.
func (s *Server) loadSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if isMachine(c) || isPlumbing(c) {
			return next(c)
		}
		c.Response().Header().Add(echo.HeaderVary, echo.HeaderCookie)
		token := ""
		if cookie, err := c.Cookie(s.sessions.Cookie.Name); err == nil {
			token = cookie.Value
		}
		ctx, err := s.sessions.Load(store.TrackSession(watching(c)), token)
		if err != nil {
			return err
		}
		c.SetRequest(c.Request().WithContext(ctx))
		c.Response().Before(func() { s.commitSession(c) })
		if err := s.loadUser(c); err != nil {
			return err
		}
		return next(c)
	}
}

// isPlumbing reports whether the path never needs to know who asks.
func isPlumbing(c echo.Context) bool {
	switch c.Path() {
	case "/healthz", "/readyz", "/metrics", assetRoute:
		return true
	}
	return false
}

// commitSession stores a changed session and sets its cookie. A failure costs the
// flash message or the activity mark, not the answer; signing in checks for itself.
func (s *Server) commitSession(c echo.Context) {
	ctx := c.Request().Context()
	switch s.sessions.Status(ctx) {
	case scs.Modified:
		token, expiry, err := s.sessions.Commit(ctx)
		if err != nil {
			note(c, slog.String("session_error", err.Error()))
			return
		}
		s.sessions.WriteSessionCookie(ctx, c.Response(), token, expiry)
	case scs.Destroyed:
		s.sessions.WriteSessionCookie(ctx, c.Response(), "", time.Time{})
	}
}

// loadUser puts the signed-in person into the context. The row is read each time, so
// a disabled user or a changed role counts from the next request.
func (s *Server) loadUser(c echo.Context) error {
	ctx := c.Request().Context()
	id, err := uuid.Parse(s.sessions.GetString(ctx, sessionUser))
	if err != nil {
		return nil
	}
	now := s.cfg.Now()
	seen := time.Unix(s.sessions.GetInt64(ctx, sessionSeen), 0)
	if now.Sub(seen) > sessionIdle {
		return s.sessions.Destroy(ctx)
	}
	u, err := s.watchers.user(ctx, s.cfg.Store, id)
	if errors.Is(err, store.ErrNotFound) || (err == nil && (u.Disabled || u.SessionKey != s.sessions.GetString(ctx, sessionKey))) {
		return s.sessions.Destroy(ctx)
	}
	if err != nil {
		return err
	}
	c.Set(ctxUser, u)
	s.ownSession(c, u)
	if now.Sub(seen) > seenEvery && !isHTMX(c) && !isStream(c) {
		s.sessions.Put(ctx, sessionSeen, now.Unix())
		return s.cfg.Store.TouchUser(ctx, u.ID)
	}
	return nil
}

// ownSession says whose session this request's is, for the list of a person's sessions.
func (s *Server) ownSession(c echo.Context, u store.User) {
	device := []rune(c.Request().UserAgent())
	store.OwnSession(c.Request().Context(), store.SessionOwner{User: u.ID, At: s.cfg.Now(),
		Device: string(device[:min(len(device), 300)]), Address: c.RealIP()})
}

// sessionToken is the session's token as the table has it.
func (s *Server) sessionToken(c echo.Context) string {
	sum := sha256.Sum256([]byte(s.sessions.Token(c.Request().Context())))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// user returns the signed-in person; the zero User when nobody is.
func (s *Server) user(c echo.Context) store.User {
	u, _ := c.Get(ctxUser).(store.User)
	return u
}

// actor returns who makes this request, for timelines and the audit log; an empty ID
// when nobody is known.
func (s *Server) actor(c echo.Context) store.Actor {
	if u := s.user(c); u.Email != "" {
		return store.Actor{Kind: "user", ID: u.ID.String(), Name: u.Name, RequestID: requestIDOf(c)}
	}
	if k, ok := c.Get(ctxClient).(store.APIKey); ok {
		return store.Actor{Kind: "client", ID: k.ID.String(), Name: k.Name, RequestID: requestIDOf(c)}
	}
	return store.Actor{RequestID: requestIDOf(c)}
}

// requireUser lets signed-in people through.
func (s *Server) requireUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.user(c).Email == "" {
			return errNoSession
		}
		if s.mustEnrol(c) {
			return s.leadTo(c, views.PathFactors+"?required=1")
		}
		return next(c)
	}
}

// mustEnrol reports whether the person has to set up a second factor before anything else.
func (s *Server) mustEnrol(c echo.Context) bool {
	u := s.user(c)
	return s.cfg.RequireFactor && !u.HasFactor && u.Role.AtLeast(store.RoleOperator) &&
		!strings.HasPrefix(c.Path(), views.PathFactors)
}

// leadTo sends a person to another page first; htmx as a whole page, not into a fragment.
func (s *Server) leadTo(c echo.Context, to string) error {
	if isHTMX(c) || isStream(c) {
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusUnauthorized)
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// requireRole lets people through whose role is at least need; the refusal names it.
func (s *Server) requireRole(need store.Role) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			switch u := s.user(c); {
			case u.Email == "":
				return errNoSession
			case !u.Role.AtLeast(need):
				return &forbidden{needs: need}
			}
			return next(c)
		}
	}
}

// Flash is a message shown once, on the next page.
type Flash struct {
	Kind string // ok, warning, error
	Text string
}

// flash keeps a message for the next page.
func (s *Server) flash(c echo.Context, kind, text string) {
	ctx := c.Request().Context()
	have, _ := s.sessions.Get(ctx, sessionFlash).([]Flash)
	s.sessions.Put(ctx, sessionFlash, append(have, Flash{kind, text}))
}

// takeFlashes returns the waiting messages and forgets them.
func (s *Server) takeFlashes(c echo.Context) []Flash {
	ctx := c.Request().Context()
	if !s.sessions.Exists(ctx, sessionFlash) {
		return nil
	}
	have, _ := s.sessions.Pop(ctx, sessionFlash).([]Flash)
	return have
}
