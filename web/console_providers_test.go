package web

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
)

// transition stores a circuit event of atlas' charges.
func (w *webtest) transition(epoch, from, to, reason string, ago time.Duration, evidence map[string]any) {
	w.t.Helper()
	_, err := w.store.RecordBreakerEvent(w.t.Context(), store.BreakerEvent{Provider: "atlas", Class: "charge", Epoch: epoch,
		From: from, To: to, Reason: reason, Evidence: evidence, At: w.clock.now().Add(-ago)})
	require.NoError(w.t, err)
}

func TestProvidersSayWhyACircuitOpenedAndWhatFailedSince(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	sample := uuid.NewString()
	w.transition("1", "closed", "open", breaker.ReasonConsecutive, 5*time.Minute, map[string]any{
		"failures": 5, "error_classes": map[string]any{"timeout_after_send": 4, "cut_after_send": 1},
		"workers": []any{"host:1", "host:2"}, "samples": []any{sample},
		"settings": "failures=5 open_for=30s"})
	w.transition("2", "open", "half_open", breaker.ReasonOpenTimeOver, 4*time.Minute, nil)
	w.transition("3", "half_open", "open", breaker.ReasonProbeFailed, 3*time.Minute, map[string]any{"failures": 1})
	w.openCircuit("3")

	body := w.signedIn(store.RoleOperator).get("/providers").body
	require.Contains(t, body, "Too many failures in a row.", "the first opening, not the failed probe")
	require.Contains(t, body, "5 failures, seen by 2 processes.")
	require.Contains(t, body, "sent, no answer in time × 4")
	require.Contains(t, body, "1 probe failed since.")
	require.Contains(t, body, `href="/payments/`+sample+`"`)
	require.Contains(t, body, "Next probe in 20\u00a0s, at 15:02:31.")
	require.Contains(t, body, "Last 3 changes of state")
	require.Contains(t, body, "failures=5 open_for=30s", "the settings then")
	require.Contains(t, body, `href="/providers/atlas/charge/reset"`)
}

func TestAnOpeningBeforeTheLastCloseIsAnotherStory(t *testing.T) {
	t.Parallel()
	k := atlasCharge
	ev := func(from, to, reason string) store.BreakerEvent {
		return store.BreakerEvent{Provider: k.Name, Class: k.Class, From: from, To: to, Reason: reason}
	}
	other := store.BreakerEvent{Provider: "borealis", Class: "charge", From: "closed", To: "open"}
	require.Nil(t, openingOf(nil, k))
	require.Nil(t, openingOf([]store.BreakerEvent{other, ev("half_open", "closed", "probes_succeeded"), ev("closed", "open", "slow_calls")}, k))
	got := openingOf([]store.BreakerEvent{ev("half_open", "open", "probe_failed"), other, ev("open", "half_open", "open_time_over"),
		ev("half_open", "open", "probe_failed"), ev("closed", "open", "slow_calls"), ev("half_open", "closed", "reset")}, k)
	require.Equal(t, "slow_calls", got.Reason)
	require.Equal(t, 2, got.Reopened)
}

func TestEvidenceComesFromTheCircuitUntilTheEventIsStored(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	body := w.signedIn(store.RoleSupport).get("/providers").body
	require.Contains(t, body, "1 failure, seen by 1 process.")
	require.Contains(t, body, "sent, no answer in time × 1")
}

func TestSupportSeesWhichRoleMayReset(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	body := w.signedIn(store.RoleSupport).get("/providers").body
	require.NotContains(t, body, "/reset")
	require.Contains(t, body, "Only Operator may do this")
	require.Contains(t, w.signedIn(store.RoleOperator).get("/providers").body, "/reset", "fragments are not shared between roles")
}

func TestProvidersTellLimitsAndWhatTheProviderCannot(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, func(c *Config) { c.Providers[1].NoKeys, c.Providers[1].NoStatusAPI = true, true })
	body := w.signedIn(store.RoleSupport).get("/providers").body
	require.Contains(t, body, "remembers keys for 24\u00a0h")
	require.Contains(t, body, "ignores idempotency keys, cannot be asked about a charge")
	require.Contains(t, body, "0 of 8")
	require.Contains(t, body, "Never reconciled")
}

func TestAProbeUnderWayIsShown(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.HalfOpen, Epoch: "4", Since: w.clock.now(),
		Probes: []breaker.Lease{{Token: "host:1-x", Until: w.clock.now().Add(9 * time.Second)}}})
	require.Contains(t, w.signedIn(store.RoleSupport).get("/providers").body, "One probe is under way, until 15:02:20 at most.")
}

func TestProvidersOweEverybodyTheSame(t *testing.T) {
	t.Parallel()
	newWebtest(t).exercise(page{method: "GET", path: "/providers", role: store.RoleSupport})
}
