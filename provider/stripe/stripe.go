package stripe

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"fusebox/provider"
)

// Kind is the adapter's name in the configuration.
const Kind = "stripe"

// Options are the replaceable parts; the zero value is for production.
type Options = provider.CallerOptions

// Adapter speaks Stripe's API version 1.
type Adapter struct {
	settings provider.Settings
	client   *client
	live     bool // the mode of the key
	now      func() time.Time
}

var (
	_ provider.Adapter  = (*Adapter)(nil)
	_ provider.Pinger   = (*Adapter)(nil)
	_ provider.Operator = (*Adapter)(nil)
)

// listPages is how many pages of Stripe's list one lookup may read: two thousand charges
// made in the minutes around ours. The next lookup goes on from there.
const listPages = 20

// New returns an adapter, or the reason the settings are refused. The base URL is
// https://api.stripe.com, with or without /v1.
func New(s provider.Settings, o Options) (*Adapter, error) {
	s.Kind = Kind
	s = s.WithDefaults()
	s.BaseURL = strings.TrimSuffix(strings.TrimRight(s.BaseURL, "/"), "/v1")
	if err := s.Validate(); err != nil {
		return nil, err
	}
	live, err := mode(s.APIKey)
	if err != nil {
		return nil, err
	}
	if err := check(s, live); err != nil {
		return nil, err
	}
	o.KeepHeaders = append(o.KeepHeaders, shouldRetryHeader)
	c, err := newClient(s, o)
	if err != nil {
		return nil, err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	return &Adapter{settings: s, client: c, live: live, now: now}, nil
}

// Build is New for a provider.Kinds map.
func Build(s provider.Settings) (provider.Adapter, error) { return New(s, Options{}) }

// keyLife is how long Stripe surely remembers an idempotency key.
const keyLife = 24 * time.Hour

// check refuses settings that would cost money at Stripe.
func check(s provider.Settings, live bool) error {
	switch {
	case s.KeyLife > keyLife:
		return &provider.FieldError{Field: "key_life", Reason: "must be at most " + keyLife.String() + ": Stripe forgets a key then, and would charge again"}
	case s.Account != "" && (!strings.HasPrefix(s.Account, "acct_") || !provider.Printable(s.Account)):
		return &provider.FieldError{Field: "account", Reason: "must be a connected account of Stripe's: acct_…"}
	case live && !strings.HasPrefix(s.BaseURL, "https://"):
		return &provider.FieldError{Field: "base_url", Reason: "must start with https:// where a live key is sent"}
	}
	return nil
}

// mode tells a live key from a test key. A publishable key is refused here: it could
// create intents and never read one.
func mode(key string) (live bool, err error) {
	secret := strings.HasPrefix(key, "sk_") || strings.HasPrefix(key, "rk_")
	switch {
	case secret && strings.Contains(key, "_live_"):
		return true, nil
	case secret && strings.Contains(key, "_test_"):
		return false, nil
	}
	return false, &provider.FieldError{Field: "api_key", Reason: "must be a secret or restricted key of Stripe's: sk_live_, sk_test_, rk_live_ or rk_test_"}
}

// Name implements provider.Adapter.
func (a *Adapter) Name() string { return a.settings.Name }

// Close closes idle connections.
func (a *Adapter) Close() { a.client.caller.Close() }

// Capabilities implements provider.Adapter. NoKeys and NoStatusAPI of the settings are
// for a simulator that goes without them; Stripe itself has both.
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

// Ping implements provider.Pinger with GET /v1/balance. A restricted key that may not
// read it is told so, and that is an answer too.
func (a *Adapter) Ping(ctx context.Context) provider.Pinged {
	ex := a.client.getOnce(ctx, "/v1/balance")
	return provider.ClassifyPing(ex, json.Valid(ex.Body))
}

// validKey reports whether Stripe takes the key unchanged.
func validKey(key string) bool {
	return key != "" && len(key) <= 255 && provider.Printable(key)
}

// pathSafe reports whether an id a provider gave us can be a path segment as it is.
func pathSafe(id string) bool { return provider.PathSafe(id, maxID) }

// shouldRetry reports whether Stripe says that it has not decided and wants the request
// again.
func shouldRetry(ex provider.Exchange) bool {
	return http.Header(ex.Kept).Get(shouldRetryHeader) == "true"
}

const shouldRetryHeader = "Stripe-Should-Retry"
