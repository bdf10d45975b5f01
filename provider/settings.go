package provider

import "time"

// Settings is one configured provider, as read and validated by cmd. Adapters get
// what they need of it at construction; jobs read the pacing.
type Settings struct {
	Name    string // unique; part of queue names, webhook paths and circuit keys
	Kind    string // adapter: "gateway"
	BaseURL string
	APIKey  string
	// WebhookSecrets are the active signing secrets, newest first.
	WebhookSecrets []string
	// Account is which account at the provider is charged, for providers whose credentials
	// can reach several (Adyen: the merchant account). Empty elsewhere.
	Account   string
	LedgerURL string // simulator only: where verify reads the ground truth; empty elsewhere

	NoKeys         bool // the provider ignores idempotency keys
	NoStatusAPI    bool // the provider cannot be asked about a charge
	KeyLife        time.Duration
	ConnectTimeout time.Duration // default 2 s
	AnswerTimeout  time.Duration // default 5 s: whole answer, body included
	ChargeWorkers  int           // per process
	StatusWorkers  int           // per process

	// AbsentHorizon: a "not found" counts only this long after the last send (default 15 min).
	AbsentHorizon time.Duration
	// OnAbsent: "fail" (default) or "recharge" (same key and bytes, while the key lives).
	OnAbsent string
	// RetryPauses between charge tries while provably not executed (default 10, 30, 60, 300 s).
	RetryPauses []time.Duration
	// ReconcilePauses between lookups: first entry after a timeout, last one for ever
	// (default 1 min, 5 min, 15 min, 1 h, 6 h, 24 h).
	ReconcilePauses []time.Duration
	// QuickReconcile is the first pause after a 5xx (default 10 s).
	QuickReconcile time.Duration
	// SyncEvery is the period of the provider sync (default 15 min); SyncOverlap its overlap (default 10 min).
	SyncEvery   time.Duration
	SyncOverlap time.Duration
	// SyncPause is how long a sync rests after 10 exceptions (default 5 min).
	SyncPause time.Duration
}

// documentedKeyLife is how long providers say they remember a key, where it is not the
// usual day. An adapter refuses a longer one.
var documentedKeyLife = map[string]time.Duration{
	"mollie": time.Hour,
	"paypal": 6 * time.Hour,
	"adyen":  7 * 24 * time.Hour,
}

// WithDefaults returns s with every zero field set to its default.
func (s Settings) WithDefaults() Settings {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if s.Kind == "" {
		s.Kind = "gateway"
	}
	if !s.NoKeys {
		def(&s.KeyLife, documentedKeyLife[s.Kind])
		def(&s.KeyLife, 24*time.Hour)
	}
	def(&s.ConnectTimeout, 2*time.Second)
	def(&s.AnswerTimeout, 5*time.Second)
	if s.ChargeWorkers == 0 {
		s.ChargeWorkers = 8
	}
	if s.StatusWorkers == 0 {
		s.StatusWorkers = 4
	}
	def(&s.AbsentHorizon, 15*time.Minute)
	if s.OnAbsent == "" {
		s.OnAbsent = "fail"
	}
	if len(s.RetryPauses) == 0 {
		s.RetryPauses = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute}
	}
	if len(s.ReconcilePauses) == 0 {
		s.ReconcilePauses = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}
	}
	def(&s.QuickReconcile, 10*time.Second)
	def(&s.SyncEvery, 15*time.Minute)
	def(&s.SyncOverlap, 10*time.Minute)
	def(&s.SyncPause, 5*time.Minute)
	return s
}
