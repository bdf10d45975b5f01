package paypal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fusebox/provider"
)

// Kind is the adapter's name in the configuration.
const Kind = "paypal"

// KeyLife is how long PayPal keeps the request id of an order.
const KeyLife = 6 * time.Hour

// Options are the replaceable parts; the zero value is for production. TLS.RootCAs are
// also the roots that a webhook's certificate has to lead to.
type Options struct {
	provider.CallerOptions
	// TokenGuard stands before every request for a token; nil lets all of them through.
	TokenGuard provider.Guard
}

// Adapter speaks PayPal's Orders API v2.
type Adapter struct {
	settings provider.Settings
	caller   *provider.Caller
	tokens   *tokens
	certs    *certs
	hooks    []hook // newest first
	now      func() time.Time
}

// hook is one webhook of the app.
type hook struct {
	id     string
	askAPI bool // let PayPal verify
}

var (
	_ provider.Adapter  = (*Adapter)(nil)
	_ provider.Pinger   = (*Adapter)(nil)
	_ provider.Operator = (*Adapter)(nil)
)

// New returns an adapter, or the reason the settings are refused. The base URL is
// https://api-m.paypal.com or https://api-m.sandbox.paypal.com.
func New(s provider.Settings, o Options) (*Adapter, error) {
	s.Kind = Kind
	if s.KeyLife == 0 && !s.NoKeys {
		s.KeyLife = KeyLife
	}
	s = s.WithDefaults()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	id, secret, err := check(s)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.RequestIDHeader = "Paypal-Debug-Id"
	hidden := s // the caller keeps out of answers what it is told is secret: of the key, each part
	hidden.WebhookSecrets = append([]string{secret, basic(id, secret)}, s.WebhookSecrets...)
	caller, err := provider.NewCaller(hidden, o.CallerOptions)
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		settings: s, caller: caller, tokens: newTokens(caller, o.TokenGuard, basic(id, secret), o.Now),
		certs: newCerts(s, o), now: o.Now,
	}
	for _, text := range s.WebhookSecrets {
		id, api := strings.CutPrefix(text, "api:")
		a.hooks = append(a.hooks, hook{id: id, askAPI: api})
	}
	return a, nil
}

// Build is New for a provider.Kinds map.
func Build(s provider.Settings) (provider.Adapter, error) { return New(s, Options{}) }

// check reads the settings that mean something special here.
func check(s provider.Settings) (id, secret string, err error) {
	id, secret, ok := strings.Cut(s.APIKey, ":")
	switch {
	case !ok || id == "" || secret == "" || strings.Contains(secret, ":"):
		return "", "", &provider.FieldError{Field: "api_key", Reason: "must be client_id:secret of the REST app"}
	case s.KeyLife > KeyLife:
		return "", "", &provider.FieldError{Field: "key_life", Reason: "must be at most 6h: PayPal forgets a request id then, and a later resend would be a second charge"}
	}
	for _, text := range s.WebhookSecrets {
		if w := strings.TrimPrefix(text, "api:"); w == "" || len(w) > 50 || strings.Trim(w, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return "", "", &provider.FieldError{Field: "webhook_secrets", Reason: "must be webhook ids of the app (capital letters and digits), or api: and one"}
		}
	}
	return id, secret, nil
}

// Name implements provider.Adapter.
func (a *Adapter) Name() string { return a.settings.Name }

// Close closes idle connections.
func (a *Adapter) Close() {
	a.caller.Close()
	a.certs.close()
}

// searchPages is how many further requests a lookup by reference may cost: pages of the
// search and the captures it names.
const searchPages = 6

// Capabilities implements provider.Adapter. NoKeys and NoStatusAPI of the settings are
// for a simulator that goes without them; PayPal itself has both.
func (a *Adapter) Capabilities() provider.Capabilities {
	c := provider.Capabilities{
		IdempotencyKeys: !a.settings.NoKeys,
		KeyLife:         a.settings.KeyLife,
		Webhooks:        true,
		NeverAbsent:     true,
		Ways:            []provider.Way{provider.ByID, provider.ReplayKey, provider.ByReference},
		ListPages:       searchPages,
		Ping:            true,
		Operations:      []provider.OperationKind{provider.OpRefund, provider.OpCapture, provider.OpVoid},
		Disputes:        true,
		TokenCircuit:    true,
	}
	switch {
	case a.settings.NoStatusAPI:
		c.Ways, c.ListPages, c.NeverAbsent = []provider.Way{provider.WebhookOnly}, 0, false
	case a.settings.NoKeys:
		c.Ways = []provider.Way{provider.ByID, provider.ByReference}
	}
	return c
}

// Ping implements provider.Pinger with the list of the app's webhooks: every app of ours
// has one, and no lookup asks for it. Without a token nothing is known.
func (a *Adapter) Ping(ctx context.Context) provider.Pinged {
	tok, err := a.tokens.get(ctx)
	if err != nil {
		p := provider.Pinged{Health: provider.HealthNeutral, Reason: reasonAuthDown, Exchange: a.unmade(err)}
		var te *tokenError
		if errors.As(err, &te) {
			p.Reason = te.reason
		}
		return p
	}
	ex := a.caller.AskOnce(ctx, get(tok.text, "v1/notifications/webhooks", nil))
	if ex.Status == http.StatusUnauthorized {
		a.tokens.drop(tok)
	}
	p := provider.ClassifyPing(ex, json.Valid(ex.Body))
	p.Exchange.Body = provider.Redact(ex.Body)
	return p
}

// header is what every request carries.
func header(token string) http.Header {
	return http.Header{
		"Authorization": {"Bearer " + token},
		"Accept":        {"application/json"},
		"User-Agent":    {"fusebox"},
	}
}

func get(token, path string, query url.Values) provider.Call {
	return provider.Call{Method: http.MethodGet, Path: path, Query: query, Header: header(token)}
}

// pathSafe reports whether an id can be a path segment as it is.
func pathSafe(id string) bool { return provider.PathSafe(id, maxID) }
