package store

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fusebox/provider"
)

// Role is what a person may do. Roles are ordered: each may do what the ones
// before it may.
type Role string

// Roles.
const (
	RoleSupport  Role = "support"  // read, notes, reconcile
	RoleOperator Role = "operator" // resolve, reset, replay
	RoleAdmin    Role = "admin"    // users, keys, tuning
)

// Roles lists the roles in ascending order.
var Roles = []Role{RoleSupport, RoleOperator, RoleAdmin}

// rank is the role's place in Roles plus one; 0 for a word that is no role.
func (r Role) rank() int {
	for i, x := range Roles {
		if x == r {
			return i + 1
		}
	}
	return 0
}

// AtLeast reports whether r may do what need may. A word that is no role may nothing.
func (r Role) AtLeast(need Role) bool { return r.rank() > 0 && r.rank() >= need.rank() }

// Valid reports whether r is one of Roles.
func (r Role) Valid() bool { return r.rank() > 0 }

// User is a person who signs in to the console. The password hash stays in the store.
type User struct {
	ID         uuid.UUID
	Email      string // lower-case
	Name       string
	Role       Role
	Locale     string // BCP 47; empty: by the browser
	TimeZone   string // IANA; empty: by the browser
	Theme      string
	Disabled   bool
	CreatedAt  time.Time
	LastSeenAt *time.Time
	Shortcuts  string // on or off; empty: by the browser
	HasFactor  bool   // signing in takes a second factor
	Version    int64  // of what others may change: role, disabled, factors
	// SessionKey changes with the password and whenever the person's sessions are ended:
	// a session made under another one is over.
	SessionKey string
}

var (
	// ErrUserExists: the email already has a user.
	ErrUserExists = errors.New("store: a user with this email exists")
	// ErrBadCredentials: unknown email, wrong password or a disabled user; which of
	// them is not told.
	ErrBadCredentials = errors.New("store: email or password is wrong")
)

// Limits of a user's fields. The upper password limit keeps hashing time bounded.
const (
	MinPassword = 10
	MaxPassword = 256
	maxEmail    = 254
	maxName     = 100
)

// passwordParams is OWASP's second recommendation for argon2id: about 40 ms and
// 19 MiB on one core, so that two cores sign people in while payments flow.
var passwordParams = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// hashSlots bounds concurrent hashing: a flood of sign-ins must not take the
// process's memory or both cores.
var hashSlots = make(chan struct{}, 2)

// hashing runs fn in one of the slots, or gives up with ctx.
func hashing(ctx context.Context, fn func() error) error {
	select {
	case hashSlots <- struct{}{}:
		defer func() { <-hashSlots }()
		return fn()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dummyHash is compared against when the email is unknown, so that the answer takes
// as long as for a known one. It has passwordParams' cost and nobody's password.
const dummyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// NormalEmail returns the form an email is stored and compared in.
func NormalEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// CheckEmail refuses what cannot be an address; a *provider.FieldError says why.
func CheckEmail(email string) error {
	a, err := mail.ParseAddress(email)
	if err != nil || a.Address != email || len(email) > maxEmail {
		return &provider.FieldError{Field: "email", Reason: "is not an email address"}
	}
	return nil
}

// CheckPassword refuses a password that is too short or too long, in characters.
func CheckPassword(password string) error {
	n := utf8.RuneCountInString(password)
	if n < MinPassword || n > MaxPassword || !utf8.ValidString(password) {
		return &provider.FieldError{Field: "password",
			Reason: fmt.Sprintf("must have %d to %d characters", MinPassword, MaxPassword)}
	}
	return nil
}

// NewUser is the content of CreateUser.
type NewUser struct {
	Email    string
	Name     string // empty: the part of the email before the @
	Role     Role
	Password string
}

// normal returns n as it is stored, or a *provider.FieldError.
func (n NewUser) normal() (NewUser, error) {
	n.Email, n.Name = NormalEmail(n.Email), strings.TrimSpace(n.Name)
	if err := CheckEmail(n.Email); err != nil {
		return n, err
	}
	if n.Name == "" {
		n.Name, _, _ = strings.Cut(n.Email, "@")
	}
	if utf8.RuneCountInString(n.Name) > maxName {
		return n, &provider.FieldError{Field: "name", Reason: fmt.Sprintf("is longer than %d characters", maxName)}
	}
	if !n.Role.Valid() {
		return n, &provider.FieldError{Field: "role", Reason: "must be support, operator or admin"}
	}
	return n, CheckPassword(n.Password)
}

const userColumns = `id, email, name, role, locale, time_zone, theme, disabled, created_at, last_seen_at,
	shortcuts, has_factor, version,
	left(encode(sha256(convert_to(session_epoch || password_hash, 'UTF8')), 'hex'), 16)`

func scanUser(row pgx.Row, extra ...any) (User, error) {
	var u User
	err := row.Scan(append([]any{&u.ID, &u.Email, &u.Name, &u.Role, &u.Locale, &u.TimeZone, &u.Theme,
		&u.Disabled, &u.CreatedAt, &u.LastSeenAt,
		&u.Shortcuts, &u.HasFactor, &u.Version, &u.SessionKey}, extra...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrNotFound
	}
	return u, err
}

// CreateUser adds a person. Errors: *provider.FieldError, ErrUserExists.
func (s *Store) CreateUser(ctx context.Context, n NewUser, by Actor) (User, error) {
	return s.CreateUserOnce(ctx, uuid.Nil, n, by)
}

// CreateUserOnce is CreateUser with the one-time id of a form; Nil: none. Errors beside
// its: ErrActionDone.
func (s *Store) CreateUserOnce(ctx context.Context, action uuid.UUID, n NewUser, by Actor) (User, error) {
	n, err := n.normal()
	if err != nil {
		return User{}, err
	}
	hash, err := hashPassword(ctx, n.Password)
	if err != nil {
		return User{}, err
	}
	var u User
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		if err := s.claimForm(ctx, tx, action, by, "user.add", "user:"+id.String()); err != nil {
			return err
		}
		u, err = scanUser(tx.QueryRow(ctx, `
			INSERT INTO users (id, email, name, role, password_hash, created_at)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING `+userColumns,
			id, n.Email, n.Name, n.Role, hash, s.Now()))
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.ConstraintName == "users_email_key" {
			return ErrUserExists
		}
		if err != nil {
			return err
		}
		return s.Audit(ctx, tx, by, "user.add", "user:"+u.ID.String(), "", nil,
			map[string]any{"email": u.Email, "role": u.Role})
	})
	return u, err
}

func hashPassword(ctx context.Context, password string) (hash string, err error) {
	err = hashing(ctx, func() error {
		hash, err = argon2id.CreateHash(password, passwordParams)
		return err
	})
	return hash, err
}

// Preferences of a person; empty fields mean "by the browser".
type Preferences struct{ Locale, TimeZone, Theme, Shortcuts string }

// SetPreferences stores how a person likes the console. ErrNotFound.
func (s *Store) SetPreferences(ctx context.Context, id uuid.UUID, p Preferences) error {
	tag, err := s.pool.Exec(ctx, `UPDATE users SET locale = $2, time_zone = $3, theme = $4, shortcuts = $5
		WHERE id = $1`, id, p.Locale, p.TimeZone, p.Theme, p.Shortcuts)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrNotFound
	}
	return err
}

// User reads one by id. ErrNotFound.
func (s *Store) User(ctx context.Context, id uuid.UUID) (User, error) {
	return scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+` FROM users WHERE id = $1`, id))
}

// UserByEmail reads one by email. ErrNotFound.
func (s *Store) UserByEmail(ctx context.Context, email string) (User, error) {
	return scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+` FROM users WHERE email = $1`, NormalEmail(email)))
}

// ListUsers lists everybody, by email.
func (s *Store) ListUsers(ctx context.Context) ([]User, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+userColumns+` FROM users ORDER BY email`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (User, error) { return scanUser(r) })
}

// Authenticate checks an email and password and returns the person. It takes about
// the same time whether the email is known or not. Errors: ErrBadCredentials, or that
// the check could not be made.
func (s *Store) Authenticate(ctx context.Context, email, password string) (User, error) {
	var hash string
	u, err := scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+`, password_hash FROM users WHERE email = $1`,
		NormalEmail(email)), &hash)
	known := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return User{}, err
	}
	if !known {
		hash = dummyHash
	}
	// An endless password is not worth hashing, and no stored one is that long.
	if utf8.RuneCountInString(password) > MaxPassword {
		password = ""
	}
	var match bool
	err = hashing(ctx, func() (err error) {
		match, err = argon2id.ComparePasswordAndHash(password, hash)
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("check password: %w", err)
	}
	if !known || !match || u.Disabled {
		return User{}, ErrBadCredentials
	}
	return u, nil
}

// SignedIn notes that a person signed in, in the row and in the audit log.
func (s *Store) SignedIn(ctx context.Context, id uuid.UUID, by Actor) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE users SET last_seen_at = $2 WHERE id = $1`, id, s.Now()); err != nil {
			return err
		}
		return s.Audit(ctx, tx, by, "user.sign_in", "user:"+id.String(), "", nil, nil)
	})
}

// touchEvery is how exact last_seen_at and last_used_at are: often enough for
// people, seldom enough to cost nothing.
const touchEvery = time.Minute

// TouchUser notes that the person is here, at most once a minute.
func (s *Store) TouchUser(ctx context.Context, id uuid.UUID) error {
	now := s.Now()
	_, err := s.pool.Exec(ctx, `
		UPDATE users SET last_seen_at = $2
		WHERE id = $1 AND (last_seen_at IS NULL OR last_seen_at < $3)`, id, now, now.Add(-touchEvery))
	return err
}
