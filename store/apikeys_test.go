package store_test

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestCreateAPIKey(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	k, secret, err := p.CreateAPIKey(t.Context(), " shop ", store.System("test"))
	require.NoError(t, err)
	require.Equal(t, "shop", k.Name)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(secret, "fbk_"))
	require.NoError(t, err)
	require.Len(t, raw, 32)
	require.True(t, strings.HasPrefix(secret, k.Prefix))
	require.Len(t, k.Prefix, 8)

	var hash []byte
	require.NoError(t, p.db.Pool.QueryRow(t.Context(), `SELECT secret_hash FROM api_keys`).Scan(&hash))
	want := sha256.Sum256([]byte(secret))
	require.Equal(t, want[:], hash, "only a hash is stored")

	_, other, err := p.CreateAPIKey(t.Context(), "shop", store.System("test"))
	require.NoError(t, err)
	require.NotEqual(t, secret, other)
}

func TestAPIKeyNames(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	for _, name := range []string{"", "   ", strings.Repeat("x", 101), "\xff"} {
		_, secret, err := p.CreateAPIKey(t.Context(), name, store.System("test"))
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused)
		require.Empty(t, secret)
	}
}

func TestAPIKeyBySecret(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	k, secret, err := p.CreateAPIKey(t.Context(), "shop", store.System("test"))
	require.NoError(t, err)
	got, err := p.APIKeyBySecret(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, k.ID, got.ID)

	for _, wrong := range []string{"", "fbk_", secret + "x", strings.ToUpper(secret), strings.TrimPrefix(secret, "fbk_"), k.Prefix} {
		_, err := p.APIKeyBySecret(t.Context(), wrong)
		require.ErrorIs(t, err, store.ErrNotFound, wrong)
	}
}

// Requests that come together share a read, and each gets its own key or none.
func TestAPIKeysReadTogetherAreNotMixedUp(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	type known struct {
		id     uuid.UUID
		secret string
		scopes []store.Scope
	}
	var keys []known
	for _, scope := range store.Scopes {
		k, secret, err := p.CreateAPIKey(t.Context(), string(scope), store.System("test"), scope)
		require.NoError(t, err)
		keys = append(keys, known{k.ID, secret, k.Scopes})
	}
	gone, revoked, err := p.CreateAPIKey(t.Context(), "gone", store.System("test"))
	require.NoError(t, err)
	require.NoError(t, p.RevokeAPIKey(t.Context(), gone.ID, store.System("test")))
	var wg sync.WaitGroup
	for i := range 120 {
		wg.Go(func() {
			if i%4 == 3 {
				_, err := p.APIKeyBySecret(t.Context(), revoked)
				assert.ErrorIs(t, err, store.ErrNotFound)
				return
			}
			want := keys[i%4]
			got, err := p.APIKeyBySecret(t.Context(), want.secret)
			assert.NoError(t, err)
			assert.Equal(t, want.id, got.ID)
			assert.Equal(t, want.scopes, got.Scopes)
		})
	}
	wg.Wait()
}

func TestAPIKeyUseIsNotedOncePerMinute(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	_, secret, err := p.CreateAPIKey(t.Context(), "shop", store.System("test"))
	require.NoError(t, err)
	used := func() time.Time {
		_, err := p.APIKeyBySecret(t.Context(), secret)
		require.NoError(t, err)
		keys, err := p.ListAPIKeys(t.Context())
		require.NoError(t, err)
		return keys[0].LastUsedAt.UTC()
	}
	first := used()
	p.now = p.now.Add(59 * time.Second)
	require.Equal(t, first, used())
	p.now = p.now.Add(2 * time.Second)
	require.Equal(t, p.now, used())
}

func TestRevokeAPIKey(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	k, secret, err := p.CreateAPIKey(t.Context(), "shop", store.System("test"))
	require.NoError(t, err)
	require.NoError(t, p.RevokeAPIKey(t.Context(), k.ID, store.System("test")))
	_, err = p.APIKeyBySecret(t.Context(), secret)
	require.ErrorIs(t, err, store.ErrNotFound)

	p.now = p.now.Add(time.Hour)
	require.NoError(t, p.RevokeAPIKey(t.Context(), k.ID, store.System("test")))
	keys, err := p.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, p.now.Add(-time.Hour), keys[0].RevokedAt.UTC(), "the first time stands")
	require.ErrorIs(t, p.RevokeAPIKey(t.Context(), uuid.New(), store.System("test")), store.ErrNotFound)
}

func TestAPIKeyScopes(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	add := func(scopes ...store.Scope) (store.APIKey, error) {
		_, secret, err := p.CreateAPIKey(t.Context(), "shop", store.System("test"), scopes...)
		if err != nil {
			return store.APIKey{}, err
		}
		return p.APIKeyBySecret(t.Context(), secret)
	}
	k, err := add()
	require.NoError(t, err)
	require.Equal(t, []store.Scope{store.ScopePayments}, k.Scopes)
	require.True(t, k.Allows(store.ScopePayments))
	require.False(t, k.Allows(store.ScopeCircuits))
	k, err = add(store.ScopeCircuits, store.ScopePayments, store.ScopeRefunds, store.ScopeCircuits)
	require.NoError(t, err)
	require.Equal(t, store.Scopes, k.Scopes)
	keys, err := p.ListAPIKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Scopes, keys[0].Scopes)
	for _, scope := range []store.Scope{"", "admin", "Payments"} {
		_, err = add(store.ScopePayments, scope)
		var field *provider.FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, "scope", field.Field)
	}
}
