package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// Somebody locked out of the console is helped from a shell, and the audit log has it.
func TestUserCommands(t *testing.T) {
	s := newShell(t)
	ctx := t.Context()
	out := s.ok("user", "add", "ana@example.org", "--role", "admin", "--name", "Ana")
	password := regexp.MustCompile(`password (\S+)`).FindStringSubmatch(out)[1]
	u, err := s.store.Authenticate(ctx, "ana@example.org", password)
	require.NoError(t, err)
	require.Equal(t, store.RoleAdmin, u.Role)
	_, err = s.run("user", "role", "ana@example.org", "--role", "support")
	require.ErrorContains(t, err, "the last admin")
	s.ok("user", "add", "--email", "carl@example.org")

	out = s.ok("user", "role", "--role", "operator", "carl@example.org", "--reason", "night shift")
	require.Equal(t, "carl@example.org has another role; their sessions are over\n", out)
	_, err = s.run("user", "role", "carl@example.org", "--role", "root")
	require.ErrorContains(t, err, "support, operator or admin")
	carl, err := s.store.UserByEmail(ctx, "carl@example.org")
	require.NoError(t, err)
	require.Equal(t, store.RoleOperator, carl.Role)
	_, err = s.store.AddApp(ctx, carl.ID, "secret", 1, commandLine)
	require.NoError(t, err)
	require.Regexp(t, `carl@example.org +carl +operator +active +yes +never`, s.ok("user", "list"))
	s.ok("user", "reset-factor", "carl@example.org", "--reason", "lost the phone")
	s.ok("user", "sign-out", "carl@example.org")
	s.ok("user", "disable", "carl@example.org")
	require.Regexp(t, `carl@example.org +carl +operator +disabled +no +never`, s.ok("user", "list"))
	s.ok("user", "enable", "carl@example.org")
	s.ok("user", "passwd", "carl@example.org")

	for _, action := range []string{"user.role", "user.factor_reset", "user.sign_out_everywhere", "user.disable", "user.enable", "user.passwd"} {
		list, _, err := s.store.ListAudit(ctx, store.AuditFilter{Target: "user:" + carl.ID.String(), Action: action}, 0, 2)
		require.NoError(t, err)
		require.Len(t, list, 1, action)
		require.Equal(t, commandLine.String(), list[0].Actor)
	}
}

func TestUserCommandSaysWhatIsWrong(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"user"}, "say add, passwd, role"},
		{[]string{"user", "promote"}, `"promote" is not add, passwd`},
		{[]string{"user", "disable", "nobody@example.org"}, `"nobody@example.org" is nobody's address`},
		{[]string{"user", "passwd", "nobody@example.org"}, `"nobody@example.org" is nobody's address`},
		{[]string{"user", "disable", "a@example.org", "b@example.org"}, "one address too many"},
		{[]string{"apikey", "revoke", "--id", "x"}, `"x" is not an id`},
	} {
		_, err := s.run(c.args...)
		require.ErrorContains(t, err, c.want)
	}
	require.Contains(t, s.ok("help"), "sign-out | reset-factor")
}

func TestAPIKeyCommands(t *testing.T) {
	s := newShell(t)
	ctx := t.Context()
	out := s.ok("apikey", "add", "--name", "shop", "--scope", "payments,refunds")
	secret := regexp.MustCompile(`fbk_\S+`).FindString(out)
	require.Regexp(t, `payments,refunds +\S+ +never +active`, s.ok("apikey", "list"))
	k, err := s.store.APIKeyBySecret(ctx, secret)
	require.NoError(t, err)
	require.Regexp(t, `payments,refunds +\S+ +\S+Z +active`, s.ok("apikey", "list"))
	require.Contains(t, s.ok("apikey", "revoke", "--id", k.ID.String()), "is revoked")
	require.Contains(t, s.ok("apikey", "list"), "revoked 20")
	_, err = s.store.APIKeyBySecret(ctx, secret)
	require.ErrorIs(t, err, store.ErrNotFound)
}
