package web

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
)

var atlasCharge = breaker.Key{Name: "atlas", Class: "charge"}

const resetPath = "/providers/atlas/charge/reset"

// openCircuit opens atlas' charge circuit, for a minute already.
func (w *webtest) openCircuit(epoch string) {
	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Open, Epoch: epoch, Since: w.clock.now().Add(-time.Minute),
		OpenUntil: w.clock.now().Add(20 * time.Second), OpenReason: breaker.ReasonConsecutive, Consecutive: 5,
		LastError: "timeout_after_send", Settings: breaker.Settings{Failures: 5},
		Recent: []breaker.Failure{{At: w.clock.now().Add(-2 * time.Minute), Class: "timeout_after_send", Worker: "host:1", Sample: uuid.NewString()}}})
}

func resetWith(epoch, reason string) url.Values {
	return url.Values{"action_id": {uuid.NewString()}, "epoch": {epoch}, "reason": {reason}, "typed": {"atlas"}}
}

func (w *webtest) audits(action string) []store.AuditEntry {
	list, _, err := w.store.ListAudit(w.t.Context(), store.AuditFilter{Action: action}, 0, 50)
	require.NoError(w.t, err)
	return list
}

func TestResetPageStatesTheConsequencesInNumbers(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	due := w.clock.now().Add(40 * time.Second)
	for range 41 {
		w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NextCheckAt, p.NextCheckWhy = store.Pending, &due, "circuit_open" })
	}
	w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.Amount, p.Currency = store.Pending, 6800, "JPY" })
	w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.Provider = store.Pending, "borealis" })
	w.unknownSince(time.Minute)
	w.unknownSince(time.Minute)

	body := w.signedIn(store.RoleOperator).get(resetPath).body
	require.Contains(t, body, "Close the circuit now?")
	require.Contains(t, body, "42 queued payments will be sent to atlas. Together 2,009.00\u00a0EUR + 6,800\u00a0JPY.")
	require.Contains(t, body, "They start within 4\u00a0s, up to 8 at a time per process.")
	require.Contains(t, body, "may become unknown. 2 are unknown already.")
	require.Contains(t, body, "It opens again after 5 failures in a row.")
	require.Contains(t, body, `<input type="hidden" name="epoch" value="17">`)
	require.Contains(t, body, "Too many failures in a row.")
}

func TestResetOfLookupsSaysThatNoMoneyMoves(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "status"}, State: breaker.Open, Epoch: "3"})
	body := w.signedIn(store.RoleOperator).get("/providers/atlas/status/reset").body
	require.Contains(t, body, "Status lookups to atlas start again. No money moves.")
	require.NotContains(t, body, "queued payment")
}

func TestResetClosesTheCircuitOnceWithItsAuditRow(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	form := resetWith("17", "  atlas says it is fixed, ticket 12 ")
	res := b.post(resetPath, form)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, "/providers", res.Header.Get("Location"))
	require.Equal(t, breaker.Closed, w.snapshot(atlasCharge).State)
	require.Contains(t, b.get("/providers").body, "The circuit of atlas (Charges) is closed.")

	list := w.audits("circuit.reset")
	require.Len(t, list, 1)
	require.Equal(t, "user:"+b.user.ID.String(), list[0].Actor)
	require.Equal(t, "circuit:atlas/charge", list[0].Target)
	require.Equal(t, "atlas says it is fixed, ticket 12", list[0].Reason)
	require.Equal(t, "open", list[0].Before["state"])
	require.Equal(t, "closed", list[0].After["state"])
	require.NotEmpty(t, list[0].RequestID)

	// The circuit opens again; the same form posted once more (Back, reload) changes nothing.
	w.openCircuit("18")
	require.Equal(t, http.StatusSeeOther, b.post(resetPath, form).StatusCode)
	require.Equal(t, breaker.Open, w.snapshot(atlasCharge).State)
	require.Len(t, w.audits("circuit.reset"), 1)
}

func TestADoubleClickedResetIsOneReset(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	form, statuses := resetWith("17", "fixed"), make([]int, 8)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() {
			twin := &browser{w: w, cookies: map[string]string{}, header: http.Header{}}
			for name, value := range b.cookies {
				twin.cookies[name] = value
			}
			statuses[i] = twin.post(resetPath, form).StatusCode
		})
	}
	wg.Wait()
	for _, status := range statuses {
		require.Equal(t, http.StatusSeeOther, status)
	}
	require.Len(t, w.audits("circuit.reset"), 1)
}

func TestResetConflictNamesWhoWasFirst(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	require.Equal(t, http.StatusSeeOther, first.post(resetPath, resetWith("17", "fixed")).StatusCode)

	for _, send := range []func(string, url.Values) reply{second.post, second.postHTMX} {
		res := send(resetPath, resetWith("17", "mine too"))
		require.Equal(t, http.StatusConflict, res.StatusCode)
		require.Contains(t, res.body, "Olena reset this circuit at 15:02:11. Nothing was changed.")
	}
	require.Len(t, w.audits("circuit.reset"), 1)
}

func TestResetConflictTellsWhatTheCircuitDidByItself(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("18")
	res := w.signedIn(store.RoleOperator).postHTMX(resetPath, resetWith("17", "fixed"))
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "The circuit changed since you looked at it: it is now open since 15:01:11. Nothing was changed.")
	require.Contains(t, res.body, `name="epoch" value="18"`, "the next try is about what is shown now")
	require.Contains(t, res.body, ">fixed</textarea>", "what was typed stays")
	require.False(t, strings.Contains(res.body, "<html"), "a dialog gets the form alone")
	require.Equal(t, breaker.Open, w.snapshot(atlasCharge).State)
	require.Empty(t, w.audits("circuit.reset"))
}

func TestResetWithoutSharedStateIsRefused(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	w.circuits.degraded = w.clock.now()
	res := w.signedIn(store.RoleOperator).post(resetPath, resetWith("17", "fixed"))
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Contains(t, res.body, "a reset would only count in one process")
	require.Empty(t, w.audits("circuit.reset"))
}

func TestResetNeedsAReason(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	for _, reason := range []string{"", " \n ", strings.Repeat("я", maxReason+1)} {
		form := resetWith("17", reason)
		res := b.post(resetPath, form)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
		require.Contains(t, res.body, `aria-invalid="true"`)
		require.Contains(t, res.body, form.Get("action_id"), "the same intent keeps its id")
	}
	require.Equal(t, breaker.Open, w.snapshot(atlasCharge).State)
	form := resetWith("17", "fixed")
	form.Set("action_id", "no-uuid")
	require.Equal(t, http.StatusBadRequest, b.post(resetPath, form).StatusCode)
}

func TestResetOfAClosedCircuitOffersNothing(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	body := w.signedIn(store.RoleOperator).get(resetPath).body
	require.Contains(t, body, "The circuit is closed already.")
	require.NotContains(t, body, `type="submit" class="btn btn-danger"`)
}

func TestResetOwesEverybodyTheSame(t *testing.T) {
	t.Parallel()
	for _, p := range []page{
		{method: "GET", path: resetPath, role: store.RoleOperator, absent: "/providers/nobody/charge/reset"},
		{method: "POST", path: resetPath, form: resetWith("17", "x"), role: store.RoleOperator, absent: "/providers/atlas/refund/reset"},
	} {
		w := newWebtest(t)
		w.openCircuit("17")
		w.exercise(p)
	}
}

func TestResumeLiftsThePauseOnAPersonsWord(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	const path = "/providers/atlas/resume"
	w.db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('atlas', true, 'unauthorized', $1)`,
		w.clock.now().Add(-time.Hour))
	w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Pending })
	b := w.signedIn(store.RoleOperator)
	body := b.get(path).body
	require.Contains(t, body, "1 queued payment will be sent to atlas. Together 49.00\u00a0EUR.")
	require.Contains(t, body, "our credentials were refused (401)")
	require.Contains(t, b.get("/providers").body, `href="/providers/atlas/resume"`)

	require.Equal(t, http.StatusUnprocessableEntity, b.post(path, url.Values{"reason": {" "}}).StatusCode)
	res := b.post(path, url.Values{"reason": {"new key"}})
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Len(t, w.audits("provider.resume"), 1)
	require.Equal(t, 1, w.jobs.count("charge"))
	require.Equal(t, http.StatusSeeOther, b.post(path, url.Values{"reason": {"again"}}).StatusCode)
	require.Len(t, w.audits("provider.resume"), 1, "twice is once")
	require.Contains(t, b.get(path).body, "Charges are running already.")
}

func TestResumeOwesEverybodyTheSame(t *testing.T) {
	t.Parallel()
	for _, p := range []page{
		{method: "GET", path: "/providers/atlas/resume", role: store.RoleOperator, absent: "/providers/nobody/resume"},
		{method: "POST", path: "/providers/atlas/resume", form: url.Values{"reason": {"x"}}, role: store.RoleOperator, absent: "/providers/nobody/resume"},
	} {
		newWebtest(t).exercise(p)
	}
}
