package web

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
)

// watchers answer who is signed in for refreshes of live regions; see watchCache.
type watchers struct {
	*store.Sessions
	sessions *watchCache[string, []byte]
	users    *watchCache[uuid.UUID, store.User]
}

func newWatchers(cfg Config) *watchers {
	st := cfg.Store
	return &watchers{Sessions: st.Sessions(), sessions: newWatchCache(cfg.Now, st.Sessions().FindMany),
		users: newWatchCache(cfg.Now, st.UsersByID)}
}

type watchingKey struct{}

// watching marks a request that only refreshes what somebody has open.
func watching(c echo.Context) context.Context {
	ctx := c.Request().Context()
	if c.Request().Method == http.MethodGet && isHTMX(c) && c.Request().Header.Get(headerRev) != "" {
		return context.WithValue(ctx, watchingKey{}, true)
	}
	return ctx
}

func isWatching(ctx context.Context) bool { return ctx.Value(watchingKey{}) != nil }

// FindCtx returns a live session's data; it makes watchers the session manager's store.
func (w *watchers) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	if isWatching(ctx) {
		return w.sessions.get(ctx, token)
	}
	return w.Sessions.FindCtx(ctx, token)
}

// DeleteCtx ends a session, in this process's memory too.
func (w *watchers) DeleteCtx(ctx context.Context, token string) error {
	defer w.sessions.forget(token)
	return w.Sessions.DeleteCtx(ctx, token)
}

// user reads a person. ErrNotFound.
func (w *watchers) user(ctx context.Context, st *store.Store, id uuid.UUID) (store.User, error) {
	if !isWatching(ctx) {
		return st.User(ctx, id)
	}
	u, found, err := w.users.get(ctx, id)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return u, err
}
