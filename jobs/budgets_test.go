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
}

func TestCheckBudgetsNamesTheSettingItRefuses(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]provider.Settings{
		"ConnectTimeout":  {Name: "p", ConnectTimeout: 5 * time.Second, AnswerTimeout: 5 * time.Second},
		"AnswerTimeout":   {Name: "p", AnswerTimeout: time.Hour},
		"ChargeWorkers":   {Name: "p", ChargeWorkers: 10_001},
		"StatusWorkers":   {Name: "p", StatusWorkers: -1},
		"KeyLife":         {Name: "p", KeyLife: 5 * time.Second},
		"RetryPauses":     {Name: "p", RetryPauses: []time.Duration{0}},
		"ReconcilePauses": {Name: "p", ReconcilePauses: []time.Duration{time.Minute, -1}},
		"QuickReconcile":  {Name: "p", QuickReconcile: -1},
		"SyncEvery":       {Name: "p", SyncEvery: -1},
		"OnAbsent":        {Name: "p", OnAbsent: "resend"},
		"recharge needs":  {Name: "p", OnAbsent: "recharge", NoKeys: true},
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
		require.ErrorContains(t, err, "Name", name)
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
