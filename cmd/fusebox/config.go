package main

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/jackc/pgx/v5"

	"fusebox/jobs"
	"fusebox/provider"
)

// config is everything a Fusebox process reads from its environment. It is parsed
// once, validated whole, and refused with the name of the setting that is wrong.
type config struct {
	DatabaseURL string `env:"DATABASE_URL"`
	RedisURL    string `env:"REDIS_URL"`

	Listen       string        `env:"FUSEBOX_LISTEN" envDefault:"127.0.0.1:8080"`
	PublicURL    string        `env:"FUSEBOX_PUBLIC_URL"`
	LogLevel     string        `env:"FUSEBOX_LOG_LEVEL" envDefault:"info"`
	LogFormat    string        `env:"FUSEBOX_LOG_FORMAT" envDefault:"text"`
	DBConns      int32         `env:"FUSEBOX_DB_CONNS" envDefault:"24"`
	Worker       string        `env:"FUSEBOX_WORKER"`
	StopGrace    time.Duration `env:"FUSEBOX_STOP_GRACE" envDefault:"15s"`
	SweepEvery   time.Duration `env:"FUSEBOX_SWEEP_EVERY" envDefault:"1m"`
	UnknownAged  time.Duration `env:"FUSEBOX_UNKNOWN_AGED" envDefault:"15m"`
	CallsKept    time.Duration `env:"FUSEBOX_CALLS_KEPT" envDefault:"336h"`
	AlertURL     string        `env:"FUSEBOX_ALERT_URL"`
	SlackURL     string        `env:"FUSEBOX_SLACK_URL"`
	TranslateURL string        `env:"FUSEBOX_TRANSLATE_URL"`
	TranslateKey string        `env:"FUSEBOX_TRANSLATE_KEY"`
	MetricsToken string        `env:"FUSEBOX_METRICS_TOKEN"`
	Proxies      []string      `env:"FUSEBOX_TRUSTED_PROXIES" envSeparator:","`

	FourEyes []string `env:"FUSEBOX_FOUR_EYES" envSeparator:","`

	// ClockOffset makes this process's clock wrong, for tests of what a wrong clock does.
	ClockOffset time.Duration `env:"FUSEBOX_CLOCK_OFFSET"`

	RedisTimeout time.Duration `env:"FUSEBOX_REDIS_TIMEOUT" envDefault:"50ms"`

	SignIn signInConfig

	ProviderNames []string `env:"FUSEBOX_PROVIDERS" envSeparator:","`

	providers     []provider.Settings
	fourEyes      map[string]int64
	circuits      circuits
	embeddedRedis bool            // the demo's own: it has no eviction policy to check
	tracer        pgx.QueryTracer // told of every statement; may be nil
}

// providerConfig is one provider's settings; every name is prefixed with
// PROVIDER_<NAME>_, for example PROVIDER_ATLAS_BASE_URL.
type providerConfig struct {
	Kind            string          `env:"KIND" envDefault:"gateway"`
	BaseURL         string          `env:"BASE_URL"`
	APIKey          string          `env:"API_KEY"`
	WebhookSecrets  []string        `env:"WEBHOOK_SECRETS" envSeparator:","`
	Account         string          `env:"ACCOUNT"`
	LedgerURL       string          `env:"LEDGER_URL"`
	NoKeys          bool            `env:"NO_KEYS"`
	NoStatusAPI     bool            `env:"NO_STATUS_API"`
	KeyLife         time.Duration   `env:"KEY_LIFE"`
	ConnectTimeout  time.Duration   `env:"CONNECT_TIMEOUT"`
	AnswerTimeout   time.Duration   `env:"ANSWER_TIMEOUT"`
	ChargeWorkers   int             `env:"CHARGE_WORKERS"`
	StatusWorkers   int             `env:"STATUS_WORKERS"`
	AbsentHorizon   time.Duration   `env:"ABSENT_HORIZON"`
	OnAbsent        string          `env:"ON_ABSENT"`
	RetryPauses     []time.Duration `env:"RETRY_PAUSES" envSeparator:","`
	ReconcilePauses []time.Duration `env:"RECONCILE_PAUSES" envSeparator:","`
	QuickReconcile  time.Duration   `env:"QUICK_RECONCILE"`
	SyncEvery       time.Duration   `env:"SYNC_EVERY"`
	SyncOverlap     time.Duration   `env:"SYNC_OVERLAP"`
	SyncPause       time.Duration   `env:"SYNC_PAUSE"`

	// Calls in flight over all processes; 0: no limit.
	MaxInFlight       int `env:"MAX_IN_FLIGHT"`
	StatusMaxInFlight int `env:"STATUS_MAX_IN_FLIGHT"`
}

// testNames are read by tests and by the failpoint build only.
var testNames = regexp.MustCompile(`^FUSEBOX_(TEST_|FAILPOINT)`)

// loadConfig reads the configuration from environ ("NAME=value" lines). It collects
// every problem, not just the first.
func loadConfig(environ []string) (config, error) {
	vars := env.ToMap(environ)
	var c config
	if err := env.ParseWithOptions(&c, env.Options{Environment: vars}); err != nil {
		return c, namedErrors(&c, vars, "", err)
	}
	known := knownNames(&c, "")
	var errs []error
	c.circuits = newCircuits(vars)
	known = append(known, c.circuits.read(allCircuits, &errs)...)
	for i, name := range c.ProviderNames {
		name = strings.TrimSpace(name)
		c.ProviderNames[i] = name
		prefix := providerPrefix(name)
		var pc providerConfig
		if err := env.ParseWithOptions(&pc, env.Options{Environment: vars, Prefix: prefix}); err != nil {
			errs = append(errs, namedErrors(&pc, vars, prefix, err))
			continue
		}
		known = append(known, knownNames(&pc, prefix)...)
		for _, scope := range circuitScopes(prefix) {
			known = append(known, c.circuits.read(scope, &errs)...)
		}
		c.circuits.limit(name, pc)
		c.providers = append(c.providers, pc.settings(name))
	}
	var err error
	if c.fourEyes, err = readFourEyes(c.FourEyes); err != nil {
		errs = append(errs, fmt.Errorf("FUSEBOX_FOUR_EYES: %w", err))
	}
	errs = append(errs, unknownNames(vars, known), c.validate())
	return c, errors.Join(errs...)
}

func providerPrefix(name string) string {
	return "PROVIDER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
}

func (pc providerConfig) settings(name string) provider.Settings {
	return provider.Settings{
		Name: name, Kind: pc.Kind, BaseURL: pc.BaseURL, APIKey: pc.APIKey,
		WebhookSecrets: pc.WebhookSecrets, Account: pc.Account, LedgerURL: pc.LedgerURL,
		NoKeys: pc.NoKeys, NoStatusAPI: pc.NoStatusAPI, KeyLife: pc.KeyLife,
		ConnectTimeout: pc.ConnectTimeout, AnswerTimeout: pc.AnswerTimeout,
		ChargeWorkers: pc.ChargeWorkers, StatusWorkers: pc.StatusWorkers,
		AbsentHorizon: pc.AbsentHorizon, OnAbsent: pc.OnAbsent,
		RetryPauses: pc.RetryPauses, ReconcilePauses: pc.ReconcilePauses,
		QuickReconcile: pc.QuickReconcile,
		SyncEvery:      pc.SyncEvery, SyncOverlap: pc.SyncOverlap, SyncPause: pc.SyncPause,
	}.WithDefaults()
}

// validate checks what every command needs. The database and Redis are checked by the
// roles that use them: `fusebox demo` brings its own.
func (c config) validate() error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		bad("FUSEBOX_LOG_LEVEL", "%q is not debug, info, warn or error", c.LogLevel)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		bad("FUSEBOX_LOG_FORMAT", "%q is not text or json", c.LogFormat)
	}
	if c.DBConns < 4 {
		bad("FUSEBOX_DB_CONNS", "%d is too few, at least 4", c.DBConns)
	}
	for name, d := range map[string]time.Duration{
		"FUSEBOX_STOP_GRACE": c.StopGrace, "FUSEBOX_SWEEP_EVERY": c.SweepEvery, "FUSEBOX_UNKNOWN_AGED": c.UnknownAged,
		"FUSEBOX_CALLS_KEPT": c.CallsKept, "FUSEBOX_REDIS_TIMEOUT": c.RedisTimeout,
	} {
		if d <= 0 {
			bad(name, "%s is not positive", d)
		}
	}
	if _, err := c.trustedProxies(); err != nil {
		bad("FUSEBOX_TRUSTED_PROXIES", "%v", err)
	}
	for name, u := range map[string]string{
		"FUSEBOX_PUBLIC_URL": c.PublicURL, "FUSEBOX_ALERT_URL": c.AlertURL,
		"FUSEBOX_SLACK_URL": c.SlackURL, "FUSEBOX_TRANSLATE_URL": c.TranslateURL,
	} {
		if err := checkURL(u, "http", "https"); u != "" && err != nil {
			bad(name, "%v", err)
		}
	}
	_, err := c.SignIn.oidc()
	errs = append(errs, err, c.validateProviders(), c.validateCircuits())
	return errors.Join(errs...)
}

// trustedProxies are the networks whose X-Forwarded-For is believed.
func (c config) trustedProxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.Proxies {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a network like 10.0.0.0/8", text)
		}
		out = append(out, p)
	}
	return out, nil
}

func (c config) validateProviders() error {
	var errs []error
	seen := map[string]bool{}
	for _, p := range c.providers {
		if seen[providerPrefix(p.Name)] {
			errs = append(errs, fmt.Errorf("FUSEBOX_PROVIDERS: %q is listed twice", p.Name))
		}
		seen[providerPrefix(p.Name)] = true
		if err := p.Validate(); err != nil {
			errs = append(errs, settingNames(p.Name, err))
		}
		if _, ok := kinds[p.Kind]; !ok {
			known := slices.Sorted(maps.Keys(kinds))
			errs = append(errs, fmt.Errorf("%sKIND: %q is not one of %s", providerPrefix(p.Name), p.Kind, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}

// settingNames puts the environment variable in front of each refusal by
// Settings.Validate.
func settingNames(name string, err error) error {
	var errs []error
	for _, fe := range fieldErrors(err) {
		if fe.Field == "name" { // the other settings cannot even be named
			return fmt.Errorf("FUSEBOX_PROVIDERS: %q %s", name, fe.Reason)
		}
		errs = append(errs, fmt.Errorf("%s%s: %s", providerPrefix(name), strings.ToUpper(fe.Field), fe.Reason))
	}
	if len(errs) == 0 {
		return err
	}
	return errors.Join(errs...)
}

// fieldErrors collects every *provider.FieldError in a tree of wrapped and joined errors.
func fieldErrors(err error) (out []*provider.FieldError) {
	switch e := err.(type) {
	case *provider.FieldError:
		return []*provider.FieldError{e}
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			out = append(out, fieldErrors(inner)...)
		}
	}
	return out
}

// requireDatabase refuses a configuration without a database.
func (c config) requireDatabase() error {
	if err := checkURL(c.DatabaseURL, "postgres", "postgresql"); err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	return nil
}

// requireRedis refuses a configuration without a Redis to share circuits through.
func (c config) requireRedis() error {
	if err := checkURL(c.RedisURL, "redis", "rediss", "unix"); err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	return nil
}

// patientRedisURL gives the client's own steps (dial, read, write, wait for a
// connection) the time a decision may take, where the URL does not say otherwise.
func (c config) patientRedisURL() string {
	u, err := url.Parse(c.RedisURL)
	if err != nil {
		return c.RedisURL // refused by the client, with the reason
	}
	q := u.Query()
	for _, name := range []string{"dial_timeout", "read_timeout", "write_timeout", "pool_timeout"} {
		if !q.Has(name) {
			q.Set(name, c.RedisTimeout.String())
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// checkURL never echoes the value: it may hold a password.
func checkURL(raw string, schemes ...string) error {
	if raw == "" {
		return errors.New("is not set")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("is not a URL")
	}
	if !slices.Contains(schemes, u.Scheme) {
		return fmt.Errorf("scheme %q is not %s", u.Scheme, strings.Join(schemes, " or "))
	}
	if u.Host == "" && u.Scheme != "unix" && u.Query().Get("host") == "" {
		return errors.New("has no host")
	}
	return nil
}

// namedErrors rewrites the parser's errors, which name Go fields, to name settings.
func namedErrors(v any, vars map[string]string, prefix string, err error) error {
	var agg env.AggregateError
	if !errors.As(err, &agg) {
		return err
	}
	fields, ferr := env.GetFieldParamsWithOptions(v, env.Options{Environment: vars, Prefix: prefix})
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	var errs []error
	for _, e := range agg.Errors {
		var pe env.ParseError
		if errors.As(e, &pe) {
			for _, f := range fields {
				if strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(f.Key, prefix), "FUSEBOX_"), "_", "") == strings.ToUpper(pe.Name) {
					e = fmt.Errorf("%s: %q is not a valid %s", f.Key, vars[f.Key], pe.Type)
				}
			}
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

func knownNames(v any, prefix string) []string {
	fields, err := env.GetFieldParamsWithOptions(v, env.Options{Prefix: prefix})
	if err != nil {
		panic(err) // a field of ours the parser cannot read: a programming error
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Key)
	}
	return names
}

// unknownNames refuses settings nobody reads: a misspelt limit is worse than none.
func unknownNames(vars map[string]string, known []string) error {
	var errs []error
	for name := range vars {
		ours := strings.HasPrefix(name, "FUSEBOX_") || strings.HasPrefix(name, "PROVIDER_")
		if ours && !slices.Contains(known, name) && !testNames.MatchString(name) {
			errs = append(errs, fmt.Errorf("%s: no such setting", name))
		}
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return errors.Join(errs...)
}

func (c config) sinks() []jobs.AlertSink {
	var out []jobs.AlertSink
	if c.AlertURL != "" {
		out = append(out, jobs.AlertSink{Name: "webhook", Kind: "generic", URL: c.AlertURL})
	}
	if c.SlackURL != "" {
		out = append(out, jobs.AlertSink{Name: "slack", Kind: "slack", URL: c.SlackURL})
	}
	return out
}

// now is the machine's clock.
func (c config) now() time.Time { return time.Now().Add(c.ClockOffset) }

// workerName tells processes apart in attempts and in a circuit's evidence.
func (c config) workerName() string {
	if c.Worker != "" {
		return c.Worker
	}
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
