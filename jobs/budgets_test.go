package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

func TestCheckBudgetsHoldsTheOrderOfDeadlines(t *testing.T) {
	t.Parallel()
	fast, slow := newFake("fast"), newFake("slow")
	budgets, err := CheckBudgets([]provider.Settings{
		{Name: "fast", ConnectTimeout: 100 * time.Millisecond, AnswerTimeout: time.Second, ChargeWorkers: 3},
		{Name: "slow", AnswerTimeout: 30 * time.Second},
	}, provider.NewRegistry(fast, slow))
	require.NoError(t, err)
	require.Len(t, budgets, 2)
	for _, b := range budgets {
		require.Less(t, b.AttemptDeadline, b.JobTimeout, b.Provider)
		require.Less(t, b.JobTimeout, b.RescueAfter, b.Provider)
	}
	require.Equal(t, budgets[0].RescueAfter, budgets[1].RescueAfter, "River knows one rescue time")
	require.InDelta(t, 3.0, budgets[0].HangSeconds, 0.001)
	require.Equal(t, 5, budgets[0].RequestsPerCharge)
	require.Equal(t, 6, budgets[0].RequestsPerLookup, "two ways, three tries each")
	searched := provider.Capabilities{Ways: []provider.Way{provider.ByID, provider.ByReference}, ListPages: 10}
	require.Equal(t, 16, requestsPerLookup(searched), "and the pages of a list that is read through")
	replayed := provider.Capabilities{IdempotencyKeys: true, Ways: []provider.Way{provider.ReplayKey, provider.WebhookOnly}}
	require.Equal(t, 1, requestsPerLookup(replayed), "nothing to ask: the same key once more")
}

func TestCheckBudgetsNamesTheSettingItRefuses(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]provider.Settings{
		"connect_timeout":  {Name: "p", ConnectTimeout: 5 * time.Second, AnswerTimeout: 5 * time.Second},
		"answer_timeout":   {Name: "p", AnswerTimeout: time.Hour},
		"charge_workers":   {Name: "p", ChargeWorkers: 10_001},
		"status_workers":   {Name: "p", StatusWorkers: -1},
		"key_life":         {Name: "p", KeyLife: 5 * time.Second},
		"retry_pauses":     {Name: "p", RetryPauses: []time.Duration{0}},
		"reconcile_pauses": {Name: "p", ReconcilePauses: []time.Duration{time.Minute, -1}},
		"quick_reconcile":  {Name: "p", QuickReconcile: -1},
		"sync_every":       {Name: "p", SyncEvery: -1},
		"on_absent":        {Name: "p", OnAbsent: "resend"},
		"recharge needs":   {Name: "p", OnAbsent: "recharge", NoKeys: true},
	} {
		_, err := CheckBudgets([]provider.Settings{s}, provider.NewRegistry(newFake("p")))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `provider "p"`)
	}
}

func TestCheckBudgetsRefusesNamesThatCannotBeQueues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Atlas", "at las", "-atlas", "atlas-", "a__b", "a.b", "a/b", "ätlas", strings.Repeat("a", 49)} {
		_, err := CheckBudgets([]provider.Settings{{Name: name}}, provider.NewRegistry(newFake(name)))
		require.ErrorContains(t, err, "name", name)
	}
	_, err := CheckBudgets([]provider.Settings{{Name: "nobody"}}, provider.NewRegistry())
	require.ErrorContains(t, err, "no adapter")
}

func TestCheckBudgetsReportsEveryProviderAtOnce(t *testing.T) {
	t.Parallel()
	_, err := CheckBudgets([]provider.Settings{{Name: "a", OnAbsent: "x"}, {Name: "b", ChargeWorkers: -2}},
		provider.NewRegistry(newFake("a"), newFake("b")))
	require.ErrorContains(t, err, `"a"`)
	require.ErrorContains(t, err, `"b"`)
}
