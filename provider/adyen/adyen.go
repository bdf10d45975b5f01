package adyen

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"fusebox/provider"
)

// Kind is the adapter's name in the configuration.
const Kind = "adyen"

// KeyLife is how long Adyen promises to remember an idempotency key.
const KeyLife = 7 * 24 * time.Hour

// apiVersion is the Checkout version spoken where the base URL names none.
const apiVersion = "v71"

// hmacKeyBytes is the length of an HMAC key of Adyen's, 64 hexadecimal digits.
const hmacKeyBytes = 32

// Options are the replaceable parts; the zero value is for production.
type Options = provider.CallerOptions

// Adapter speaks Adyen's Checkout API.
type Adapter struct {
	settings  provider.Settings
	caller    *provider.Caller
	account   string   // merchant account
	returnURL string   // empty: none is sent
	keys      [][]byte // HMAC keys, newest first
	mode      mode
	now       func() time.Time
}

var (
	_ provider.Adapter      = (*Adapter)(nil)
	_ provider.Pinger       = (*Adapter)(nil)
	_ provider.Operator     = (*Adapter)(nil)
	_ provider.Acknowledger = (*Adapter)(nil)
)

// mode is which of Adyen's two worlds an endpoint belongs to.
type mode int

const (
	modeUnsaid mode = iota // neither of Adyen's own hosts: a proxy or a fake
	modeTest
	modeLive
)

var versioned = regexp.MustCompile(`/v\d+$`)

// New returns an adapter, or the reason the settings are refused. The base URL is that
// of Checkout, https://checkout-test.adyen.com or
// https://PREFIX-checkout-live.adyenpayments.com/checkout, with or without a version.
func New(s provider.Settings, o Options) (*Adapter, error) {
	s.Kind = Kind
	s = s.WithDefaults()
	s.BaseURL = strings.TrimRight(s.BaseURL, "/")
	if s.BaseURL != "" && !versioned.MatchString(s.BaseURL) {
		s.BaseURL += "/" + apiVersion
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	a := &Adapter{settings: s, mode: modeOf(s.BaseURL), now: o.Now}
	if err := a.configure(); err != nil {
		return nil, err
	}
	if a.now == nil {
		a.now = time.Now
	}
	o.RequestIDHeader = "Pspreference"
	o.KeepHeaders = []string{transientHeader}
	caller, err := provider.NewCaller(s, o)
	a.caller = caller
	return a, err
}

// Build is New for a provider.Kinds map.
func Build(s provider.Settings) (provider.Adapter, error) { return New(s, Options{}) }

// configure reads the settings that mean something special here.
func (a *Adapter) configure() error {
	a.account, a.returnURL, _ = strings.Cut(a.settings.Account, " ")
	if !fits(a.account) || strings.ContainsAny(a.account, `:\`) {
		return &provider.FieldError{Field: "account", Reason: "must name the merchant account to charge"}
	}
	if a.returnURL != "" {
		if u, err := url.Parse(a.returnURL); err != nil || u.Scheme != "https" || u.Host == "" {
			return &provider.FieldError{Field: "account", Reason: "may hold one https URL behind the merchant account"}
		}
	}
	if a.settings.KeyLife > KeyLife {
		return &provider.FieldError{Field: "key_life", Reason: "must be at most 168h: Adyen promises to remember a key no longer, and a later resend would be a second charge"}
	}
	for _, s := range a.settings.WebhookSecrets {
		key, err := hex.DecodeString(s)
		if err != nil || len(key) != hmacKeyBytes {
			return &provider.FieldError{Field: "webhook_secrets", Reason: "must be HMAC keys of Adyen's: 64 hexadecimal digits each"}
		}
		a.keys = append(a.keys, key)
	}
	return nil
}

// modeOf tells Adyen's own hosts apart.
func modeOf(base string) mode {
	u, err := url.Parse(base)
	if err != nil {
		return modeUnsaid
	}
	switch host := strings.ToLower(u.Hostname()); {
	case strings.HasSuffix(host, "-test.adyen.com"):
		return modeTest
	case strings.HasSuffix(host, "-live.adyen.com"), strings.HasSuffix(host, ".adyenpayments.com"):
		return modeLive
	}
	return modeUnsaid
}

// Name implements provider.Adapter.
func (a *Adapter) Name() string { return a.settings.Name }

// Close closes idle connections.
func (a *Adapter) Close() { a.caller.Close() }

// Capabilities implements provider.Adapter. NoKeys of the settings is for a simulator
// that goes without them.
func (a *Adapter) Capabilities() provider.Capabilities {
	c := provider.Capabilities{
		IdempotencyKeys: !a.settings.NoKeys,
		KeyLife:         a.settings.KeyLife,
		Ways:            []provider.Way{provider.ReplayKey, provider.WebhookOnly},
		Webhooks:        true,
		Ping:            true,
		Operations:      []provider.OperationKind{provider.OpRefund, provider.OpCapture, provider.OpVoid},
		Disputes:        true,
	}
	if a.settings.NoKeys {
		c.Ways = []provider.Way{provider.WebhookOnly}
	}
	return c
}

// Lookup implements provider.Adapter: there is nothing to ask.
func (a *Adapter) Lookup(context.Context, provider.LookupQuery) provider.LookedUp {
	return provider.Unanswered()
}

var errList = errors.New("adyen: payments cannot be listed")

// List implements provider.Adapter.
func (a *Adapter) List(context.Context, provider.ListQuery) (provider.Page, error) {
	return provider.Page{Health: provider.HealthNeutral}, errList
}

// Ping implements provider.Pinger with the list of the account's payment methods: a POST
// that moves nothing, served by what takes payments.
func (a *Adapter) Ping(ctx context.Context) provider.Pinged {
	body, err := json.Marshal(map[string]string{"merchantAccount": a.account})
	if err != nil {
		return provider.Pinged{Health: provider.HealthNeutral, Reason: provider.ReasonLocal}
	}
	ex := a.caller.AskOnce(ctx, provider.Call{Method: http.MethodPost, Path: "paymentMethods", Header: a.header(), Body: body})
	return provider.ClassifyPing(ex, json.Valid(ex.Body))
}

// Acknowledgement implements provider.Acknowledger.
func (a *Adapter) Acknowledgement() string { return "[accepted]" }

// header is what every request carries.
func (a *Adapter) header() http.Header {
	return http.Header{
		"X-Api-Key":    {a.settings.APIKey},
		"Accept":       {"application/json"},
		"Content-Type": {"application/json"},
		"User-Agent":   {"fusebox"},
	}
}
