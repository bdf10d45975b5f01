package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"fusebox/provider"
)

// Kind is the adapter's name in the configuration.
const Kind = "gateway"

// Options are the replaceable parts; the zero value is for production.
type Options = provider.CallerOptions

// Adapter speaks the contract of this package's documentation.
type Adapter struct {
	settings provider.Settings
	caller   *provider.Caller
	now      func() time.Time
	auth     []string // the value of every request's Authorization
}

var (
	_ provider.Adapter = (*Adapter)(nil)
	_ provider.Pinger  = (*Adapter)(nil)

	_ provider.Operator = (*Adapter)(nil)
)

// New returns an adapter, or the reason the settings are refused.
func New(s provider.Settings, o Options) (*Adapter, error) {
	s = s.WithDefaults()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c, err := provider.NewCaller(s, o)
	if err != nil {
		return nil, err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	return &Adapter{settings: s, caller: c, now: now, auth: []string{"Bearer " + s.APIKey}}, nil
}

// Build is New for a provider.Kinds map.
func Build(s provider.Settings) (provider.Adapter, error) { return New(s, Options{}) }

// Name implements provider.Adapter.
func (a *Adapter) Name() string { return a.settings.Name }

// Close closes idle connections.
func (a *Adapter) Close() { a.caller.Close() }

// Capabilities implements provider.Adapter.
func (a *Adapter) Capabilities() provider.Capabilities {
	c := provider.Capabilities{
		IdempotencyKeys: !a.settings.NoKeys,
		KeyLife:         a.settings.KeyLife,
		Listing:         !a.settings.NoStatusAPI,
		Webhooks:        true,
		Ping:            true,
		Operations:      []provider.OperationKind{provider.OpRefund, provider.OpCapture, provider.OpVoid},
		Disputes:        true,
		ListsRefunds:    !a.settings.NoStatusAPI,
	}
	switch {
	case a.settings.NoStatusAPI:
		c.Ways = []provider.Way{provider.WebhookOnly}
	case a.settings.NoKeys:
		c.Ways = []provider.Way{provider.ByID, provider.ByReference}
	default:
		c.Ways = []provider.Way{provider.ByID, provider.ByKey, provider.ByReference}
	}
	return c
}

// Ping implements provider.Pinger with GET /health, which works without a status API.
func (a *Adapter) Ping(ctx context.Context) provider.Pinged {
	ex := a.caller.AskOnce(ctx, provider.Call{Method: http.MethodGet, Path: "health", Header: a.headers()})
	return provider.ClassifyPing(ex, json.Valid(ex.Body))
}

// maxText caps texts of ours that a provider gets (a description, a name).
const maxText = 500

// Freeze implements provider.Adapter. The same request always gives the same bytes.
func (a *Adapter) Freeze(r provider.ChargeRequest) ([]byte, error) {
	if r.PaymentID == "" {
		return nil, &provider.FieldError{Field: "reference", Reason: "is required"}
	}
	if err := r.Money.Validate(); err != nil {
		return nil, err
	}
	for field, text := range map[string]string{
		"description": r.Description, "order_ref": r.OrderRef,
		"customer.name": r.CustomerName, "customer.email": r.CustomerEmail,
	} {
		if len(text) > maxText {
			return nil, &provider.FieldError{Field: field, Reason: "is too long"}
		}
	}
	body := chargeBody{
		Reference: r.PaymentID, Amount: r.Money.Amount, Currency: r.Money.Currency,
		Description: r.Description, OrderRef: r.OrderRef,
	}
	if r.ManualCapture {
		body.Capture = "manual"
	}
	if r.CustomerName != "" || r.CustomerEmail != "" {
		body.Customer = &customer{Name: r.CustomerName, Email: r.CustomerEmail}
	}
	return encode(body)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Values of headers, shared by all requests: nobody writes to them.
var (
	asJSON    = []string{"application/json"}
	userAgent = []string{"fusebox"}
)

// headers are sent with every request.
func (a *Adapter) headers() http.Header {
	return http.Header{"Authorization": a.auth, "Accept": asJSON, "User-Agent": userAgent}
}

// moneyHeaders are sent with a money call; key may be empty.
func (a *Adapter) moneyHeaders(key string) http.Header {
	h := a.headers()
	h["Content-Type"] = asJSON
	if key != "" {
		h["Idempotency-Key"] = []string{key}
	}
	return h
}

// validKey reports whether the contract allows the key.
func validKey(key string) bool {
	return key != "" && len(key) <= 255 && strings.IndexFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e }) < 0
}
