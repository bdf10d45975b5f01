package provider

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Limits of settings, so that a slip of the keyboard is refused at start.
const (
	maxWorkers = 1000
	maxAnswer  = 2 * time.Minute
	maxAccount = 500
)

// OnAbsent values.
const (
	AbsentFail     = "fail"
	AbsentRecharge = "recharge"
)

var settingsName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Validate checks the settings with their defaults filled in. The error joins one
// *FieldError per bad setting, prefixed with the provider's name.
func (s Settings) Validate() error {
	s = s.WithDefaults()
	var v fieldErrors
	v.identity(s)
	v.budgets(s)
	v.pauses(s)
	v.keys(s)
	if len(v) == 0 {
		return nil
	}
	return fmt.Errorf("provider %q: %w", s.Name, errors.Join(v...))
}

type fieldErrors []error

func (v *fieldErrors) check(ok bool, field, reason string) {
	if !ok {
		*v = append(*v, &FieldError{Field: field, Reason: reason})
	}
}

func (v *fieldErrors) identity(s Settings) {
	v.check(settingsName.MatchString(s.Name), "name", "must be 1 to 32 of a-z, 0-9, _ and -, starting with a letter")
	v.check(settingsName.MatchString(s.Kind), "kind", "must name an adapter")
	if _, err := parseBase(s.BaseURL); err != nil {
		*v = append(*v, err)
	}
	v.check(s.APIKey != "" && headerSafe(s.APIKey) && !strings.Contains(s.APIKey, " "), "api_key", "must be set, printable ASCII, without spaces")
	v.check(len(s.Account) <= maxAccount && headerSafe(s.Account), "account", fmt.Sprintf("must be printable ASCII, at most %d characters", maxAccount))
	v.check(len(s.WebhookSecrets) > 0, "webhook_secrets", "at least one signing secret is needed: without one no event can be trusted")
	for _, secret := range s.WebhookSecrets {
		v.check(strings.TrimSpace(secret) != "", "webhook_secrets", "a secret is empty")
	}
	if s.LedgerURL != "" {
		u, err := url.Parse(s.LedgerURL)
		v.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "ledger_url", "must be an http(s) URL")
	}
}

func (v *fieldErrors) budgets(s Settings) {
	v.check(s.ConnectTimeout > 0, "connect_timeout", "must be positive")
	v.check(s.AnswerTimeout > 0 && s.AnswerTimeout <= maxAnswer, "answer_timeout", "must be positive and at most "+maxAnswer.String())
	v.check(s.ConnectTimeout < s.AnswerTimeout, "connect_timeout", "must be shorter than answer_timeout")
	v.check(s.ChargeWorkers > 0 && s.ChargeWorkers <= maxWorkers, "charge_workers", fmt.Sprintf("must be 1 to %d", maxWorkers))
	v.check(s.StatusWorkers > 0 && s.StatusWorkers <= maxWorkers, "status_workers", fmt.Sprintf("must be 1 to %d", maxWorkers))
}

func (v *fieldErrors) pauses(s Settings) {
	for _, d := range s.RetryPauses {
		v.check(d > 0, "retry_pauses", "every pause must be positive")
	}
	for _, d := range s.ReconcilePauses {
		v.check(d > 0, "reconcile_pauses", "every pause must be positive")
	}
	v.check(s.QuickReconcile > 0, "quick_reconcile", "must be positive")
	v.check(s.AbsentHorizon > 0, "absent_horizon", "must be positive")
	v.check(s.SyncEvery > 0, "sync_every", "must be positive")
	v.check(s.SyncOverlap > 0, "sync_overlap", "must be positive")
	v.check(s.SyncPause > 0, "sync_pause", "must be positive")
}

func (v *fieldErrors) keys(s Settings) {
	v.check(s.NoKeys || s.KeyLife > 0, "key_life", "must be positive unless the provider has no keys")
	v.check(!s.NoKeys || s.KeyLife == 0, "key_life", "has no meaning for a provider without keys")
	switch s.OnAbsent {
	case AbsentFail:
	case AbsentRecharge:
		v.check(!s.NoKeys, "on_absent", "recharge needs a provider with idempotency keys")
		v.check(!s.NoStatusAPI, "on_absent", "recharge needs a provider that can be asked")
		v.check(s.NoKeys || s.KeyLife > s.AbsentHorizon, "on_absent", "recharge needs key_life to outlast absent_horizon")
	default:
		v.check(false, "on_absent", "must be fail or recharge")
	}
}

// parseBase accepts an absolute http(s) URL without credentials, query or fragment.
func parseBase(raw string) (*url.URL, error) {
	bad := func(reason string) error { return &FieldError{Field: "base_url", Reason: reason} }
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, bad("must be set")
	case err != nil:
		return nil, bad("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, bad("must start with http:// or https://")
	case u.Hostname() == "":
		return nil, bad("has no host")
	case u.User != nil:
		return nil, bad("must not carry credentials; use api_key")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, bad("must not have a query or fragment")
	}
	return u, nil
}

// WorstCase returns how many HTTP requests one charge operation and one lookup can
// cause at most when the provider is down: a charge is tried once and then once per
// retry pause, each time with one wire send, and with one cheap read before it where
// there is one and the charge is a probe; a lookup asks by every declared way, and
// reads ListPages more where it has to search a list.
func (s Settings) WorstCase(caps Capabilities) (perCharge, perLookup int) {
	s = s.WithDefaults()
	for _, w := range caps.Ways {
		if w == ByReference || w == ByKey || w == ByID {
			perLookup += AskTries
		}
		if w == ByReference {
			perLookup += caps.ListPages
		}
	}
	if perLookup == 0 && caps.CanReplay() {
		perLookup = 1 // the same key and bytes once more, instead of a question
	}
	perCharge = 1 + len(s.RetryPauses)
	if caps.Ping {
		perCharge *= 2
	}
	return perCharge, perLookup
}

// LookupBudget returns how long one lookup can take at most: every request of
// WorstCase to its deadline, and the pauses between them. Job timeouts must exceed it.
func (s Settings) LookupBudget(caps Capabilities) time.Duration {
	s = s.WithDefaults()
	_, requests := s.WorstCase(caps)
	const pauses = 3 * askPause * 5 / 4 // 200 + 400 ms and the jitter, per way
	return time.Duration(requests)*s.AnswerTimeout + time.Duration(requests/AskTries)*pauses
}
