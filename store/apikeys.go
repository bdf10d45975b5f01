package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// apiKeyPrefix starts every API key, so that scanners find a leaked one.
const apiKeyPrefix = "fbk_"

// Scope is what an API key may be used for.
type Scope string

// Scopes.
const (
	ScopePayments Scope = "payments" // payments and wallets, and reading refunds
	ScopeRefunds  Scope = "refunds"  // give money back
	ScopeCircuits Scope = "circuits" // see circuits and operate them
)

// Scopes lists them.
var Scopes = []Scope{ScopePayments, ScopeRefunds, ScopeCircuits}

// APIKey is a machine client. Its id scopes the client's idempotency keys. The
// secret is known only at creation.
type APIKey struct {
	ID         uuid.UUID
	Name       string
	Prefix     string // the secret's beginning, for lists
	Scopes     []Scope
	CreatedAt  time.Time
	LastUsedAt *time.Time // to the minute
	RevokedAt  *time.Time
}

// Allows reports whether the key has the scope.
func (k APIKey) Allows(scope Scope) bool { return slices.Contains(k.Scopes, scope) }

const apiKeyColumns = `id, name, prefix, scopes, created_at, last_used_at, revoked_at`

func scanAPIKey(row pgx.Row) (APIKey, error) {
	var k APIKey
	err := row.Scan(&k.ID, &k.Name, &k.Prefix, &k.Scopes, &k.CreatedAt, &k.LastUsedAt, &k.RevokedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return APIKey{}, ErrNotFound
	}
	return k, err
}

// newAPISecret returns a secret of 256 random bits.
func newAPISecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return apiKeyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// hashAPISecret is plain SHA-256: 256 random bits need no slow hash.
func hashAPISecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// checkScopes returns the scopes in their order, each once; none means payments.
func checkScopes(asked []Scope) ([]Scope, error) {
	for _, scope := range asked {
		if !slices.Contains(Scopes, scope) {
			return nil, &provider.FieldError{Field: "scope", Reason: fmt.Sprintf("%q is not payments, refunds or circuits", string(scope))}
		}
	}
	var out []Scope
	for _, scope := range Scopes {
		if slices.Contains(asked, scope) || (len(asked) == 0 && scope == ScopePayments) {
			out = append(out, scope)
		}
	}
	return out, nil
}

// CreateAPIKey adds a machine client and returns its secret, the only time it is
// known. No scopes: payments. Errors: *provider.FieldError.
func (s *Store) CreateAPIKey(ctx context.Context, name string, by Actor, scopes ...Scope) (k APIKey, secret string, err error) {
	return s.CreateAPIKeyOnce(ctx, uuid.Nil, name, by, scopes...)
}

// CreateAPIKeyOnce is CreateAPIKey with the one-time id of a form; Nil: none. Errors
// beside its: ErrActionDone.
func (s *Store) CreateAPIKeyOnce(ctx context.Context, action uuid.UUID, name string, by Actor, scopes ...Scope) (k APIKey, secret string, err error) {
	if scopes, err = checkScopes(scopes); err != nil {
		return APIKey{}, "", err
	}
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n == 0 || n > maxName || !utf8.ValidString(name) {
		return APIKey{}, "", &provider.FieldError{Field: "name", Reason: "must have 1 to 100 characters"}
	}
	secret = newAPISecret()
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		if err := s.claimForm(ctx, tx, action, by, "apikey.add", "apikey:"+id.String()); err != nil {
			return err
		}
		k, err = scanAPIKey(tx.QueryRow(ctx, `
			INSERT INTO api_keys (id, name, prefix, secret_hash, created_at, scopes)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING `+apiKeyColumns,
			id, name, secret[:len(apiKeyPrefix)+4], hashAPISecret(secret), s.Now(), scopes))
		if err != nil {
			return err
		}
		return s.Audit(ctx, tx, by, "apikey.add", "apikey:"+k.ID.String(), "", nil, map[string]any{"name": name, "scopes": scopes})
	})
	if err != nil {
		return APIKey{}, "", err
	}
	return k, secret, nil
}

// keysTogether reads the live keys with these hashes: under load a key comes with every
// request, and one read serves all that came at the time.
func (s *Store) keysTogether(ctx context.Context, hashes []string) (out []APIKey, did []bool, err error) {
	var asked [][]byte
	for _, h := range slices.Compact(slices.Sorted(slices.Values(hashes))) {
		asked = append(asked, []byte(h))
	}
	const live = `SELECT secret_hash, ` + apiKeyColumns + ` FROM api_keys WHERE revoked_at IS NULL AND secret_hash = `
	var rows pgx.Rows
	if len(asked) == 1 { // most often; of an array of one it would make a plan each time
		rows, err = s.pool.Query(ctx, live+`$1`, asked[0])
	} else {
		rows, err = s.pool.Query(ctx, live+`ANY($1)`, asked)
	}
	if err != nil {
		return nil, nil, wrap(err, "read api keys")
	}
	at := make(map[string]APIKey, 1)
	var hash []byte
	var k APIKey
	_, err = pgx.ForEachRow(rows, []any{&hash, &k.ID, &k.Name, &k.Prefix, &k.Scopes, &k.CreatedAt, &k.LastUsedAt, &k.RevokedAt}, func() error {
		at[string(hash)] = k
		k.Scopes = nil
		return nil
	})
	if err != nil {
		return nil, nil, wrap(err, "read api keys")
	}
	out, did = make([]APIKey, len(hashes)), make([]bool, len(hashes))
	for i, h := range hashes {
		out[i], did[i] = at[h]
	}
	return out, did, nil
}

// APIKeyBySecret finds the live key with this secret and notes its use, at most once
// a minute. ErrNotFound for an unknown or revoked one.
func (s *Store) APIKeyBySecret(ctx context.Context, secret string) (APIKey, error) {
	if !strings.HasPrefix(secret, apiKeyPrefix) {
		return APIKey{}, ErrNotFound
	}
	// Looked up by its hash: what timing could tell is about the hash, not the secret.
	hash := hashAPISecret(secret)
	k, did := s.keys.do(ctx, string(hash))
	var err error
	if !did {
		k, err = scanAPIKey(s.pool.QueryRow(ctx, `SELECT `+apiKeyColumns+` FROM api_keys WHERE secret_hash = $1 AND revoked_at IS NULL`, hash))
	}
	if err != nil {
		return APIKey{}, err
	}
	now := s.Now()
	if k.LastUsedAt != nil && now.Sub(*k.LastUsedAt) < touchEvery {
		return k, nil
	}
	_, err = s.pool.Exec(ctx, `
		UPDATE api_keys SET last_used_at = $2
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $3)`, k.ID, now, now.Add(-touchEvery))
	return k, err
}

// ListAPIKeys lists all keys, newest first, revoked ones too.
func (s *Store) ListAPIKeys(ctx context.Context) ([]APIKey, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+apiKeyColumns+` FROM api_keys ORDER BY id DESC`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (APIKey, error) { return scanAPIKey(r) })
}

// RevokeAPIKey ends a key from the next request on. Revoking twice keeps the first
// time, and the audit log has it once. ErrNotFound.
func (s *Store) RevokeAPIKey(ctx context.Context, id uuid.UUID, by Actor) error {
	return s.RevokeAPIKeyOnce(ctx, uuid.Nil, id, by)
}

// RevokeAPIKeyOnce is RevokeAPIKey with the one-time id of a form; Nil: none. Errors
// beside its: ErrActionDone.
func (s *Store) RevokeAPIKeyOnce(ctx context.Context, action, id uuid.UUID, by Actor) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.claimForm(ctx, tx, action, by, "apikey.revoke", "apikey:"+id.String()); err != nil {
			return err
		}
		var before *time.Time
		err := tx.QueryRow(ctx, `SELECT revoked_at FROM api_keys WHERE id = $1 FOR UPDATE`, id).Scan(&before)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case err != nil || before != nil:
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE api_keys SET revoked_at = $2 WHERE id = $1`, id, s.Now()); err != nil {
			return err
		}
		return s.Audit(ctx, tx, by, "apikey.revoke", "apikey:"+id.String(), "", nil, nil)
	})
}
