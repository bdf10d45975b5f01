package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func TestHalfASignInProviderIsRefused(t *testing.T) {
	t.Parallel()
	for want, environ := range map[string][]string{
		"FUSEBOX_OIDC_ISSUER: is missing":        {"FUSEBOX_OIDC_CLIENT_ID=fusebox"},
		"FUSEBOX_OIDC_CLIENT_ID: is missing":     {"FUSEBOX_OIDC_ISSUER=https://id.example.org"},
		"FUSEBOX_OIDC_CLIENT_SECRET: is missing": {"FUSEBOX_OIDC_ISSUER=https://id.example.org", "FUSEBOX_OIDC_CLIENT_ID=fusebox"},
		"FUSEBOX_OIDC_CLIENT_SECRET_FILE:":       {"FUSEBOX_OIDC_ISSUER=https://id.example.org", "FUSEBOX_OIDC_CLIENT_ID=fusebox", "FUSEBOX_OIDC_CLIENT_SECRET_FILE=/nowhere"},
		"FUSEBOX_OIDC_ROLES:":                    {"FUSEBOX_OIDC_ISSUER=https://id.example.org", "FUSEBOX_OIDC_CLIENT_ID=fusebox", "FUSEBOX_OIDC_CLIENT_SECRET=x", "FUSEBOX_OIDC_ROLES=ops=root"},
	} {
		_, err := loadConfig(environ)
		require.ErrorContains(t, err, want)
	}
}

func TestASignInProvider(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	c, err := loadConfig([]string{"FUSEBOX_OIDC_ISSUER=https://id.example.org", "FUSEBOX_OIDC_CLIENT_ID=fusebox",
		"FUSEBOX_OIDC_CLIENT_SECRET_FILE=" + secret, "FUSEBOX_OIDC_ROLES=ops=operator,boss=admin", "FUSEBOX_REQUIRE_SECOND_FACTOR=true"})
	require.NoError(t, err)
	require.True(t, c.SignIn.RequireFactor)
	o, err := c.SignIn.oidc()
	require.NoError(t, err)
	require.Equal(t, "s3cret", o.ClientSecret)
	require.Equal(t, "groups", o.RoleClaim)
	require.Equal(t, map[string]store.Role{"ops": store.RoleOperator, "boss": store.RoleAdmin}, o.Roles)
}
