package mollie

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fusebox/provider"
)

// Kind is the adapter's name in the configuration.
const Kind = "mollie"

// KeyLife is how long Mollie remembers an idempotency key.
const KeyLife = time.Hour

// Options are the replaceable parts; the zero value is for production.
type Options = provider.CallerOptions

// Adapter speaks Mollie's Payments API v2.
type Adapter struct {
	settings provider.Settings
	caller   *provider.Caller
	live     bool     // the mode of the key
	secrets  []string // of signed webhooks, newest first
	hookURL  string   // where Mollie shall send classic webhooks; empty: nowhere
	now      func() time.Time
}

var (
	_ provider.Adapter = (*Adapter)(nil)
	_ provider.Pinger  = (*Adapter)(nil)
	_ provider.Fetcher = (*Adapter)(nil)
)

// New returns an adapter, or the reason the settings are refused. The base URL is
// https://api.mollie.com, with or without /v2.
func New(s provider.Settings, o Options) (*Adapter, error) {
	s.Kind = Kind
	if s.KeyLife == 0 && !s.NoKeys {
		s.KeyLife = KeyLife
	}
	s = s.WithDefaults()
	s.BaseURL = strings.TrimSuffix(strings.TrimRight(s.BaseURL, "/"), "/v2")
	if err := s.Validate(); err != nil {
		return nil, err
	}
	a := &Adapter{settings: s, now: o.Now}
	if err := a.configure(); err != nil {
		return nil, err
	}
	if a.now == nil {
		a.now = time.Now
	}
	o.RequestIDHeader = "X-Request-Id"
	caller, err := provider.NewCaller(s, o)
	a.caller = caller
	return a, err
}

// Build is New for a provider.Kinds map.
func Build(s provider.Settings) (provider.Adapter, error) { return New(s, Options{}) }

// configure reads the settings that mean something special here.
func (a *Adapter) configure() error {
	key := a.settings.APIKey
	a.live = strings.HasPrefix(key, "live_")
	if !a.live && !strings.HasPrefix(key, "test_") {
		return &provider.FieldError{Field: "api_key", Reason: "must be a profile's key of Mollie's: live_… or test_…"}
	}
	if a.settings.KeyLife > KeyLife {
		return &provider.FieldError{Field: "key_life", Reason: "must be at most 1h: Mollie forgets a key then, and a later resend would be a second charge"}
	}
	for _, s := range a.settings.WebhookSecrets {
		if !strings.Contains(s, "://") {
			a.secrets = append(a.secrets, s)
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "https" || u.Host == "" || a.hookURL != "" {
			return &provider.FieldError{Field: "webhook_secrets", Reason: "may hold one URL, with https, for classic webhooks"}
		}
		a.hookURL = s
	}
	return nil
}

// Name implements provider.Adapter.
func (a *Adapter) Name() string { return a.settings.Name }

// Close closes idle connections.
func (a *Adapter) Close() { a.caller.Close() }

// listPages is how many further pages of Mollie's list one lookup may read: five thousand
// payments. The next lookup goes on from there.
const listPages = 19

// Capabilities implements provider.Adapter. NoKeys and NoStatusAPI of the settings are
// for a simulator that goes without them; Mollie itself has both.
func (a *Adapter) Capabilities() provider.Capabilities {
	c := provider.Capabilities{
		IdempotencyKeys: !a.settings.NoKeys,
		KeyLife:         a.settings.KeyLife,
		Listing:         !a.settings.NoStatusAPI,
		Webhooks:        true,
		Ping:            true,
		Ways:            []provider.Way{provider.ByID, provider.ByReference},
		ListPages:       listPages,
		Operations:      []provider.OperationKind{provider.OpRefund, provider.OpCapture, provider.OpVoid},
		Disputes:        true,
	}
	if a.settings.NoStatusAPI {
		c.Ways, c.ListPages = []provider.Way{provider.WebhookOnly}, 0
	}
	return c
}

// Ping implements provider.Pinger with the list of the profile's payment methods: it is
// served by what takes payments, and is not what lookups ask.
func (a *Adapter) Ping(ctx context.Context) provider.Pinged {
	ex := a.caller.AskOnce(ctx, a.get("v2/methods", nil))
	return provider.ClassifyPing(ex, json.Valid(ex.Body))
}

// header is what every request carries.
func (a *Adapter) header() http.Header {
	return http.Header{
		"Authorization": {"Bearer " + a.settings.APIKey},
		"Accept":        {"application/hal+json"},
		"User-Agent":    {"fusebox"},
	}
}

func (a *Adapter) get(path string, query url.Values) provider.Call {
	return provider.Call{Method: http.MethodGet, Path: path, Query: query, Header: a.header()}
}

// ownMode reports whether nothing says that an object is of the other mode.
func (a *Adapter) ownMode(mode string) bool {
	return mode == "" || (mode == "live") == a.live
}

// pathSafe reports whether an id can be a path segment as it is.
func pathSafe(id string) bool { return provider.PathSafe(id, maxID) }
