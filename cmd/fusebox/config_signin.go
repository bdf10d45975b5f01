package main

import (
	"fmt"
	"os"
	"strings"

	"fusebox/store"
	"fusebox/web"
)

// signInConfig is how people sign in, beside the password.
type signInConfig struct {
	RequireFactor bool `env:"FUSEBOX_REQUIRE_SECOND_FACTOR"`

	Issuer     string   `env:"FUSEBOX_OIDC_ISSUER"`
	ClientID   string   `env:"FUSEBOX_OIDC_CLIENT_ID"`
	Secret     string   `env:"FUSEBOX_OIDC_CLIENT_SECRET"`
	SecretFile string   `env:"FUSEBOX_OIDC_CLIENT_SECRET_FILE"`
	Name       string   `env:"FUSEBOX_OIDC_NAME"`
	Domains    []string `env:"FUSEBOX_OIDC_DOMAINS" envSeparator:","`
	RoleClaim  string   `env:"FUSEBOX_OIDC_ROLE_CLAIM"`
	Roles      []string `env:"FUSEBOX_OIDC_ROLES" envSeparator:","` // group=role
}

// oidc returns the sign-in provider; nil when none is configured. Half a configuration
// is refused: it would only fail when the first person signs in.
func (c signInConfig) oidc() (*web.OIDC, error) {
	if c.Issuer == "" {
		for name, value := range map[string]string{"CLIENT_ID": c.ClientID, "CLIENT_SECRET": c.Secret, "CLIENT_SECRET_FILE": c.SecretFile,
			"NAME": c.Name, "ROLE_CLAIM": c.RoleClaim, "DOMAINS": strings.Join(c.Domains, ","), "ROLES": strings.Join(c.Roles, ",")} {
			if value != "" {
				return nil, fmt.Errorf("FUSEBOX_OIDC_ISSUER: is missing, and FUSEBOX_OIDC_%s is set", name)
			}
		}
		return nil, nil
	}
	if err := checkURL(c.Issuer, "https", "http"); err != nil {
		return nil, fmt.Errorf("FUSEBOX_OIDC_ISSUER: %w", err)
	}
	if c.ClientID == "" {
		return nil, fmt.Errorf("FUSEBOX_OIDC_CLIENT_ID: is missing, and FUSEBOX_OIDC_ISSUER is set")
	}
	secret, err := c.clientSecret()
	if err != nil {
		return nil, err
	}
	o := &web.OIDC{Name: c.Name, Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: secret, RoleClaim: c.RoleClaim, Roles: map[string]store.Role{}}
	if o.Name == "" {
		o.Name = "OpenID Connect"
	}
	if o.RoleClaim == "" {
		o.RoleClaim = "groups"
	}
	for _, d := range c.Domains {
		o.Domains = append(o.Domains, strings.ToLower(strings.TrimSpace(d)))
	}
	for _, pair := range c.Roles {
		group, role, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || group == "" || !store.Role(role).Valid() {
			return nil, fmt.Errorf("FUSEBOX_OIDC_ROLES: %q is not group=support, group=operator or group=admin", pair)
		}
		o.Roles[group] = store.Role(role)
	}
	return o, nil
}

func (c signInConfig) clientSecret() (string, error) {
	switch {
	case c.Secret != "" && c.SecretFile != "":
		return "", fmt.Errorf("FUSEBOX_OIDC_CLIENT_SECRET: is set, and so is FUSEBOX_OIDC_CLIENT_SECRET_FILE")
	case c.Secret != "":
		return c.Secret, nil
	case c.SecretFile == "":
		return "", fmt.Errorf("FUSEBOX_OIDC_CLIENT_SECRET: is missing, and FUSEBOX_OIDC_ISSUER is set")
	}
	b, err := os.ReadFile(c.SecretFile)
	if err != nil {
		return "", fmt.Errorf("FUSEBOX_OIDC_CLIENT_SECRET_FILE: %w", err)
	}
	if secret := strings.TrimSpace(string(b)); secret != "" {
		return secret, nil
	}
	return "", fmt.Errorf("FUSEBOX_OIDC_CLIENT_SECRET_FILE: is empty")
}
