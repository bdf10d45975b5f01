package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sessions keeps console sessions in the sessions table. It satisfies
// scs.CtxStore. scs/pgxstore has the same statements but runs them without the
// request's context, so a stuck database would hold every page for ever.
type Sessions struct {
	pool *pgxpool.Pool
}

// Sessions returns the session store on the same pool.
func (s *Store) Sessions() *Sessions { return &Sessions{pool: s.pool} }

// SessionOwner is whose session a commit stores, and from where.
type SessionOwner struct {
	User            uuid.UUID
	Device, Address string
	At              time.Time
}

type trackKey struct{}

// sessionTrack is what a request knows of its session.
type sessionTrack struct {
	owner  SessionOwner
	loaded string // token the session was read under
}

// TrackSession lets a request's session know its owner, and keeps one that somebody
// revokes while the request runs from being stored again.
func TrackSession(ctx context.Context) context.Context {
	return context.WithValue(ctx, trackKey{}, &sessionTrack{})
}

// OwnSession says whose session a tracked request has.
func OwnSession(ctx context.Context, o SessionOwner) {
	if t, ok := ctx.Value(trackKey{}).(*sessionTrack); ok {
		t.owner = o
	}
}

// FindCtx returns a live session's data.
func (s *Sessions) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	var data []byte
	err := s.pool.QueryRow(ctx, `SELECT data FROM sessions WHERE token = $1 AND now() < expiry`, token).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if t, ok := ctx.Value(trackKey{}).(*sessionTrack); ok && err == nil {
		t.loaded = token
	}
	return data, err == nil, err
}

// CommitCtx stores a session until expiry. On the way it removes a few expired ones,
// so that the table needs no job of its own.
func (s *Sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	t, ok := ctx.Value(trackKey{}).(*sessionTrack)
	if !ok {
		t = &sessionTrack{}
	}
	var user, at any
	if t.owner.User != uuid.Nil {
		user, at = t.owner.User, t.owner.At
	}
	sql := `INSERT INTO sessions (token, data, expiry, user_id, device, address, started_at, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
		ON CONFLICT (token) DO UPDATE SET data = EXCLUDED.data, expiry = EXCLUDED.expiry`
	if t.loaded == token { // a session that is gone by now was revoked, and stays gone
		sql = `UPDATE sessions SET data = $2, expiry = $3, user_id = coalesce($4, user_id),
			device = coalesce(nullif($5, ''), device), address = coalesce(nullif($6, ''), address),
			started_at = coalesce(started_at, $7), seen_at = coalesce($7, seen_at) WHERE token = $1`
	}
	_, err := s.pool.Exec(ctx, sql, token, data, expiry, user, clean(t.owner.Device), clean(t.owner.Address), at)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `
		DELETE FROM sessions WHERE token IN (
			SELECT token FROM sessions WHERE expiry < now() ORDER BY expiry LIMIT 20 FOR UPDATE SKIP LOCKED)`)
	return err
}

// DeleteCtx ends a session. Ending one that is not there is no error.
func (s *Sessions) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM sessions WHERE token = $1`, token)
	return err
}

// Find, Commit and Delete are the context-free half of scs.Store. scs prefers the
// others and never calls these.

// Find is FindCtx without a caller's deadline.
func (s *Sessions) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit is CommitCtx without a caller's deadline.
func (s *Sessions) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete is DeleteCtx without a caller's deadline.
func (s *Sessions) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
