package store

import (
	"context"
	"errors"
	"time"

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

// FindCtx returns a live session's data.
func (s *Sessions) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	var data []byte
	err := s.pool.QueryRow(ctx, `SELECT data FROM sessions WHERE token = $1 AND now() < expiry`, token).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// CommitCtx stores a session until expiry. On the way it removes a few expired ones,
// so that the table needs no job of its own.
func (s *Sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	_, err := s.pool.Exec(ctx, `
		INSERT INTO sessions (token, data, expiry) VALUES ($1, $2, $3)
		ON CONFLICT (token) DO UPDATE SET data = EXCLUDED.data, expiry = EXCLUDED.expiry`, token, data, expiry)
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
