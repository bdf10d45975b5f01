package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// RecoveryCodes is how many one-use codes a person gets at a time.
const RecoveryCodes = 10

// ErrCodeUsed: the code, or one after it, was accepted before.
var ErrCodeUsed = errors.New("store: this code was used before")

// Factors is what a person has beside the password.
type Factors struct {
	AppSince  *time.Time // authenticator app; nil: none
	Passkeys  []Passkey
	CodesLeft int // unused recovery codes
}

// Passkey is a key of a person's device. Credential is what the sign-in check needs; the
// private key never leaves the device.
type Passkey struct {
	ID         uuid.UUID
	Name       string
	Credential json.RawMessage
	CreatedAt  time.Time
	LastUsedAt *time.Time
}

// Factors reads a person's second factors.
func (s *Store) Factors(ctx context.Context, user uuid.UUID) (f Factors, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT confirmed_at FROM user_totp WHERE user_id = $1),
		(SELECT count(*) FROM user_recovery_codes WHERE user_id = $1 AND used_at IS NULL)`, user).Scan(&f.AppSince, &f.CodesLeft)
	if err != nil {
		return f, wrap(err, "read factors")
	}
	rows, err := s.pool.Query(ctx, `SELECT id, name, credential, created_at, last_used_at
		FROM user_passkeys WHERE user_id = $1 ORDER BY id`, user)
	if err != nil {
		return f, wrap(err, "read passkeys")
	}
	f.Passkeys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Passkey])
	return f, wrap(err, "read passkeys")
}

// AddApp sets up the authenticator app, in place of an earlier one. step is the time step
// of the code that confirmed it. It returns recovery codes when the person had none.
func (s *Store) AddApp(ctx context.Context, user uuid.UUID, secret string, step int64, by Actor) (codes []string, err error) {
	return s.addFactor(ctx, user, "app", by, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO user_totp (user_id, secret, last_step, confirmed_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (user_id) DO UPDATE SET secret = EXCLUDED.secret, last_step = EXCLUDED.last_step,
				confirmed_at = EXCLUDED.confirmed_at`, user, secret, step, s.Now())
		return err
	})
}

// AddPasskey adds a device's key. It returns recovery codes when the person had none.
// ErrNotAllowed: the key is somebody's already.
func (s *Store) AddPasskey(ctx context.Context, user uuid.UUID, name string, credentialID []byte, credential json.RawMessage, count uint32, by Actor) (codes []string, err error) {
	return s.addFactor(ctx, user, "passkey", by, func(ctx context.Context, tx pgx.Tx) error {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO user_passkeys (id, user_id, credential_id, credential, sign_count, name, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, id, user, credentialID, credential, int64(count), clean(name), s.Now())
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.ConstraintName == "user_passkeys_credential_id_key" {
			return ErrNotAllowed
		}
		return err
	})
}

func (s *Store) addFactor(ctx context.Context, user uuid.UUID, kind string, by Actor, add func(context.Context, pgx.Tx) error) (codes []string, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockUser(ctx, tx, user); err != nil {
			return err
		}
		if err := add(ctx, tx); err != nil {
			return err
		}
		var have bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM user_recovery_codes WHERE user_id = $1)`, user).Scan(&have); err != nil {
			return err
		}
		if !have {
			if codes, err = newCodes(ctx, tx, user); err != nil {
				return err
			}
		}
		return s.factorsChanged(ctx, tx, user, "user.factor_add", kind, by)
	})
	return codes, err
}

// RemoveApp forgets the authenticator app. action is the one-time id of the form. Errors:
// ErrNotFound (there is none), ErrActionDone.
func (s *Store) RemoveApp(ctx context.Context, action, user uuid.UUID, by Actor) error {
	return s.removeFactor(ctx, action, user, "app", by, `DELETE FROM user_totp WHERE user_id = $1`, user)
}

// RemovePasskey forgets one of the person's keys. action is the one-time id of the form.
// Errors: ErrNotFound (it is not theirs), ErrActionDone.
func (s *Store) RemovePasskey(ctx context.Context, action, user, id uuid.UUID, by Actor) error {
	return s.removeFactor(ctx, action, user, "passkey", by, `DELETE FROM user_passkeys WHERE user_id = $1 AND id = $2`, user, id)
}

func (s *Store) removeFactor(ctx context.Context, action, user uuid.UUID, kind string, by Actor, sql string, args ...any) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.claimForm(ctx, tx, action, by, "user.factor_remove", "user:"+user.String()); err != nil {
			return err
		}
		if err := lockUser(ctx, tx, user); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return s.factorsChanged(ctx, tx, user, "user.factor_remove", kind, by)
	})
}

// factorsChanged counts the change, and lets the recovery codes go with the last factor.
func (s *Store) factorsChanged(ctx context.Context, tx pgx.Tx, user uuid.UUID, action, kind string, by Actor) error {
	var has bool
	err := tx.QueryRow(ctx, `UPDATE users SET version = version + 1, has_factor =
			EXISTS (SELECT FROM user_totp WHERE user_id = $1) OR EXISTS (SELECT FROM user_passkeys WHERE user_id = $1)
		WHERE id = $1 RETURNING has_factor`, user).Scan(&has)
	if err == nil && !has {
		err = dropFactors(ctx, tx, user)
	}
	if err != nil {
		return err
	}
	return s.Audit(ctx, tx, by, action, "user:"+user.String(), "", nil, map[string]any{"factor": kind})
}

// dropFactors forgets every second factor of a person.
func dropFactors(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
	for _, table := range []string{"user_totp", "user_passkeys", "user_recovery_codes"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE user_id = $1`, user); err != nil {
			return err
		}
	}
	return nil
}

func lockUser(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	err := tx.QueryRow(ctx, `SELECT id FROM users WHERE id = $1 FOR UPDATE`, id).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// AppSecret reads the secret of the person's authenticator app. ErrNotFound: none.
func (s *Store) AppSecret(ctx context.Context, user uuid.UUID) (secret string, err error) {
	err = s.pool.QueryRow(ctx, `SELECT secret FROM user_totp WHERE user_id = $1`, user).Scan(&secret)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return secret, err
}

// TakeAppStep accepts the code of a time step, once: two browsers with the same code do
// not both get in. ErrCodeUsed for that step or an earlier one.
func (s *Store) TakeAppStep(ctx context.Context, user uuid.UUID, step int64) error {
	tag, err := s.pool.Exec(ctx, `UPDATE user_totp SET last_step = $2 WHERE user_id = $1 AND last_step < $2`, user, step)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrCodeUsed
	}
	return err
}

// PasskeyUsed notes a sign-in with a key and what its device says of itself now. The
// counter may not go back: then two devices have the same key. ErrCodeUsed if it does.
func (s *Store) PasskeyUsed(ctx context.Context, user uuid.UUID, credentialID []byte, credential json.RawMessage, count uint32) error {
	tag, err := s.pool.Exec(ctx, `UPDATE user_passkeys SET credential = $3, sign_count = $4, last_used_at = $5
		WHERE user_id = $1 AND credential_id = $2 AND (sign_count < $4 OR (sign_count = 0 AND $4 = 0))`,
		user, credentialID, credential, int64(count), s.Now())
	if err == nil && tag.RowsAffected() == 0 {
		return ErrCodeUsed
	}
	return err
}

// NewRecoveryCodes replaces the person's recovery codes. They are known only now, so a
// form that is sent twice must not replace them twice: action is its one-time id.
// ErrActionDone.
func (s *Store) NewRecoveryCodes(ctx context.Context, action, user uuid.UUID, by Actor) (codes []string, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.claimForm(ctx, tx, action, by, "user.recovery_codes", "user:"+user.String()); err != nil {
			return err
		}
		if err := lockUser(ctx, tx, user); err != nil {
			return err
		}
		if codes, err = newCodes(ctx, tx, user); err != nil {
			return err
		}
		return s.Audit(ctx, tx, by, "user.recovery_codes", "user:"+user.String(), "", nil, map[string]any{"codes": len(codes)})
	})
	return codes, err
}

func newCodes(ctx context.Context, tx pgx.Tx, user uuid.UUID) ([]string, error) {
	if _, err := tx.Exec(ctx, `DELETE FROM user_recovery_codes WHERE user_id = $1`, user); err != nil {
		return nil, err
	}
	codes, hashes := make([]string, RecoveryCodes), make([][]byte, RecoveryCodes)
	for i := range codes {
		var b [10]byte
		rand.Read(b[:]) // never fails
		code := strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
		codes[i] = code[:4] + "-" + code[4:8] + "-" + code[8:12] + "-" + code[12:]
		hashes[i] = hashCode(codes[i])
	}
	_, err := tx.Exec(ctx, `INSERT INTO user_recovery_codes (user_id, code_hash) SELECT $1, unnest($2::bytea[])`, user, hashes)
	return codes, err
}

// hashCode is plain SHA-256: 80 random bits behind a rate limit need no slow hash.
func hashCode(code string) []byte {
	code = strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(code))
	sum := sha256.Sum256([]byte(code))
	return sum[:]
}

// TakeRecoveryCode accepts one of the person's codes, once. ErrCodeUsed for a used one
// and for one that never was.
func (s *Store) TakeRecoveryCode(ctx context.Context, user uuid.UUID, code string, by Actor) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE user_recovery_codes SET used_at = $3
			WHERE user_id = $1 AND code_hash = $2 AND used_at IS NULL`, user, hashCode(code), s.Now())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrCodeUsed
		}
		return s.Audit(ctx, tx, by, "user.recovery_code_used", "user:"+user.String(), "", nil, nil)
	})
}
