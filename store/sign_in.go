package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CountTry counts one attempt under key and returns how many there were since the window
// began, this one too, and when that was. All processes count together, and an attempt
// is counted before it is checked: a thousand at once are a thousand.
func (s *Store) CountTry(ctx context.Context, key string, window time.Duration) (count int, since time.Time, err error) {
	now := s.Now()
	err = s.pool.QueryRow(ctx, `
		INSERT INTO sign_in_tries AS t (key, count, since) VALUES ($1, 1, $2)
		ON CONFLICT (key) DO UPDATE SET
			count = CASE WHEN t.since <= $3 THEN 1 ELSE t.count + 1 END,
			since = CASE WHEN t.since <= $3 THEN $2 ELSE t.since END
		RETURNING count, since`, tryKey(key), now, now.Add(-window)).Scan(&count, &since)
	return count, since, wrap(err, "count sign-in")
}

// ForgetTry takes attempts back: all of them, or just the last. On the way it removes a
// few windows that are long over, so that the table needs no job of its own.
func (s *Store) ForgetTry(ctx context.Context, key string, all bool) error {
	_, err := s.pool.Exec(ctx, `UPDATE sign_in_tries SET count = CASE WHEN $2 THEN 0 ELSE greatest(count - 1, 0) END WHERE key = $1`,
		tryKey(key), all)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `DELETE FROM sign_in_tries WHERE key IN (
		SELECT key FROM sign_in_tries WHERE since < $1 ORDER BY since LIMIT 20 FOR UPDATE SKIP LOCKED)`, s.Now().Add(-24*time.Hour))
	return err
}

// tryKey keeps addresses and emails out of the table, and every key short.
func tryKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// SignInFailed writes the audit row of a refused sign-in. The caller writes few of them.
func (s *Store) SignInFailed(ctx context.Context, email, address, why string, by Actor) error {
	target := "user:unknown"
	switch u, err := s.UserByEmail(ctx, email); {
	case err == nil:
		target = "user:" + u.ID.String()
	case !errors.Is(err, ErrNotFound):
		return err
	}
	if by.ID == "" {
		by.Kind, by.ID, by.Name = "system", "sign-in", "sign-in"
	}
	return s.AuditAlone(ctx, by, "user.sign_in_failed", target, map[string]any{"why": why, "address": address})
}

// AuditAlone writes an audit row of something that changes nothing in the books.
func (s *Store) AuditAlone(ctx context.Context, by Actor, action, target string, after map[string]any) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return s.Audit(ctx, tx, by, action, target, "", nil, after)
	})
}

// Identity is who a sign-in provider says somebody is. The caller has checked that the
// provider said so, and that the address is verified there.
type Identity struct {
	Issuer, Subject string
	Email, Name     string
	Role            Role // by the provider's claims; empty: it says nothing of it
}

// ErrUnknownIdentity: nobody here is this person, and their claims give no role.
var ErrUnknownIdentity = errors.New("store: nobody is linked to this identity")

// SignInIdentity finds the person of an identity: by the link made earlier, else by the
// address, else, when a role is given, as a new person. The link is made on the way, and
// a role that moved at the provider moves here. Errors: ErrUnknownIdentity,
// ErrBadCredentials (disabled, or the address belongs to a person who is somebody else
// at the provider).
func (s *Store) SignInIdentity(ctx context.Context, id Identity, by Actor) (User, error) {
	u, err := s.linked(ctx, id)
	if errors.Is(err, ErrNotFound) {
		u, err = s.link(ctx, id, by)
	}
	if err != nil {
		return User{}, err
	}
	if u.Disabled {
		return User{}, ErrBadCredentials
	}
	if id.Role == "" || id.Role == u.Role {
		return u, nil
	}
	// The last admin stays one, whatever the claims say: somebody has to put them right.
	if _, err := s.EditUser(ctx, u.ID, UserEdit{Change: ChangeRole, Role: id.Role}, by); err != nil && !errors.Is(err, ErrLastAdmin) {
		return User{}, err
	}
	return s.User(ctx, u.ID)
}

func (s *Store) linked(ctx context.Context, id Identity) (User, error) {
	return scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+` FROM users
		WHERE id = (SELECT user_id FROM user_identities WHERE issuer = $1 AND subject = $2)`, id.Issuer, id.Subject))
}

// link ties an identity to the person with its address, or to a new one.
func (s *Store) link(ctx context.Context, id Identity, by Actor) (User, error) {
	u, err := s.UserByEmail(ctx, id.Email)
	switch {
	case errors.Is(err, ErrNotFound) && id.Role == "":
		return User{}, ErrUnknownIdentity
	case errors.Is(err, ErrNotFound):
		// A password nobody knows: this person signs in at the provider.
		u, err = s.CreateUser(ctx, NewUser{Email: id.Email, Name: id.Name, Role: id.Role, Password: newAPISecret()}, by)
	}
	if err != nil {
		return User{}, err
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO user_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4)`,
			id.Issuer, id.Subject, u.ID, s.Now())
		if err != nil {
			return err
		}
		return s.Audit(ctx, tx, by, "user.identity_link", "user:"+u.ID.String(), "", nil, map[string]any{"issuer": id.Issuer})
	})
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "23505" {
		if v, lerr := s.linked(ctx, id); lerr == nil {
			return v, nil // another request of the same person was first
		}
		return User{}, ErrBadCredentials
	}
	return u, err
}

// Session is what a person sees of one of their sessions.
type Session struct {
	ID              uuid.UUID
	Token           string // hashed
	Device, Address string
	StartedAt       time.Time
	SeenAt          time.Time
}

// SessionsOf lists a person's live sessions, the one used last first.
func (s *Store) SessionsOf(ctx context.Context, user uuid.UUID) ([]Session, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, token, device, address, coalesce(started_at, seen_at), seen_at FROM sessions
		WHERE user_id = $1 AND now() < expiry AND seen_at IS NOT NULL ORDER BY seen_at DESC, id LIMIT 100`, user)
	if err != nil {
		return nil, wrap(err, "list sessions")
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Session])
	return list, wrap(err, "list sessions")
}

// RevokeSession ends one of a person's sessions. action is the one-time id of the form.
// Errors: ErrNotFound (it is over, or not theirs), ErrActionDone.
func (s *Store) RevokeSession(ctx context.Context, action, user, id uuid.UUID, by Actor) error {
	return s.revoke(ctx, action, user, by, true, `DELETE FROM sessions WHERE user_id = $1 AND id = $2`, user, id)
}

// RevokeOtherSessions ends all of a person's sessions but the one with this hashed token.
// action is the one-time id of the form. ErrActionDone.
func (s *Store) RevokeOtherSessions(ctx context.Context, action, user uuid.UUID, keep string, by Actor) error {
	return s.revoke(ctx, action, user, by, false, `DELETE FROM sessions WHERE user_id = $1 AND token <> $2`, user, keep)
}

func (s *Store) revoke(ctx context.Context, action, user uuid.UUID, by Actor, must bool, sql string, args ...any) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.claimForm(ctx, tx, action, by, "user.sessions_revoked", "user:"+user.String()); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return err
		}
		if must && tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return s.Audit(ctx, tx, by, "user.sessions_revoked", "user:"+user.String(), "", nil, map[string]any{"sessions": tag.RowsAffected()})
	})
}
