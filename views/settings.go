package views

import (
	"context"
	"strings"
	"time"

	"fusebox/views/components"
)

// Paths of a person's own settings and of the admin's.
const (
	PathSettings = "/settings"
	PathFactors  = "/settings/factors"
	PathSessions = "/settings/sessions"
	PathPassword = "/settings/password"
	PathUsers    = "/settings/users"
	PathKeys     = "/settings/keys"
	PathSecond   = "/signin/second"
	PathAgain    = "/signin/again"
	PathOIDC     = "/signin/oidc"
)

// UserPath is one person's page.
func UserPath(id string) string { return PathUsers + "/" + id }

// SettingsView is a person's own settings.
type SettingsView struct {
	Page     Page
	Tabs     []components.Tab
	Email    string
	Sessions []SessionRow
	Factors  FactorsView
}

// SessionRow is one place where the person is signed in.
type SessionRow struct {
	ID, Device, Address string
	Started, Seen       time.Time
	Current             bool
}

// FactorsView is what the person has beside the password.
type FactorsView struct {
	AppSince  *time.Time
	Passkeys  []PasskeyRow
	CodesLeft int
	Any       bool
	ByName    bool // the console has a name, so passkeys can be added
	Required  bool // nothing else works before one is set up
}

// PasskeyRow is one passkey.
type PasskeyRow struct {
	ID, Name string
	Created  time.Time
	Used     *time.Time
}

// FactorsPage sets up the first or another factor.
type FactorsPage struct {
	Page    Page
	Factors FactorsView
	Problem string // why the passkey was not added
}

// AppPage shows the secret of an authenticator app and asks for its first code.
type AppPage struct {
	Page   Page
	QR     string // data URI of a PNG
	Secret string
	Wrong  bool
}

// SecretsPage shows what is shown once.
type SecretsPage struct {
	Page               Page
	Title, Lead, Label string
	Secrets            []string
	Back               string
}

// UserRow is one line of the list of people.
type UserRow struct {
	ID, Name, Email, Role string
	Disabled, Factor, You bool
	Seen                  *time.Time
}

// UsersView is the list of people.
type UsersView struct {
	Page Page
	Tabs []components.Tab
	Rows []UserRow
}

// UserView is one person and what an admin may do about them.
type UserView struct {
	Page     Page
	User     UserRow
	Created  time.Time
	Sessions int
	Changes  []string
}

// KeyRow is one API key.
type KeyRow struct {
	ID, Name, Prefix string
	Scopes           []string
	Created          time.Time
	Used, Revoked    *time.Time
}

// KeysView is the list of API keys.
type KeysView struct {
	Page Page
	Tabs []components.Tab
	Rows []KeyRow
}

// NewKeyPage asks for a new key's name and scopes.
type NewKeyPage struct {
	Page           Page
	ActionID       string
	Name, NameBad  string
	Scopes, Chosen []string
}

// device names the browser and system of a User-Agent in the words people know.
func device(ctx context.Context, agent string) string {
	pick := func(pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Contains(agent, pairs[i]) {
				return pairs[i+1]
			}
		}
		return ""
	}
	browser := pick("Edg/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "Chrome/", "Chrome", "Safari/", "Safari", "curl/", "curl")
	system := pick("Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS X", "macOS", "Linux", "Linux")
	switch {
	case browser != "" && system != "":
		return browser + " · " + system
	case browser+system != "":
		return browser + system
	}
	return T(ctx, "settings.device.unknown")
}

// SettingsTabs lead from one part of the settings to another.
func SettingsTabs(ctx context.Context, current string, admin bool) []components.Tab {
	tabs := []components.Tab{{Label: T(ctx, "settings.tab.mine"), Href: PathSettings, Current: current == PathSettings}}
	if admin {
		tabs = append(tabs, components.Tab{Label: T(ctx, "settings.tab.users"), Href: PathUsers, Current: current == PathUsers},
			components.Tab{Label: T(ctx, "settings.tab.keys"), Href: PathKeys, Current: current == PathKeys})
	}
	return tabs
}

func changeLabel(ctx context.Context, change string) string { return Opt(ctx, "users.do.", change) }
