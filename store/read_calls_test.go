package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func (w *world) recordCalls(n int, class string) {
	w.t.Helper()
	for i := range n {
		require.NoError(w.t, w.RecordCall(ctx, nil, store.CallOutcome{At: w.Now().Add(time.Duration(i) * time.Second), Provider: "atlas",
			Class: class, Verdict: "fail", Outcome: "unknown", ErrorClass: fmt.Sprint("e", i), Latency: 1500 * time.Microsecond, Worker: "w1"}))
	}
}

func TestEachCallStreamsTheLatestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recordCalls(10, "charge")
	w.recordCalls(1, "status")
	read := func(r store.CallRange) (classes []string, truncated bool) {
		r.Provider, r.Class = "atlas", "charge"
		truncated, err := w.EachCall(ctx, r, func(c store.RecordedCall) error {
			require.Equal(t, 1500*time.Microsecond, c.Latency)
			require.Equal(t, "w1", c.Worker)
			classes = append(classes, c.ErrorClass)
			return nil
		})
		require.NoError(t, err)
		return classes, truncated
	}
	whole := store.CallRange{From: w.Now(), To: w.Now().Add(time.Hour)}
	got, truncated := read(whole)
	require.Len(t, got, 10)
	require.Equal(t, "e9", got[0])
	require.False(t, truncated)

	got, truncated = read(store.CallRange{From: whole.From.Add(2 * time.Second), To: whole.From.Add(5 * time.Second)})
	require.Equal(t, []string{"e4", "e3", "e2"}, got, "from is within, to is not")
	require.False(t, truncated)

	cut := whole
	cut.Max = 3
	got, truncated = read(cut)
	require.Equal(t, []string{"e9", "e8", "e7"}, got)
	require.True(t, truncated, "older ones were left out, and it says so")
	cut.Max = 10
	_, truncated = read(cut)
	require.False(t, truncated, "exactly as many")

	stop := errors.New("enough")
	_, err := w.EachCall(ctx, store.CallRange{Provider: "atlas", Class: "charge", From: whole.From, To: whole.To}, func(store.RecordedCall) error { return stop })
	require.ErrorIs(t, err, stop)
}

func (w *world) swing(epoch int, from, to string, at time.Duration, evidence map[string]any) {
	w.t.Helper()
	_, err := w.RecordBreakerEvent(ctx, store.BreakerEvent{Provider: "atlas", Class: "charge", Epoch: fmt.Sprintf("%016d", epoch), From: from, To: to,
		Reason: "x", Evidence: evidence, At: w.Now().Add(at)})
	require.NoError(w.t, err)
}

func TestCircuitSwingsBeginWithTheOpeningInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.swing(1, "closed", "open", 1*time.Minute, nil)
	w.swing(2, "half_open", "closed", 2*time.Minute, nil)
	w.swing(3, "closed", "open", 3*time.Minute, map[string]any{"failures": 7})
	w.swing(4, "open", "half_open", 4*time.Minute, nil)
	w.swing(5, "half_open", "open", 5*time.Minute, nil)
	w.swing(6, "half_open", "closed", 6*time.Minute, nil)
	w.swing(7, "closed", "open", 7*time.Minute, map[string]any{"local": true})
	w.swing(8, "closed", "closed", 8*time.Minute, nil)
	read := func(from, to time.Duration) (epochs []string) {
		list, err := w.CircuitSwings(ctx, "atlas", "charge", w.Now().Add(from), w.Now().Add(to))
		require.NoError(t, err)
		for _, e := range list {
			epochs = append(epochs, e.Epoch[15:])
		}
		return epochs
	}
	require.Equal(t, []string{"1", "2", "3", "6"}, read(0, time.Hour), "neither half-open steps, nor one process's own, nor overrides that keep the state")
	require.Equal(t, []string{"3", "6"}, read(210*time.Second, time.Hour), "open at the begin")
	require.Equal(t, []string{"3"}, read(150*time.Second, 5*time.Minute), "closed at the begin")
	require.Empty(t, read(20*time.Minute, time.Hour))
	list, whole, err := w.RecentChanges(ctx, w.Now().Add(150*time.Second))
	require.NoError(t, err)
	require.True(t, whole)
	require.Len(t, list, 4, "half-open steps too, but not one process's own")
	require.Equal(t, "open", list[0].To)
}

func TestSettledMeanwhileCountsWhatLookupsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	since := w.Now()
	seed := func(provider string, after time.Duration, evidence store.Evidence, unknown bool) {
		p := w.db.SeedPayment(t, func(p *store.Payment) { p.Provider, p.Status = provider, store.Succeeded })
		w.db.Exec(t, `UPDATE payments SET settled_at = $2, status_evidence = $3, unknown_seen = $4 WHERE id = $1`, p.ID, since.Add(after), evidence, unknown)
	}
	seed("atlas", time.Minute, store.ByLookup, true)
	seed("atlas", 2*time.Minute, store.ByLookup, true)
	seed("atlas", -time.Minute, store.ByLookup, true)
	seed("atlas", time.Minute, store.ByLookup, false)
	seed("atlas", time.Minute, store.ByAnswer, true)
	seed("birch", time.Minute, store.ByLookup, true)
	n, err := w.SettledMeanwhile(ctx, "atlas", since)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestLastCircuitActsNameThePerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	w.db.Exec(t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1, 'o@example.org', 'Olena', 'operator', 'none', $2)`, id, w.Now())
	for i, act := range []struct{ actor, action, target string }{
		{"user:" + id.String(), "circuit.reset", "circuit:atlas/charge"}, {"user:" + id.String(), "circuit.forced_open", "circuit:atlas/charge"},
		{"system:jobs", "payment.status", "circuit:atlas/status"}, {"cli:root", "circuit.probe_once", "circuit:birch/status"},
	} {
		w.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target, before, after, reason) VALUES ($1, $2, $3, $4, '{}', '{"override":"forced_open"}', 'fire')`,
			w.Now().Add(time.Duration(i)*time.Second), act.actor, act.action, act.target)
	}
	list, err := w.LastCircuitActs(ctx, []string{"circuit:atlas/charge", "circuit:atlas/status", "circuit:birch/status"})
	require.NoError(t, err)
	require.Len(t, list, 2, "of a circuit nobody touched there is nothing")
	byTarget := map[string]store.CircuitAct{}
	for _, a := range list {
		byTarget[a.Target] = a
	}
	a := byTarget["circuit:atlas/charge"]
	require.Equal(t, "circuit.forced_open", a.Action)
	require.Equal(t, "Olena", a.Who)
	require.Equal(t, "fire", a.Reason)
	require.Equal(t, "forced_open", a.After["override"])
	require.Equal(t, "root", byTarget["circuit:birch/status"].Who)
}
