package web

import (
	"context"
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
	"fusebox/store/storetest"
	"fusebox/web/circuits"
)

// move is what both kinds of an operator's change have in common.
func (f *fakeBreaker) move(k breaker.Key, epoch string, change func(*breaker.Snapshot) error) (breaker.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.circuits[k]
	if !ok {
		s = breaker.Snapshot{Key: k, State: breaker.Closed, Epoch: "1"}
	}
	if !f.degraded.IsZero() {
		return s, breaker.ErrUnavailable
	}
	if s.Epoch != epoch {
		return s, breaker.ErrEpoch
	}
	if err := change(&s); err != nil {
		return s, err
	}
	s.Epoch += "1"
	f.circuits[k] = s
	return s, nil
}

// Override implements breaker.Operator.
func (f *fakeBreaker) Override(_ context.Context, k breaker.Key, epoch string, o breaker.Override) (breaker.Snapshot, error) {
	return f.move(k, epoch, func(s *breaker.Snapshot) error {
		s.Mode, s.ModeUntil = o.Mode, time.Time{}
		if o.For > 0 {
			s.ModeUntil = storetest.Epoch.Add(time.Hour).Add(o.For) // where a test's clock starts
		}
		switch o.Mode {
		case breaker.ForcedOpen:
			s.State, s.OpenUntil = breaker.Open, s.ModeUntil
		case breaker.ForcedClosed:
			s.State, s.OpenUntil = breaker.Closed, time.Time{}
		}
		return nil
	})
}

// ProbeOnce implements breaker.Operator.
func (f *fakeBreaker) ProbeOnce(_ context.Context, k breaker.Key, epoch, _, _ string) (breaker.Snapshot, error) {
	return f.move(k, epoch, func(s *breaker.Snapshot) error {
		if s.State != breaker.Open || s.Mode != "" {
			return breaker.ErrNotOpen
		}
		s.State, s.OpenUntil = breaker.HalfOpen, time.Time{}
		return nil
	})
}

func circuitPath(a circuits.Action) string { return "/providers/atlas/charge/" + a.Verb() }

// circuitAct opens the action's page and fills it in.
func circuitAct(t *testing.T, b *browser, a circuits.Action) url.Values {
	t.Helper()
	res := b.get(circuitPath(a))
	require.Equal(t, http.StatusOK, res.StatusCode)
	form := formOf(t, res.body)
	form.Set("reason", "their status page says so")
	form.Set("typed", "atlas")
	form.Set("for", "4h")
	return form
}

func (w *webtest) snapshot(k breaker.Key) breaker.Snapshot {
	w.t.Helper()
	s, err := w.circuits.Snapshot(w.t.Context(), k)
	require.NoError(w.t, err)
	return s
}

// queue makes payments that wait for atlas' circuit.
func (w *webtest) queue(n int) {
	due := w.clock.now().Add(time.Hour)
	for range n {
		w.db.SeedPayment(w.t, func(p *store.Payment) { p.Status, p.NextCheckAt, p.NextCheckWhy = store.Pending, &due, "circuit_open" })
	}
}

func TestEachCircuitActionIsDoneOnceAndAudited(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action circuits.Action
		state  breaker.State
		mode   breaker.Mode
		woken  int
		flash  string
	}{
		{circuits.ProbeOnce, breaker.HalfOpen, "", 1, "atlas (Charges) may be probed now."},
		{circuits.Reset, breaker.Closed, "", 3, "The circuit of atlas (Charges) is closed."},
		{circuits.ForcedOpen, breaker.Open, breaker.ForcedOpen, 0, "The circuit of atlas (Charges) is forced open. It ends by itself at 19:02:11."},
		{circuits.ForcedClosed, breaker.Closed, breaker.ForcedClosed, 3, "The circuit of atlas (Charges) is forced closed. It ends by itself at 19:02:11."},
		{circuits.MetricsOnly, breaker.Open, breaker.MetricsOnly, 3, "The circuit of atlas (Charges) only measures. It ends by itself at 19:02:11."},
	} {
		t.Run(string(tc.action), func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			w.openCircuit("17")
			w.queue(3)
			b := w.signedIn(store.RoleOperator)
			form := circuitAct(t, b, tc.action)
			for range 2 { // the second is Back and submit again
				res := b.post(circuitPath(tc.action), form)
				require.Equal(t, http.StatusSeeOther, res.StatusCode, res.body)
				require.Equal(t, "/providers", res.Header.Get("Location"))
			}
			s := w.snapshot(atlasCharge)
			require.Equal(t, tc.state, s.State)
			require.Equal(t, tc.mode, s.Mode)
			require.NotEqual(t, "17", s.Epoch)
			require.Equal(t, tc.woken, w.number(`SELECT count(*) FROM payments WHERE next_check_why <> 'circuit_open'`))
			require.Equal(t, tc.woken, w.jobs.count("charge"))
			require.Contains(t, b.get("/providers").body, tc.flash)

			list := w.audits(tc.action.AuditAction())
			require.Len(t, list, 1)
			require.Equal(t, "user:"+b.user.ID.String(), list[0].Actor)
			require.Equal(t, "their status page says so", list[0].Reason)
			require.Equal(t, "open", list[0].Before["state"])
			require.Equal(t, s.Epoch, list[0].After["epoch"])
			if tc.action.Override() {
				require.Equal(t, "4h0m0s", list[0].After["for"])
				require.Equal(t, string(tc.mode), list[0].After["override"])
			}
		})
	}
}

func TestADoubleClickedCircuitActionIsOne(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	form, statuses := circuitAct(t, b, circuits.ForcedOpen), make([]int, 6)
	var wg sync.WaitGroup
	for i := range statuses {
		twin := &browser{w: w, cookies: map[string]string{}, header: http.Header{}}
		for name, value := range b.cookies {
			twin.cookies[name] = value
		}
		wg.Go(func() { statuses[i] = twin.post(circuitPath(circuits.ForcedOpen), form).StatusCode })
	}
	wg.Wait()
	for _, status := range statuses {
		require.Equal(t, http.StatusSeeOther, status)
	}
	require.Len(t, w.audits("circuit.forced_open"), 1)
}

func TestASecondOperatorLearnsWhoWasFirst(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first circuits.Action
		words string
	}{
		{circuits.ProbeOnce, "Olena let this circuit probe at 15:02:11. Nothing was changed."},
		{circuits.Reset, "Olena reset this circuit at 15:02:11. Nothing was changed."},
		{circuits.ForcedOpen, "Olena forced this circuit open at 15:02:11. Nothing was changed."},
		{circuits.ForcedClosed, "Olena forced this circuit closed at 15:02:11. Nothing was changed."},
		{circuits.MetricsOnly, "Olena set this circuit to measure only at 15:02:11. Nothing was changed."},
	} {
		t.Run(string(tc.first), func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			w.openCircuit("17")
			first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
			late := circuitAct(t, second, circuits.ForcedOpen)
			require.Equal(t, http.StatusSeeOther, first.post(circuitPath(tc.first), circuitAct(t, first, tc.first)).StatusCode)
			epoch := w.snapshot(atlasCharge).Epoch
			for _, send := range []func(string, url.Values) reply{second.post, second.postHTMX} {
				res := send(circuitPath(circuits.ForcedOpen), late)
				require.Equal(t, http.StatusConflict, res.StatusCode)
				require.Contains(t, res.body, tc.words)
				require.Contains(t, res.body, `name="epoch" value="`+epoch+`"`, "the next try is about what is shown now")
				require.Contains(t, res.body, ">their status page says so</textarea>", "what was typed stays")
				require.NotContains(t, res.body, late.Get("action_id"), "the next try is another intent")
			}
			require.Equal(t, epoch, w.snapshot(atlasCharge).Epoch)
		})
	}
}

func TestAFormSentAgainWithOtherContentChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	form := circuitAct(t, b, circuits.ForcedOpen)
	require.Equal(t, http.StatusSeeOther, b.post(circuitPath(circuits.ForcedOpen), form).StatusCode)
	form.Set("for", "24h")
	res := b.post(circuitPath(circuits.ForcedOpen), form)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "This form was sent before with other content.")
	require.Len(t, w.audits("circuit.forced_open"), 1)
}

func TestCircuitFormsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	for _, tc := range []struct {
		action       circuits.Action
		field, value string
		says         string
	}{
		{circuits.ProbeOnce, "reason", " ", "Write a reason"},
		{circuits.Reset, "typed", "Atlas", "This is not atlas."},
		{circuits.ForcedClosed, "typed", "", "This is not atlas."},
		{circuits.ForcedOpen, "for", "", "How long: Choose how long it lasts."},
		{circuits.ForcedOpen, "for", "reset", "Choose how long it lasts."},
		{circuits.ForcedOpen, "for", "999h", "Choose how long it lasts."},
		{circuits.MetricsOnly, "minutes", "0", "Whole minutes, 1 to 10,080."},
		{circuits.ForcedOpen, "minutes", "10081", "Whole minutes, 1 to 10,080."},
		{circuits.ForcedOpen, "minutes", "-5", "Whole minutes, 1 to 10,080."},
		{circuits.ForcedOpen, "minutes", "1.5", "Whole minutes, 1 to 10,080."},
		{circuits.ForcedOpen, "minutes", "99999999999999999999", "Whole minutes, 1 to 10,080."},
	} {
		form := circuitAct(t, b, tc.action)
		form.Set(tc.field, tc.value)
		for _, send := range []func(string, url.Values) reply{b.post, b.postHTMX} {
			res := send(circuitPath(tc.action), form)
			require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "%s %s=%q", tc.action, tc.field, tc.value)
			require.Contains(t, res.body, tc.says)
			require.Contains(t, res.body, `href="#`+tc.field+`"`)
			require.Contains(t, res.body, `aria-invalid="true"`)
			require.Contains(t, res.body, form.Get("action_id"), "the same intent keeps its id")
		}
	}
	require.Equal(t, "17", w.snapshot(atlasCharge).Epoch)
	require.Zero(t, w.number(`SELECT count(*) FROM console_actions`))
}

func TestTypedMinutesCountInsteadOfTheChoice(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	b := w.signedIn(store.RoleOperator)
	form := circuitAct(t, b, circuits.ForcedOpen)
	form.Set("minutes", " 90 ")
	require.Equal(t, http.StatusSeeOther, b.post(circuitPath(circuits.ForcedOpen), form).StatusCode)
	require.Equal(t, "1h30m0s", w.audits("circuit.forced_open")[0].After["for"])

	form = circuitAct(t, b, circuits.MetricsOnly)
	form.Set("for", "reset")
	require.Equal(t, http.StatusSeeOther, b.post(circuitPath(circuits.MetricsOnly), form).StatusCode)
	require.Nil(t, w.audits("circuit.metrics_only")[0].After["for"])
	require.True(t, w.snapshot(atlasCharge).ModeUntil.IsZero(), "until somebody resets it")
}

func TestCircuitPagesStateTheConsequencesInNumbers(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openCircuit("17")
	s := w.snapshot(atlasCharge)
	s.Settings.OpenFor, s.InFlight = 30*time.Second, 2
	w.circuits.set(s)
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "status"}, State: breaker.Open, Epoch: "3"})
	w.queue(41)
	w.unknownSince(time.Minute)
	b := w.signedIn(store.RoleOperator)
	for path, texts := range map[string][]string{
		"charge/probe": {"1 queued payment is sent to atlas as a probe.", "40 others wait on.",
			"If it fails, the circuit opens again for 30\u00a0s or longer.", "what is sent may become unknown"},
		"charge/open": {"41 queued payments wait until the end chosen below: 16:02:11 as it stands. Together 2,009.00\u00a0EUR.",
			"15\u00a0min, until 15:17:11", "24\u00a0h, until", "Status lookups go on: 1 unknown payment can still settle.",
			"2 calls under way are not cut off.", `<option value="1h" selected>`},
		"charge/close": {"41 queued payments will be sent to atlas. Together 2,009.00\u00a0EUR.", "1 is unknown already.",
			"The circuit does not open, however often atlas fails", "Type atlas to confirm", "until somebody resets it"},
		"charge/metrics": {"41 queued payments will be sent to atlas.", "0 calls to atlas are refused."},
		"charge/reset":   {"Type atlas to confirm"},
		"status/probe":   {"1 status lookup is made to atlas. No money moves."},
		"status/open":    {"Status lookups stop: 1 unknown payment is not asked about until 16:02:11."},
		"status/close":   {"Status lookups to atlas start again. No money moves."},
	} {
		for _, get := range []func(string) reply{b.get, b.htmx} {
			body := get("/providers/atlas/" + path).body
			for _, text := range texts {
				require.Contains(t, body, text, path)
			}
		}
	}
	require.NotContains(t, b.get("/providers/atlas/charge/open").body, `<option value="reset"`, "never forced open without an end")
}

func TestCircuitPagesOfferNothingThatMakesNoSense(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleOperator)
	in := func(state breaker.State, mode breaker.Mode) {
		w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: state, Mode: mode, Epoch: "5"})
	}
	for _, tc := range []struct {
		state  breaker.State
		mode   breaker.Mode
		action circuits.Action
		says   string
	}{
		{breaker.Closed, "", circuits.ProbeOnce, "The circuit is not open. There is nothing to probe."},
		{breaker.Open, breaker.ForcedOpen, circuits.ProbeOnce, "a probe would be refused"},
		{breaker.Closed, "", circuits.Reset, "The circuit is closed already."},
		{breaker.Closed, breaker.ForcedClosed, circuits.ForcedClosed, "The circuit is forced closed already."},
		{breaker.Open, breaker.MetricsOnly, circuits.MetricsOnly, "The circuit only measures already."},
	} {
		in(tc.state, tc.mode)
		body := b.get(circuitPath(tc.action)).body
		require.Contains(t, body, tc.says)
		require.NotContains(t, body, `<textarea`)
	}
	in(breaker.Open, breaker.ForcedOpen)
	form := circuitAct(t, b, circuits.Reset)
	form.Set("epoch", "5")
	res := b.post(circuitPath(circuits.ProbeOnce), form)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "The circuit is open now: there is nothing to probe. Nothing was changed.")
	require.Equal(t, http.StatusSeeOther, b.post(circuitPath(circuits.Reset), form).StatusCode, "the refused form's id is free")
}

func TestCircuitActionsWithoutRedisAreRefused(t *testing.T) {
	t.Parallel()
	for _, a := range circuits.Actions {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			w.openCircuit("17")
			b := w.signedIn(store.RoleOperator)
			form := circuitAct(t, b, a)
			w.circuits.degraded = w.clock.now()
			for _, send := range []func(string, url.Values) reply{b.post, b.postHTMX} {
				res := send(circuitPath(a), form)
				require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
				require.Contains(t, res.body, "would only count in one process")
			}
			require.Empty(t, w.audits(a.AuditAction()))
			s := w.snapshot(atlasCharge)
			s.Degraded = true
			w.circuits.set(s)
			require.NotContains(t, b.get(circuitPath(a)).body, "<textarea")
		})
	}
}

func TestCircuitPagesOweEverybodyTheSame(t *testing.T) {
	t.Parallel()
	for _, a := range circuits.Actions {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(method+" "+string(a), func(t *testing.T) {
				t.Parallel()
				w := newWebtest(t)
				w.openCircuit("17")
				p := page{method: method, path: circuitPath(a), role: store.RoleOperator, absent: "/providers/nobody/charge/" + a.Verb()}
				if method == http.MethodPost {
					p.form = url.Values{"action_id": {uuid.NewString()}, "epoch": {"17"}, "reason": {"x"}, "typed": {"atlas"}, "for": {"1h"}}
					p.absent = "/providers/atlas/refund/" + a.Verb()
				}
				w.exercise(p)
			})
		}
	}
}

// TestTheCardOffersWhatMakesSense: the buttons and the operations agree, and the probe
// comes before the reset.
func TestTheCardOffersWhatMakesSense(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	operator, support := w.signedIn(store.RoleOperator), w.signedIn(store.RoleSupport)
	for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen} {
		for _, mode := range []breaker.Mode{"", breaker.ForcedOpen, breaker.ForcedClosed, breaker.MetricsOnly} {
			s := breaker.Snapshot{Key: atlasCharge, State: state, Mode: mode, Epoch: "5", Since: w.clock.now()}
			w.circuits.set(s)
			w.server.circuitsMoved()
			body := operator.get("/providers").body
			for _, a := range circuits.Actions {
				link := `href="` + circuitPath(a) + `"`
				require.Equal(t, a.Offered(s), strings.Contains(body, link), "%s when %s %s", a, state, mode)
				require.NotContains(t, support.get("/providers").body, link)
			}
			if probe := strings.Index(body, circuitPath(circuits.ProbeOnce)); probe >= 0 {
				require.Less(t, probe, strings.Index(body, circuitPath(circuits.Reset)))
			}
			require.Contains(t, support.get("/providers").body, "Only Operator may do this")
		}
	}
	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Open, Epoch: "5", Degraded: true})
	w.server.circuitsMoved()
	body := operator.get("/providers").body
	require.Contains(t, body, "Circuits cannot be changed now")
	require.NotContains(t, body, circuitPath(circuits.Reset))
}
