package web

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/views"
)

// openSince opens atlas' charge circuit, as Redis and the books tell it.
func (w *webtest) openSince(ago time.Duration, change func(*breaker.Snapshot)) {
	w.t.Helper()
	w.transition("1", "closed", "open", breaker.ReasonConsecutive, ago, map[string]any{"failures": 5})
	s := breaker.Snapshot{Key: atlasCharge, State: breaker.Open, Epoch: "1", Since: w.clock.now().Add(-ago),
		OpenUntil: w.clock.now().Add(150 * time.Second), OpenReason: breaker.ReasonConsecutive, Settings: breaker.Recommended(5 * time.Second).WithDefaults()}
	if change != nil {
		change(&s)
	}
	w.circuits.set(s)
}

// settledByLookup stores payments that were unknown and that a lookup settled.
func (w *webtest) settledByLookup(n int, ago time.Duration) {
	w.t.Helper()
	for range n {
		p := w.db.SeedPayment(w.t, func(p *store.Payment) { p.Status = store.Succeeded })
		w.db.Exec(w.t, `UPDATE payments SET settled_at = $2, status_evidence = 'lookup', unknown_seen = true WHERE id = $1`, p.ID, w.clock.now().Add(-ago))
	}
}

func TestProvidersShowThatLookupsSettleWhileChargesAreBlocked(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.settledByLookup(2, time.Hour)
	w.openSince(10*time.Minute, nil)
	b := w.signedIn(store.RoleSupport)
	require.Contains(t, b.get("/providers").body, "Charges are blocked since 14:52:11; lookups go on and settle unknown payments.")

	w.settledByLookup(12, time.Minute)
	w.clock.advance(10 * time.Second) // past the shared reading
	require.Contains(t, b.get("/providers").body, "Charges are blocked; 12 unknown payments settled by lookups since 14:52:11.")

	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "status"}, State: breaker.Open, Epoch: "2", Since: w.clock.now()})
	w.clock.advance(10 * time.Second)
	require.Contains(t, b.get("/providers").body, "and lookups too: until those go through again, only webhooks settle unknown payments.")

	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Closed, Epoch: "3", Since: w.clock.now()})
	w.clock.advance(10 * time.Second)
	require.NotContains(t, b.get("/providers").body, "Charges are blocked")
}

func TestBlockedSinceTheFirstOpeningNotTheLastFailedProbe(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := &reading{circuits: map[string]breaker.Snapshot{"atlas/charge": {State: breaker.Open, Since: now}}}
	ev := func(from, to string, ago time.Duration) store.BreakerEvent {
		return store.BreakerEvent{Provider: "atlas", Class: "charge", From: from, To: to, At: now.Add(-ago)}
	}
	r.history = []store.BreakerEvent{ev("half_open", "open", 0), {Provider: "birch", Class: "charge", From: "half_open", To: "closed", At: now},
		ev("open", "half_open", time.Minute), ev("open", "open", 2*time.Minute), ev("closed", "open", 5*time.Minute),
		ev("half_open", "closed", 9*time.Minute), ev("closed", "open", 20*time.Minute)}
	since, blocked := blockedSince(r, atlasCharge)
	require.True(t, blocked)
	require.Equal(t, now.Add(-5*time.Minute), since)
	_, blocked = blockedSince(r, breaker.Key{Name: "birch", Class: "charge"})
	require.False(t, blocked, "unreadable is not blocked")
	for _, mode := range []breaker.Mode{breaker.ForcedClosed, breaker.MetricsOnly} {
		r.circuits["atlas/charge"] = breaker.Snapshot{State: breaker.Open, Mode: mode, Since: now}
		_, blocked = blockedSince(r, atlasCharge)
		require.False(t, blocked, "an override admits every call")
	}
}

func TestProvidersShowTheGlobalBulkheadAndTheWindow(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openSince(time.Minute, func(s *breaker.Snapshot) {
		s.Settings.MaxInFlight, s.InFlight = 40, 17
		s.Window = breaker.Counts{OK: 3, Fail: 12, Neutral: 4, Slow: 2}
	})
	body := w.signedIn(store.RoleSupport).get("/providers").body
	require.Contains(t, body, "17 of 40")
	require.Contains(t, body, "0 of 8", "and the workers of each process")
	require.Contains(t, body, "Failed, 1\u00a0min")
	require.Contains(t, body, "12 of 15, 2 slow")
	require.Contains(t, body, "no limit", "of the lookups")
	require.Contains(t, body, `href="/providers/atlas/charge/tuning"`)
}

func TestProvidersNameWhoDidWhatLast(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleOperator)
	after, err := json.Marshal(map[string]any{"override": "forced_open", "override_until": w.clock.now().Add(time.Hour).UTC().Format(time.RFC3339)})
	require.NoError(t, err)
	w.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target, after, reason) VALUES ($1, $2, 'circuit.forced_open', 'circuit:atlas/charge', $3, 'bank <maintenance>')`,
		w.clock.now().Add(-5*time.Minute), "user:"+b.user.ID.String(), after)
	body := b.get("/providers").body
	require.Contains(t, body, "forced open until 16:02:11, Olena")
	require.Contains(t, body, "<q>bank &lt;maintenance&gt;</q>")
}

func TestAStripOfTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	r := &reading{at: now, circuits: map[string]breaker.Snapshot{"atlas/charge": {State: breaker.Open, Since: ago(time.Hour)}}}
	ev := func(from, to string, d time.Duration) store.BreakerEvent {
		return store.BreakerEvent{Provider: "atlas", Class: "charge", From: from, To: to, At: ago(d)}
	}
	p := circuitPast{whole: true, changes: []store.BreakerEvent{ev("open", "half_open", 20*time.Hour), ev("half_open", "closed", 19*time.Hour),
		{Provider: "birch", Class: "charge", From: "closed", To: "open", At: ago(2 * time.Hour)}, ev("closed", "open", time.Hour)}}
	v := p.strip(r, atlasCharge)
	require.Equal(t, []views.StripPiece{{State: "open", At: ago(24 * time.Hour), Until: ago(20 * time.Hour)},
		{State: "half_open", At: ago(20 * time.Hour), Until: ago(19 * time.Hour)}, {State: "open", At: ago(time.Hour), Until: now}}, v.Pieces)
	require.Equal(t, 2, v.Times, "one began before the day; a probe is part of its opening")
	require.True(t, v.Unknown.IsZero())

	fresh := circuitPast{whole: true}.strip(r, atlasCharge)
	require.Equal(t, []views.StripPiece{{State: "open", At: ago(time.Hour), Until: now}}, fresh.Pieces, "its event is not stored yet")
	require.Empty(t, p.strip(r, breaker.Key{Name: "nobody", Class: "charge"}).Pieces)
	p.whole = false
	require.Equal(t, ago(20*time.Hour), p.strip(r, atlasCharge).Unknown)
}

func TestProvidersDrawADayOfTheCircuit(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.transition("0", "closed", "open", breaker.ReasonConsecutive, 6*time.Hour, nil)
	w.transition("01", "half_open", "closed", breaker.ReasonProbesSucceeded, 5*time.Hour, nil)
	w.openSince(30*time.Minute, nil)
	body := w.signedIn(store.RoleSupport).get("/providers").body
	require.Contains(t, body, `aria-label="Last 24 h: open 2 times, calls blocked for 1`+"\u00a0h 30\u00a0min"+`"`)
	require.Contains(t, body, `class="strip-open" x="75%"`)
	require.Contains(t, body, "Last 24 h: never open", "the lookups")
	require.NotContains(t, body, "style=")
}

func TestQueuesSayUntilWhenTheCircuitIsOpenAndWhatFollows(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	next := w.clock.now().Add(3 * time.Minute)
	for range 80 {
		w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NextCheckAt, p.NextCheckWhy = store.Pending, &next, "circuit_open" })
	}
	w.db.Exec(t, `INSERT INTO river_job (state, max_attempts, kind, queue, args, scheduled_at) VALUES
		('scheduled', 5, 'charge', 'charge_atlas', '{}', $1), ('scheduled', 5, 'reconcile', 'status_atlas', '{}', $1)`, next)
	w.openSince(time.Minute, func(s *breaker.Snapshot) {
		s.Settings.RampFor, s.Settings.RampStart, s.Settings.RampFull = 200*time.Second, 0.5, 0.5
	})
	b := w.signedIn(store.RoleSupport)
	body := b.get("/queues").body
	require.Contains(t, body, "circuit open until 15:04:41", "on the queue")
	require.Contains(t, body, "waiting: circuit open until 15:04:41", "on what waits")
	require.Contains(t, body, "about 2\u00a0min after it closes", "80 payments at one in two seconds")
	require.Contains(t, b.get("/payments").body, "circuit open until 15:05:11", "on the payments: their own moment")

	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Closed, Epoch: "2", Since: w.clock.now().Add(9 * time.Second),
		Settings: breaker.Settings{RampFor: 200 * time.Second, RampStart: 0.5, RampFull: 0.5}})
	w.clock.advance(10 * time.Second)
	body = b.get("/queues").body
	require.Contains(t, body, "about 2\u00a0min, slow start after closing")
	require.NotContains(t, body, "circuit open until")

	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.HalfOpen, Epoch: "3", Since: w.clock.now()})
	w.clock.advance(10 * time.Second)
	require.Contains(t, b.get("/queues").body, "circuit probing")
	w.circuits.set(breaker.Snapshot{Key: atlasCharge, State: breaker.Open, Epoch: "3", Since: w.clock.now(), OpenUntil: w.clock.now()})
	w.clock.advance(10 * time.Second)
	require.Contains(t, b.get("/queues").body, "circuit open, probe due")
}

func TestPastIsReadOncePerReadingNotPerViewer(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.openSince(time.Minute, nil)
	b := w.signedIn(store.RoleSupport)
	b.get("/providers")
	before := w.server.a.now.last
	for range 3 {
		w.signedIn(store.RoleSupport).get("/providers")
	}
	require.Same(t, before, w.server.a.now.last)
}
