package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// admin adds a person who may manage people.
func (p *people) admin(t *testing.T, email string) store.User {
	t.Helper()
	u, err := p.CreateUser(t.Context(), store.NewUser{Email: email, Role: store.RoleAdmin, Password: password}, store.System("test"))
	require.NoError(t, err)
	return u
}

func by(u store.User) store.Actor {
	return store.Actor{Kind: "user", ID: u.ID.String(), Name: u.Name}
}

func TestAConflictNamesWhoWasFirst(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ana, boris, carl := p.admin(t, "ana@example.org"), p.admin(t, "boris@example.org"), p.add(t, "carl@example.org")
	p.now = p.now.Add(time.Hour)
	first, err := p.EditUser(t.Context(), carl.ID, store.UserEdit{Change: store.ChangeDisable, Version: carl.Version}, by(boris))
	require.NoError(t, err)
	require.True(t, first)
	p.now = p.now.Add(time.Hour)
	_, err = p.EditUser(t.Context(), carl.ID, store.UserEdit{Change: store.ChangeRole, Role: store.RoleAdmin, Version: carl.Version}, by(ana))
	var conflict *store.UserConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "boris", conflict.By)
	require.Equal(t, "user.disable", conflict.Action)
	require.True(t, p.now.Add(-time.Hour).Equal(conflict.At))

	now, err := p.User(t.Context(), carl.ID)
	require.NoError(t, err)
	require.Equal(t, carl.Role, now.Role)
	require.NoError(t, p.EditUserByEmail(t.Context(), "Carl@example.org", store.UserEdit{Change: store.ChangeEnable, Reason: "back"}, by(ana)), "a command changes whatever it is")
	require.ErrorIs(t, p.EditUserByEmail(t.Context(), "nobody@example.org", store.UserEdit{Change: store.ChangeEnable}, by(ana)), store.ErrNotFound)
}

// Two admins who take each other's role away at the same moment: one of them stays.
func TestTheLastTwoAdminsTakeTurns(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ana, boris := p.admin(t, "ana@example.org"), p.admin(t, "boris@example.org")
	errs := make(chan error, 2)
	for _, pair := range [][2]store.User{{ana, boris}, {boris, ana}} {
		go func() {
			_, err := p.EditUser(context.Background(), pair[1].ID, store.UserEdit{Change: store.ChangeRole, Role: store.RoleSupport}, by(pair[0]))
			errs <- err
		}()
	}
	a, b := <-errs, <-errs
	if a == nil {
		a, b = b, a
	}
	require.ErrorIs(t, a, store.ErrLastAdmin)
	require.NoError(t, b)
}

// What a form did under its one-time id is done once; what failed may be tried again.
func TestFormsOfPeopleAndKeysCountOnce(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ctx, sys, action := t.Context(), store.System("test"), uuid.New
	u, id := p.add(t, "carl@example.org"), action()
	n := store.NewUser{Email: "carl@example.org", Role: store.RoleSupport, Password: password}
	_, err := p.CreateUserOnce(ctx, id, n, sys)
	require.ErrorIs(t, err, store.ErrUserExists)
	n.Email = "dora@example.org"
	_, err = p.CreateUserOnce(ctx, id, n, sys)
	require.NoError(t, err, "the refusal did not use the id up")
	n.Email = "elsa@example.org"
	_, err = p.CreateUserOnce(ctx, id, n, sys)
	require.ErrorIs(t, err, store.ErrActionDone)

	k, _, err := p.CreateAPIKey(ctx, "shop", sys)
	require.NoError(t, err)
	id = action()
	require.NoError(t, p.RevokeAPIKeyOnce(ctx, id, k.ID, sys))
	require.ErrorIs(t, p.RevokeAPIKeyOnce(ctx, id, k.ID, sys), store.ErrActionDone)
	require.NoError(t, p.RevokeAPIKeyOnce(ctx, action(), k.ID, sys), "revoked is revoked")
	require.ErrorIs(t, p.RevokeAPIKeyOnce(ctx, action(), uuid.New(), sys), store.ErrNotFound)

	_, err = p.AddApp(ctx, u.ID, "secret", 1, sys)
	require.NoError(t, err)
	id = action()
	_, err = p.NewRecoveryCodes(ctx, id, u.ID, sys)
	require.NoError(t, err)
	_, err = p.NewRecoveryCodes(ctx, id, u.ID, sys)
	require.ErrorIs(t, err, store.ErrActionDone)
	id = action()
	require.NoError(t, p.RemoveApp(ctx, id, u.ID, sys))
	require.ErrorIs(t, p.RemoveApp(ctx, id, u.ID, sys), store.ErrActionDone)
	require.ErrorIs(t, p.RemoveApp(ctx, action(), u.ID, sys), store.ErrNotFound)
	require.ErrorIs(t, p.RemovePasskey(ctx, action(), u.ID, uuid.New(), sys), store.ErrNotFound)
	require.ErrorIs(t, p.RevokeSession(ctx, action(), u.ID, uuid.New(), sys), store.ErrNotFound)
	id = action()
	require.NoError(t, p.RevokeOtherSessions(ctx, id, u.ID, "", sys))
	require.ErrorIs(t, p.RevokeOtherSessions(ctx, id, u.ID, "", sys), store.ErrActionDone)
}

// The migration of second factors and sessions goes back and forth under people who
// are there already.
func TestMigrationOfAccessKeepsPeopleAndSessions(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	ctx := t.Context()
	down := func() {
		for {
			require.NoError(t, store.MigrateDown(ctx, p.db.Pool))
			list, err := store.MigrationStatus(ctx, p.db.Pool)
			require.NoError(t, err)
			for _, m := range list {
				if m.Set == "fusebox" && m.Version == 8 && !m.Applied {
					return
				}
			}
		}
	}
	down()
	p.db.Exec(t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1, 'ana@example.org', 'Ana', 'admin', 'none', now())`, uuid.New())
	p.db.Exec(t, `INSERT INTO sessions (token, data, expiry) VALUES ('t', '', now() + interval '1 hour')`)
	require.NoError(t, store.MigrateUp(ctx, p.db.Pool))
	u, err := p.UserByEmail(ctx, "ana@example.org")
	require.NoError(t, err)
	require.Equal(t, int64(1), u.Version)
	require.False(t, u.HasFactor)
	_, found, err := p.Sessions().FindCtx(ctx, "t")
	require.NoError(t, err)
	require.True(t, found, "nobody is signed out by the upgrade")

	_, err = p.AddApp(ctx, u.ID, "secret", 1, store.System("test"))
	require.NoError(t, err)
	_, err = p.AddPasskey(ctx, u.ID, "Laptop", []byte("id"), []byte(`{}`), 1, store.System("test"))
	require.NoError(t, err)
	_, err = p.SignInIdentity(ctx, store.Identity{Issuer: "https://idp.example", Subject: "1", Email: u.Email}, store.System("test"))
	require.NoError(t, err)
	_, _, err = p.CountTry(ctx, "k", time.Minute)
	require.NoError(t, err)
	down()
	require.NoError(t, store.MigrateUp(ctx, p.db.Pool))
	u, err = p.UserByEmail(ctx, "ana@example.org")
	require.NoError(t, err)
	require.False(t, u.HasFactor, "what the older schema cannot hold is gone, the person is not")
}
