package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/web/circuits"
)

// automaton is an API client that may operate circuits.
func (w *webtest) automaton() *program {
	w.t.Helper()
	k, secret, err := w.store.CreateAPIKey(w.t.Context(), "runbook", store.System("test"), store.ScopeCircuits)
	require.NoError(w.t, err)
	return &program{w, k, secret}
}

// operate posts an action under an idempotency key.
func (p *program) operate(key, verb, body string) reply {
	p.w.t.Helper()
	return p.call(http.MethodPost, "/circuits/atlas/charge/"+verb, body, "Idempotency-Key: "+key)
}

func TestAPIShowsCircuits(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	p := w.automaton()
	res := p.call(http.MethodGet, "/circuits", "")
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	list := decode[struct{ Data []circuits.View }](t, res)
	require.Len(t, list.Data, 4)
	v := decode[circuits.View](t, p.call(http.MethodGet, "/circuits/atlas/charge", ""))
	require.Equal(t, list.Data[0], v)
	require.Equal(t, breaker.Open, v.State)
	require.Equal(t, "17", v.Epoch)
	require.Equal(t, "2026-03-02T15:01:11Z", *v.Since)
	require.Equal(t, "2026-03-02T15:02:31Z", *v.OpenUntil)
	require.Equal(t, breaker.ReasonConsecutive, *v.OpenReason)
	require.Equal(t, []string{"probe", "reset", "open", "close", "metrics"}, v.Actions)
	require.Contains(t, p.call(http.MethodGet, "/circuits/borealis/status", "").body, `"since":null`)
	for _, path := range []string{"/circuits/nobody/charge", "/circuits/atlas/refund", "/circuits/atlas"} {
		require.Equal(t, http.StatusNotFound, p.call(http.MethodGet, path, "").StatusCode, path)
	}
	require.Equal(t, http.StatusNotFound, p.operate("k", "explode", `{}`).StatusCode)
}

func TestAPIOperatesACircuitOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		verb, lasts string
		state       breaker.State
		mode        breaker.Mode
		woken       int
	}{
		{"probe", "", breaker.HalfOpen, "", 1},
		{"reset", "", breaker.Closed, "", 2},
		{"open", `,"for":"90m"`, breaker.Open, breaker.ForcedOpen, 0},
		{"close", `,"for":null`, breaker.Closed, breaker.ForcedClosed, 2},
		{"metrics", `,"for":"24h"`, breaker.Open, breaker.MetricsOnly, 2},
	} {
		t.Run(tc.verb, func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			w.openCircuit("17")
			w.queue(2)
			p := w.automaton()
			body := `{"epoch":"17","reason":"runbook 4"` + tc.lasts + `}`
			res := p.operate("k", tc.verb, body)
			require.Equal(t, http.StatusOK, res.StatusCode, res.body)
			require.Empty(t, res.Header.Get("Idempotent-Replayed"))
			first := decode[operatedJSON](t, res)
			require.Equal(t, tc.state, first.State)
			require.Equal(t, tc.woken, first.Woken)
			if tc.mode != "" {
				require.Equal(t, tc.mode, first.Override.Mode)
			}
			again := p.operate("k", tc.verb, body)
			require.Equal(t, http.StatusOK, again.StatusCode)
			require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
			require.Equal(t, first.View, decode[operatedJSON](t, again).View)

			a, _ := circuits.ByVerb(tc.verb)
			list := w.audits(a.AuditAction())
			require.Len(t, list, 1)
			require.Equal(t, "client:"+p.key.ID.String(), list[0].Actor)
			require.Equal(t, "runbook", list[0].ActorName)
			require.Equal(t, "runbook 4", list[0].Reason)
		})
	}
}

func TestAPIKeysOfCircuitActionsAreTheClientsOwn(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	p, other := w.automaton(), w.automaton()
	statuses := make([]int, 5)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() { statuses[i] = p.operate("k", "open", `{"epoch":"17","reason":"r","for":"1h"}`).StatusCode })
	}
	wg.Wait()
	for _, status := range statuses {
		require.Equal(t, http.StatusOK, status)
	}
	require.Len(t, w.audits("circuit.forced_open"), 1)
	res := p.operate("k", "open", `{"epoch":"17","reason":"r","for":"2h"}`)
	require.Equal(t, "Idempotency-Key", problemField(t, res, http.StatusUnprocessableEntity, "Idempotency-Key").Errors[0].Field)
	require.Equal(t, http.StatusConflict, other.operate("k", "open", `{"epoch":"17","reason":"r","for":"1h"}`).StatusCode, "another client's key is another intent")
}

func TestAPIConflictCarriesTheCircuitAndWhoWasFirst(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	require.Equal(t, http.StatusSeeOther, b.post(circuitPath(circuits.ForcedOpen), circuitAct(t, b, circuits.ForcedOpen)).StatusCode)
	p := w.automaton()
	res := p.operate("k", "reset", `{"epoch":"17","reason":"late"}`)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	got := decode[circuitProblem](t, res)
	require.Equal(t, "urn:fusebox:problem:conflict", got.Type)
	require.Equal(t, "circuit.forced_open by Olena came first, at 15:02:11 UTC. Nothing was changed.", got.Detail)
	require.Equal(t, w.snapshot(atlasCharge).Epoch, got.Circuit.Epoch)
	require.Equal(t, breaker.ForcedOpen, got.Circuit.Override.Mode)

	res = p.operate("k", "probe", `{"epoch":"`+got.Circuit.Epoch+`","reason":"try"}`)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Equal(t, "urn:fusebox:problem:not-open", decode[circuitProblem](t, res).Type)
	require.Equal(t, http.StatusOK, p.operate("k", "reset", `{"epoch":"`+got.Circuit.Epoch+`","reason":"now"}`).StatusCode, "a refused key is free")
}

func TestAPICircuitRefusals(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	p := w.automaton()
	for _, tc := range []struct{ verb, body, field string }{
		{"reset", `{"reason":"r"}`, "epoch"},
		{"reset", `{"epoch":17,"reason":"r"}`, "epoch"},
		{"reset", `{"epoch":"17"}`, "reason"},
		{"reset", `{"epoch":"17","reason":"` + strings.Repeat("я", circuits.MaxReason+1) + `"}`, "reason"},
		{"reset", `{"epoch":"17","reason":"r","for":"1h"}`, "for"},
		{"open", `{"epoch":"17","reason":"r"}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":""}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":"30s"}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":"169h"}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":"-1h"}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":"an hour"}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":3600}`, "for"},
		{"open", `{"epoch":"17","reason":"r","for":"1h","until":"x"}`, "until"},
	} {
		got := problemField(t, p.operate("k", tc.verb, tc.body), http.StatusUnprocessableEntity, tc.field)
		require.Len(t, got.Errors, 1, tc.body)
	}
	problemField(t, p.call(http.MethodPost, "/circuits/atlas/charge/reset", `{"epoch":"17","reason":"r"}`), http.StatusBadRequest, "Idempotency-Key")
	problemField(t, p.operate("k", "reset", `{`), http.StatusBadRequest, "body")
	require.Equal(t, "17", w.snapshot(atlasCharge).Epoch)

	w.circuits.degraded = w.clock.now()
	res := p.operate("k", "reset", `{"epoch":"17","reason":"r"}`)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Zero(t, w.number(`SELECT count(*) FROM console_actions`))
}

func TestAPIScopes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	shop, runbook := w.program(), w.automaton()
	for _, res := range []reply{shop.call(http.MethodGet, "/circuits", ""), shop.call(http.MethodGet, "/circuits/atlas/charge", ""),
		shop.operate("k", "reset", `{"epoch":"17","reason":"r"}`)} {
		p := problemField(t, res, http.StatusForbidden, "Authorization")
		require.Equal(t, "lacks the scope circuits", p.Errors[0].Reason)
		require.Contains(t, p.Detail, "--scope circuits")
	}
	for _, res := range []reply{runbook.pay("k", goodPayment), runbook.call(http.MethodGet, "/payments", ""), runbook.call(http.MethodGet, "/wallets?owner_ref=a&currency=EUR", "")} {
		require.Equal(t, "lacks the scope payments", problemField(t, res, http.StatusForbidden, "Authorization").Errors[0].Reason)
	}
	require.Equal(t, http.StatusNotFound, runbook.call(http.MethodGet, "/nothing", "").StatusCode)
	require.Equal(t, http.StatusUnauthorized, w.do(httptest.NewRequest(http.MethodGet, "/api/v1/circuits", nil)).StatusCode)
	require.Equal(t, "17", w.snapshot(atlasCharge).Epoch)
}

func TestAPISaysWhenItSeesOneProcessOnly(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Open, Epoch: "5", Degraded: true, Mode: breaker.ForcedOpen,
		ModeUntil: w.clock.now().Add(time.Hour), Settings: breaker.Settings{MaxInFlight: 8}, InFlight: 3,
		Probes: []breaker.Lease{{Token: "host:1", Until: w.clock.now()}}})
	v := decode[circuits.View](t, w.automaton().call(http.MethodGet, "/circuits/atlas/charge", ""))
	require.True(t, v.Degraded)
	require.Empty(t, v.Actions)
	require.Equal(t, "2026-03-02T16:02:11Z", *v.Override.Until)
	require.Equal(t, 8, *v.MaxInFlight)
	require.Equal(t, 3, v.InFlight)
	require.Equal(t, []circuits.Lease{{Holder: "host:1", Until: "2026-03-02T15:02:11Z"}}, v.Probes)
}
