package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/provider/simulator"
	opcircuits "fusebox/web/circuits"
)

// TestRedisSentinelFailover kills the primary Redis while payments run, and its sentinels
// promote the replica. Payments go on all the time; circuits that were open, by failures
// and by hand, admit nothing before, during and after it, and can be operated again.
func TestRedisSentinelFailover(t *testing.T) {
	t.Parallel()
	group := breakertest.StartSentinel(t)
	w := newWorld(t, place{redis: group.Nodes[0]}, "steady", "outage", "held")
	w.env = append(w.env, "REDIS_URL="+group.URL(), "FUSEBOX_CIRCUIT_OPEN_FOR=1h", "FUSEBOX_LOG_LEVEL=warn")
	w.serve()
	w.work("FUSEBOX_WORKER=one")
	w.work("FUSEBOX_WORKER=two")
	live := w.reader().watch()
	till := w.buy("steady", 4)
	till.await(10, "payments before")

	w.operate("open", "held", "--for", "2h")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageCharges; return f })
	var waiting []uuid.UUID
	for i := range 20 {
		waiting = append(waiting, w.pay("outage", fmt.Sprintf("before the failover, outage %d", i)).ID, w.pay("held", fmt.Sprintf("before the failover, held %d", i)).ID)
	}
	w.eventually(time.Minute, "failures opened the circuit", func() bool { return w.circuit("outage").State == breaker.Open })
	w.eventually(time.Minute, "nothing is under way", func() bool {
		return w.scalar(`SELECT count(*) FROM attempts a JOIN payments p ON p.id = a.payment_id WHERE a.outcome IS NULL AND p.provider = 'outage'`) == 0
	})
	before := map[string]opcircuits.View{"outage": w.circuit("outage"), "held": w.circuit("held")}
	require.Equal(t, breaker.ForcedOpen, before["held"].Override.Mode)
	sent := func() int {
		return w.scalar(`SELECT count(*) FROM attempts a JOIN payments p ON p.id = a.payment_id WHERE p.provider <> 'steady'`)
	}
	tried := sent()

	lost := group.Primary()
	began, accepted := time.Now(), till.accepted()
	group.Nodes[lost].Stop()
	for i := range 5 {
		waiting = append(waiting, w.pay("outage", fmt.Sprintf("during the failover, outage %d", i)).ID, w.pay("held", fmt.Sprintf("during the failover, held %d", i)).ID)
	}
	till.await(accepted+20, "payments without a Redis")
	w.eventually(time.Minute, "the replica was promoted", func() bool { return group.Primary() != lost })
	w.eventually(time.Minute, "the circuits are shared again", func() bool { return !w.ready("degraded") })
	t.Logf("circuits shared again after %s", time.Since(began).Round(100*time.Millisecond))
	till.await(till.accepted()+20, "payments after")
	group.Nodes[lost].Restart() // empty; the sentinels make it a replica
	group.AwaitFollower(lost)
	require.NotEqual(t, lost, group.Primary())
	for name, was := range before {
		is := w.circuit(name)
		require.False(t, is.Degraded)
		require.Equal(t, []any{was.State, was.Override, was.Epoch}, []any{is.State, is.Override, is.Epoch}, name)
	}
	require.Equal(t, tried, sent(), "nothing was sent past an open circuit")

	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageNone; return f })
	seen := live.events.Load()
	w.operate("reset", "outage")
	w.operate("reset", "held")
	w.eventually(time.Minute, "live updates", func() bool { return live.events.Load() > seen })
	require.Zero(t, till.refused.Load(), "Redis is only a guard: no request failed")
	w.settlesAll(append(waiting, till.stop()...))
	t.Logf("settled after %s", time.Since(began).Round(100*time.Millisecond))
}

// operate moves a circuit by hand with the real command.
func (w *world) operate(action, name string, flags ...string) {
	w.t.Helper()
	p := w.start(nil, append([]string{"breaker", action, "--provider", name, "--reason", "test"}, flags...)...)
	require.NoError(w.t, p.exited(time.Minute), p.log.String())
}

// circuit is a provider's circuit of charges as a new process sees it.
func (w *world) circuit(name string) opcircuits.View {
	w.t.Helper()
	p := w.start(nil, "breaker", "list", "--json")
	require.NoError(w.t, p.exited(time.Minute), p.log.String())
	var list struct{ Data []opcircuits.View }
	out := p.log.String()
	require.NoError(w.t, json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &list), out)
	for _, v := range list.Data {
		if v.Provider == name && v.Class == classCharge {
			return v
		}
	}
	w.t.Fatalf("no circuit of %s: %s", name, out)
	return opcircuits.View{}
}
