package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

const password = "correct horse battery"

// people is a store with a clock the test moves.
type people struct {
	*store.Store
	db  *storetest.DB
	now time.Time
}

func newPeople(t *testing.T) *people {
	t.Helper()
	p := &people{db: storetest.New(t), now: storetest.Epoch}
	p.Store = store.New(p.db.Pool, store.Options{Now: func() time.Time { return p.now }})
	return p
}

func (p *people) add(t *testing.T, email string) store.User {
	t.Helper()
	u, err := p.CreateUser(t.Context(), store.NewUser{Email: email, Role: store.RoleSupport, Password: password}, store.System("test"))
	require.NoError(t, err)
	return u
}

func TestRolesAreOrdered(t *testing.T) {
	t.Parallel()
	for i, have := range store.Roles {
		for j, need := range store.Roles {
			require.Equal(t, i >= j, have.AtLeast(need), "%s for %s", have, need)
		}
		require.False(t, store.Role("root").AtLeast(have))
	}
	require.False(t, store.Role("").AtLeast(""), "no role may nothing")
	require.False(t, store.Role("").Valid())
}

func TestCreateUser(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	u, err := p.CreateUser(t.Context(), store.NewUser{Email: " Olena@Example.org ", Role: store.RoleAdmin, Password: password}, store.System("test"))
	require.NoError(t, err)
	require.Equal(t, "olena@example.org", u.Email)
	require.Equal(t, "olena", u.Name, "the name defaults to the mailbox")
	require.Equal(t, storetest.Epoch, u.CreatedAt.UTC())
	require.Nil(t, u.LastSeenAt)

	got, err := p.UserByEmail(t.Context(), "OLENA@example.org")
	require.NoError(t, err)
	require.Equal(t, u, got)
	got, err = p.User(t.Context(), u.ID)
	require.NoError(t, err)
	require.Equal(t, u, got)

	_, err = p.CreateUser(t.Context(), store.NewUser{Email: "olena@example.ORG", Role: store.RoleSupport, Password: password}, store.System("test"))
	require.ErrorIs(t, err, store.ErrUserExists)

	var action, target string
	require.NoError(t, p.db.Pool.QueryRow(t.Context(), `SELECT action, target FROM audit_log`).Scan(&action, &target))
	require.Equal(t, "user.add", action, "one audit row: the refused one left none")
	require.Equal(t, "user:"+u.ID.String(), target)
}

func TestCreateUserRefusals(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	good := store.NewUser{Email: "a@b.example", Role: store.RoleSupport, Password: password}
	for field, change := range map[string]func(*store.NewUser){
		"email":    func(n *store.NewUser) { n.Email = "Olena <a@b.example>" },
		"password": func(n *store.NewUser) { n.Password = "short" },
		"role":     func(n *store.NewUser) { n.Role = "root" },
		"name":     func(n *store.NewUser) { n.Name = strings.Repeat("x", 101) },
	} {
		n := good
		change(&n)
		_, err := p.CreateUser(t.Context(), n, store.System("test"))
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, field, refused.Field)
	}
	users, err := p.ListUsers(t.Context())
	require.NoError(t, err)
	require.Empty(t, users, "nothing half")
}

func TestEmailsAndPasswords(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "x", "@b.example", "a@", "a b@c.example", "a@b.example\r\nBcc: c@d.example",
		strings.Repeat("a", 250) + "@b.example", "<a@b.example>"} {
		require.Error(t, store.CheckEmail(bad), bad)
	}
	require.NoError(t, store.CheckEmail("o.lena+x@mail.example.org"))
	for _, bad := range []string{"", "nine char", strings.Repeat("x", 257), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		require.Error(t, store.CheckPassword(bad))
	}
	require.NoError(t, store.CheckPassword("парольпароль"), "characters are counted, not bytes")
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	u := p.add(t, "olena@example.org")
	got, err := p.Authenticate(t.Context(), " OLENA@example.org", password)
	require.NoError(t, err)
	require.Equal(t, u.ID, got.ID)

	for email, pass := range map[string]string{
		"olena@example.org":  "correct horse batterY",
		"nobody@example.org": password,
		"":                   "",
		"OLENA@example.org":  strings.Repeat("x", 100_000),
	} {
		_, err := p.Authenticate(t.Context(), email, pass)
		require.ErrorIs(t, err, store.ErrBadCredentials, email)
	}
	require.NoError(t, p.SetDisabled(t.Context(), u.Email, true, store.System("test")))
	_, err = p.Authenticate(t.Context(), u.Email, password)
	require.ErrorIs(t, err, store.ErrBadCredentials)
}

func TestSetPasswordEndsSessions(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	before := p.add(t, "olena@example.org")
	require.NoError(t, p.SetPassword(t.Context(), "Olena@example.org", "another password", store.System("test")))
	after, err := p.Authenticate(t.Context(), before.Email, "another password")
	require.NoError(t, err)
	require.NotEqual(t, before.SessionKey, after.SessionKey)
	_, err = p.Authenticate(t.Context(), before.Email, password)
	require.ErrorIs(t, err, store.ErrBadCredentials)

	require.ErrorIs(t, p.SetPassword(t.Context(), "nobody@example.org", password, store.System("test")), store.ErrNotFound)
	var refused *provider.FieldError
	require.ErrorAs(t, p.SetPassword(t.Context(), before.Email, "short", store.System("test")), &refused)
}

func TestPasswordsAreHashedWithTheParametersTheDummyHas(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "olena@example.org")
	var hash string
	require.NoError(t, p.db.Pool.QueryRow(t.Context(), `SELECT password_hash FROM users`).Scan(&hash))
	params, _, _, err := argon2id.DecodeHash(hash)
	require.NoError(t, err)
	dummy, salt, key, err := argon2id.DecodeHash(store.DummyHash)
	require.NoError(t, err)
	require.Equal(t, params.Memory, dummy.Memory)
	require.Equal(t, params.Iterations, dummy.Iterations)
	require.Equal(t, params.Parallelism, dummy.Parallelism)
	require.Len(t, salt, int(params.SaltLength))
	require.Len(t, key, int(params.KeyLength))
}

func TestChangesOfAUser(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	u := p.add(t, "olena@example.org")
	by := store.System("test")
	require.NoError(t, p.SetRole(t.Context(), u.Email, store.RoleOperator, by))
	require.NoError(t, p.SetDisabled(t.Context(), u.Email, true, by))
	require.NoError(t, p.SetPreferences(t.Context(), u.ID, store.Preferences{Locale: "uk", TimeZone: "Europe/Kyiv", Theme: "dark"}))
	got, err := p.User(t.Context(), u.ID)
	require.NoError(t, err)
	require.Equal(t, store.RoleOperator, got.Role)
	require.True(t, got.Disabled)
	require.Equal(t, []string{"uk", "Europe/Kyiv", "dark"}, []string{got.Locale, got.TimeZone, got.Theme})

	require.ErrorIs(t, p.SetRole(t.Context(), "nobody@example.org", store.RoleAdmin, by), store.ErrNotFound)
	require.Error(t, p.SetRole(t.Context(), u.Email, "root", by))
	require.ErrorIs(t, p.SetPreferences(t.Context(), uuid.New(), store.Preferences{}), store.ErrNotFound)
	_, err = p.User(t.Context(), uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTouchUserOncePerMinute(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	u := p.add(t, "olena@example.org")
	seen := func() time.Time {
		require.NoError(t, p.TouchUser(t.Context(), u.ID))
		got, err := p.User(t.Context(), u.ID)
		require.NoError(t, err)
		return got.LastSeenAt.UTC()
	}
	first := seen()
	p.now = p.now.Add(59 * time.Second)
	require.Equal(t, first, seen())
	p.now = p.now.Add(2 * time.Second)
	require.Equal(t, p.now, seen())
}

func TestListUsersByEmail(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.add(t, "petro@example.org")
	p.add(t, "olena@example.org")
	users, err := p.ListUsers(t.Context())
	require.NoError(t, err)
	require.Len(t, users, 2)
	require.Equal(t, "olena@example.org", users[0].Email)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	s := p.Sessions()
	ctx := t.Context()
	_, found, err := s.FindCtx(ctx, "a")
	require.NoError(t, err)
	require.False(t, found)

	require.NoError(t, s.CommitCtx(ctx, "a", []byte("1"), time.Now().Add(time.Hour)))
	require.NoError(t, s.CommitCtx(ctx, "a", []byte("2"), time.Now().Add(time.Hour)))
	data, found, err := s.Find("a")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "2", string(data))

	require.NoError(t, s.Commit("old", []byte("3"), time.Now().Add(-time.Second)))
	_, found, err = s.FindCtx(ctx, "old")
	require.NoError(t, err)
	require.False(t, found, "expired")
	require.NoError(t, s.CommitCtx(ctx, "b", []byte("4"), time.Now().Add(time.Hour)))
	var rows int
	require.NoError(t, p.db.Pool.QueryRow(ctx, `SELECT count(*) FROM sessions`).Scan(&rows))
	require.Equal(t, 2, rows, "expired ones go on the way")

	require.NoError(t, s.DeleteCtx(ctx, "a"))
	require.NoError(t, s.Delete("a"), "twice is no error")
}
