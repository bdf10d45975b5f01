package provider

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSettingsValidateNamesTheField(t *testing.T) {
	t.Parallel()
	require.NoError(t, testSettings("https://pay.provider.test/v1").Validate())
	require.NoError(t, Settings{Name: "a", BaseURL: "http://[::1]:8080", APIKey: "k", WebhookSecrets: []string{"s"}}.Validate(), "defaults are filled in")
	for _, tt := range []struct {
		field  string
		change func(*Settings)
	}{
		{"name", func(s *Settings) { s.Name = "" }},
		{"name", func(s *Settings) { s.Name = "Atlas" }},
		{"name", func(s *Settings) { s.Name = "a{b}" }},
		{"kind", func(s *Settings) { s.Kind = "No such" }},
		{"base_url", func(s *Settings) { s.BaseURL = "" }},
		{"base_url", func(s *Settings) { s.BaseURL = "://" }},
		{"base_url", func(s *Settings) { s.BaseURL = "ftp://provider.test" }},
		{"base_url", func(s *Settings) { s.BaseURL = "provider.test" }},
		{"base_url", func(s *Settings) { s.BaseURL = "https://" }},
		{"base_url", func(s *Settings) { s.BaseURL = "https://:443" }},
		{"base_url", func(s *Settings) { s.BaseURL = "https://user:pass@provider.test" }},
		{"base_url", func(s *Settings) { s.BaseURL = "https://provider.test?key=1" }},
		{"base_url", func(s *Settings) { s.BaseURL = "https://provider.test/?" }},
		{"base_url", func(s *Settings) { s.BaseURL = "https://provider.test/#x" }},
		{"api_key", func(s *Settings) { s.APIKey = "" }},
		{"api_key", func(s *Settings) { s.APIKey = "a b" }},
		{"api_key", func(s *Settings) { s.APIKey = "a\nb" }},
		{"webhook_secrets", func(s *Settings) { s.WebhookSecrets = nil }},
		{"webhook_secrets", func(s *Settings) { s.WebhookSecrets = []string{} }},
		{"webhook_secrets", func(s *Settings) { s.WebhookSecrets = []string{""} }},
		{"webhook_secrets", func(s *Settings) { s.WebhookSecrets = []string{"good", " "} }},
		{"account", func(s *Settings) { s.Account = "Shop\n" }},
		{"account", func(s *Settings) { s.Account = strings.Repeat("a", 501) }},
		{"ledger_url", func(s *Settings) { s.LedgerURL = "ledger" }},
		{"connect_timeout", func(s *Settings) { s.ConnectTimeout = -1 }},
		{"connect_timeout", func(s *Settings) { s.ConnectTimeout = s.AnswerTimeout }},
		{"answer_timeout", func(s *Settings) { s.AnswerTimeout = time.Hour }},
		{"charge_workers", func(s *Settings) { s.ChargeWorkers = -1 }},
		{"charge_workers", func(s *Settings) { s.ChargeWorkers = 100000 }},
		{"status_workers", func(s *Settings) { s.StatusWorkers = -1 }},
		{"retry_pauses", func(s *Settings) { s.RetryPauses = []time.Duration{0} }},
		{"reconcile_pauses", func(s *Settings) { s.ReconcilePauses = []time.Duration{-1} }},
		{"quick_reconcile", func(s *Settings) { s.QuickReconcile = -1 }},
		{"absent_horizon", func(s *Settings) { s.AbsentHorizon = -1 }},
		{"sync_every", func(s *Settings) { s.SyncEvery = -1 }},
		{"sync_overlap", func(s *Settings) { s.SyncOverlap = -1 }},
		{"sync_pause", func(s *Settings) { s.SyncPause = -1 }},
		{"key_life", func(s *Settings) { s.KeyLife = -1 }},
		{"key_life", func(s *Settings) { s.NoKeys = true }},
		{"on_absent", func(s *Settings) { s.OnAbsent = "retry" }},
		{"on_absent", func(s *Settings) { s.OnAbsent, s.NoKeys, s.KeyLife = AbsentRecharge, true, 0 }},
		{"on_absent", func(s *Settings) { s.OnAbsent, s.NoStatusAPI = AbsentRecharge, true }},
		{"on_absent", func(s *Settings) { s.OnAbsent, s.KeyLife = AbsentRecharge, time.Minute }},
	} {
		s := testSettings("https://pay.provider.test/v1")
		tt.change(&s)
		err := s.Validate()
		require.Error(t, err, tt.field)
		requireField(t, err, tt.field)
		require.ErrorContains(t, err, "provider \""+s.Name+"\"")
	}
}

func TestSettingsValidateTellsAllAtOnce(t *testing.T) {
	t.Parallel()
	err := Settings{Name: "a"}.Validate()
	for _, field := range []string{"base_url", "api_key", "webhook_secrets"} {
		require.ErrorContains(t, err, field)
	}
}

func TestWorstCase(t *testing.T) {
	t.Parallel()
	s := testSettings("https://pay.provider.test")
	for _, tt := range []struct {
		ways   []Way
		lookup int
	}{
		{[]Way{ByID, ByKey, ByReference}, 9},
		{[]Way{ByReference}, 3},
		{[]Way{WebhookOnly}, 0},
		{[]Way{ReplayKey}, 0},
		{nil, 0},
	} {
		charge, lookup := s.WorstCase(Capabilities{Ways: tt.ways})
		require.Equal(t, 5, charge)
		require.Equal(t, tt.lookup, lookup)
	}
	reading, _ := s.WorstCase(Capabilities{Ping: true})
	require.Equal(t, 10, reading, "a read before each try")
	_, replays := s.WorstCase(Capabilities{IdempotencyKeys: true, Ways: []Way{ReplayKey, WebhookOnly}})
	require.Equal(t, 1, replays, "nothing to ask: the same key once more")
	_, searching := s.WorstCase(Capabilities{Ways: []Way{ByID, ByReference}, ListPages: 10})
	require.Equal(t, 16, searching)
	budget := s.LookupBudget(Capabilities{Ways: []Way{ByReference}})
	require.Greater(t, budget, 3*s.AnswerTimeout+600*time.Millisecond)
	require.Less(t, budget, 3*s.AnswerTimeout+time.Second)
}

// named is the least an adapter can be.
type named struct {
	Adapter
	name string
}

func (n named) Name() string { return n.name }

func TestKindsBuild(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such account")
	kinds := Kinds{
		"gateway": func(s Settings) (Adapter, error) { return named{name: s.Name}, nil },
		"broken":  func(Settings) (Adapter, error) { return nil, broken },
	}
	a, b := testSettings("https://a.test"), testSettings("https://b.test")
	b.Name = "borealis"
	reg, err := kinds.Build([]Settings{a, b})
	require.NoError(t, err)
	require.Equal(t, []string{"atlas", "borealis"}, reg.Names())
	got, ok := reg.Get("borealis")
	require.True(t, ok)
	require.Equal(t, "borealis", got.Name())
	_, ok = reg.Get("nobody")
	require.False(t, ok)

	_, err = kinds.Build([]Settings{a, a})
	requireField(t, err, "name")
	b.Kind = "stripe"
	_, err = kinds.Build([]Settings{a, b})
	requireField(t, err, "kind")
	require.ErrorContains(t, err, "broken, gateway")
	b.Kind = "broken"
	_, err = kinds.Build([]Settings{b})
	require.ErrorIs(t, err, broken)
	b.APIKey = ""
	_, err = kinds.Build([]Settings{b})
	requireField(t, err, "api_key")
	require.Panics(t, func() { NewRegistry(named{name: "a"}, named{name: "a"}) })
}

func TestKeyLifeIsWhatTheProviderDocuments(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]time.Duration{
		"": 24 * time.Hour, "stripe": 24 * time.Hour, "mollie": time.Hour, "paypal": 6 * time.Hour, "adyen": 168 * time.Hour,
	} {
		require.Equal(t, want, Settings{Kind: kind}.WithDefaults().KeyLife, kind)
	}
	require.Equal(t, time.Minute, Settings{Kind: "mollie", KeyLife: time.Minute}.WithDefaults().KeyLife)
	require.Zero(t, Settings{NoKeys: true}.WithDefaults().KeyLife)
}
