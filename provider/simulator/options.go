package simulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Options configures a simulator. The zero value works: a healthy provider on a
// free loopback port with its ledger in memory and a random key.
type Options struct {
	Name           string           // for logs and the customer page; default "simulator"
	Listen         string           // address of the provider's API; default 127.0.0.1:0. Port 0 without a host means loopback
	ControlListen  string           // address of the control API; default 127.0.0.1:0. It has no sign-in: keep it private
	PublicURL      string           // base of the URLs it hands to customers; default the API's own
	LedgerPath     string           // JSON-lines file; empty keeps the ledger in memory
	APIKey         string           // bearer key of the one account; default random
	WebhookURL     string           // where events go; empty until SetWebhook
	WebhookSecrets []string         // signing secrets, all of them sign; default one random
	Seed           uint64           // of the draws
	Faults         Faults           // what it does wrong from the start
	NoKeys         bool             // ignores Idempotency-Key
	NoStatusAPI    bool             // answers 405 to every question about a payment
	KeyLife        time.Duration    // how long answers are kept under a key; default 24 h
	Log            *slog.Logger     // default: discards
	Now            func() time.Time // clock of time stamps, key life and signatures; default time.Now
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// withDefaults fills in what is missing and refuses what cannot work. The error
// is a *FieldError.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "simulator"
	}
	if !namePattern.MatchString(o.Name) {
		return o, &FieldError{"name", "must be letters, digits, dot, dash or underscore"}
	}
	if o.APIKey == "" {
		o.APIKey = newID("sk_test")
	}
	if strings.ContainsAny(o.APIKey, " \t\r\n") {
		return o, &FieldError{"api_key", "must not contain white space"}
	}
	if len(o.WebhookSecrets) == 0 {
		o.WebhookSecrets = []string{newID("whsec")}
	}
	if err := validWebhook(o.WebhookURL, o.WebhookSecrets); err != nil {
		return o, err
	}
	if o.PublicURL != "" && !webURL(o.PublicURL) {
		return o, &FieldError{"public_url", "must be an absolute http or https URL"}
	}
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	if o.KeyLife == 0 {
		o.KeyLife = 24 * time.Hour
	}
	if o.KeyLife < 0 {
		return o, &FieldError{"key_life", "must be positive"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("simulator", o.Name)
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := o.Faults.Validate(); err != nil {
		return o, err
	}
	o.Faults = o.Faults.normal()
	return o, nil
}

// validWebhook checks the destination of events and what signs them.
func validWebhook(to string, secrets []string) error {
	for _, s := range secrets {
		if s == "" {
			return &FieldError{"webhook_secret", "must not be empty"}
		}
	}
	if to != "" && !webURL(to) {
		return &FieldError{"webhook_url", "must be an absolute http or https URL"}
	}
	return nil
}

func webURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// listenAddr resolves an address to listen on.
func listenAddr(addr string) (*net.TCPAddr, error) {
	if addr == "" || addr == ":0" {
		addr = "127.0.0.1:0"
	}
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, errors.Join(&FieldError{"listen", fmt.Sprintf("%q is not an address", addr)}, err)
	}
	return a, nil
}
