package breaker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// held is a permit somebody has, and until when its lease is good.
type held struct {
	p     *redisPermit
	until time.Time // of a probe, by the server's clock
}

// crowdOf are workers on one circuit, each with a clock of its own that is wrong.
type crowdOf struct {
	*rig
	key  Key
	set  Settings
	head string
	open []held
	done []held
	last Snapshot
}

// TestBugsAsProperties asks, after every step of random interleavings of workers whose
// clocks are off by up to hours, what no circuit may ever do. Unlike TestTwins it knows
// no model of the machine, only the promises.
func TestBugsAsProperties(t *testing.T) {
	t.Parallel()
	var run atomic.Int64
	r := newRig(t, "redis", rigOptions{})
	rapid.Check(t, func(t *rapid.T) {
		w := &crowdOf{rig: &rig{t: r.t, kind: r.kind, client: r.client, setTime: r.setTime},
			key: Key{Name: fmt.Sprintf("q%d", run.Add(1)), Class: "charge"},
			set: Settings{Failures: rapid.IntRange(1, 4).Draw(t, "failures"), OpenFor: 5 * time.Second,
				ProbeTTL: 3 * time.Second, HalfOpenFor: time.Hour, Quorum: 1, Probes: rapid.IntRange(1, 2).Draw(t, "probes")}}
		w.now.Store(r.now.Load())
		w.head = r.workers[0].(*Redis).scripts.head
		for range 3 {
			w.join(t)
		}
		w.last = w.look(t, 0)
		t.Repeat(w.steps())
		r.now.Store(w.now.Load()) // the server's clock is shared by all runs
	})
}

// join adds a worker with a clock of its own.
func (w *crowdOf) join(t *rapid.T) int {
	skew := time.Duration(rapid.IntRange(-7200, 7200).Draw(t, "clock off by")) * time.Second
	n := len(w.workers)
	o := rigOptions{of: func(Key) Settings { return w.set }, skew: make([]time.Duration, n+1)}
	o.skew[n] = skew
	w.workers = append(w.workers, w.worker(n, w.head, o))
	return n
}

func (w *crowdOf) look(t *rapid.T, worker int) Snapshot {
	s, err := w.workers[worker].Snapshot(context.Background(), w.key)
	require.NoError(t, err)
	require.False(t, s.Degraded)
	return s
}

func (w *crowdOf) at() time.Time { return time.UnixMicro(w.now.Load()) }

// ask takes a permit; an open circuit whose time is over may become half-open by it, and
// nothing else may change.
func (w *crowdOf) ask(t *rapid.T) {
	p, err := w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(t, "worker")].Permit(context.Background(), w.key)
	s := w.look(t, 0)
	due := w.last.State == Open && !w.at().Before(w.last.OpenUntil)
	switch {
	case due:
		require.Equal(t, HalfOpen, s.State, "never straight to closed")
		require.NoError(t, err)
	case s.State != w.last.State:
		require.Fail(t, "a permit moved the circuit", "%s to %s", w.last.State, s.State)
	}
	if err == nil {
		rp := p.(*redisPermit)
		require.Equal(t, s.State == HalfOpen, rp.probe)
		w.open = append(w.open, held{rp, w.at().Add(w.set.ProbeTTL)})
	} else {
		require.NotEqual(t, Closed, s.State, "closed circuits admit")
	}
	w.last = s
	w.probesBounded(t)
}

// probesBounded: never more live probes than allowed, whoever hangs.
func (w *crowdOf) probesBounded(t *rapid.T) {
	live := 0
	for _, h := range w.open {
		if h.p.probe && h.p.epoch == w.last.Epoch && h.until.After(w.at()) {
			live++
		}
	}
	require.LessOrEqual(t, live, w.set.WithDefaults().Probes)
	require.Equal(t, live, w.last.ProbesHeld, "the leases are those of the probes that are out")
}

// finish reports a permit that is out, or one again that was reported before.
func (w *crowdOf) finish(t *rapid.T, again bool, v Verdict) {
	from := &w.open
	if again {
		from = &w.done
	}
	if len(*from) == 0 {
		t.Skip("nothing to report")
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
	h := (*from)[i]
	if !again {
		w.open = slices.Delete(w.open, i, i+1)
		w.done = append(w.done, h)
	}
	h.p.done.Store(false) // the report of a retry reaches the script too
	h.p.Report(context.Background(), v, 0, "timeout", "pay")
	s := w.look(t, 0)
	// Whatever is fenced, late, doubled or neutral changes nothing. A closed circuit
	// counts what is reported of its own era, and cannot know a report's twin.
	current := h.p.epoch == w.last.Epoch
	holds := h.p.probe && !again && h.until.After(w.at())
	counts := current && v != Neutral && (w.last.State == Closed || holds)
	if !counts {
		require.Equal(t, w.last.State, s.State, "moved by a report that must not count: %s", v)
		require.Equal(t, w.last.Epoch, s.Epoch)
		require.Equal(t, w.last.Consecutive, s.Consecutive)
	} else {
		w.counted(t, s, v)
	}
	require.Equal(t, w.last.Total.OK+w.last.Total.Fail+w.last.Total.Neutral+1, s.Total.OK+s.Total.Fail+s.Total.Neutral, "no count is lost")
	w.last = s
	w.probesBounded(t)
}

// counted: what a report that counts may do.
func (w *crowdOf) counted(t *rapid.T, s Snapshot, v Verdict) {
	switch {
	case w.last.State == Closed && v == Fail && w.last.Consecutive+1 >= w.set.Failures:
		require.Equal(t, Open, s.State)
	case w.last.State == Closed:
		require.Equal(t, Closed, s.State)
		require.Equal(t, map[Verdict]int{OK: 0, Fail: w.last.Consecutive + 1}[v], s.Consecutive)
	case v == OK:
		require.Equal(t, Closed, s.State)
	default:
		require.Equal(t, Open, s.State)
	}
}

// lose deletes the circuit's keys; the next call of somebody who knew it restores them.
func (w *crowdOf) lose(t *rapid.T) {
	worker := rapid.IntRange(0, len(w.workers)-1).Draw(t, "who knew")
	known := w.look(t, worker)
	if known.Epoch == "0" && known.Consecutive == 0 {
		t.Skip("nothing to lose; another worker's older memory may come back instead")
	}
	for _, k := range w.workers[0].(*Redis).circuit(w.key).keys[:5] {
		require.NoError(t, w.client.Del(context.Background(), k).Err())
	}
	s := w.look(t, worker)
	require.Equal(t, known.State, s.State)
	require.Equal(t, known.Epoch, s.Epoch)
	require.Equal(t, known.Consecutive, s.Consecutive)
	p, err := w.workers[worker].Permit(context.Background(), w.key)
	if known.State == Open && w.at().Before(known.OpenUntil) {
		require.Error(t, err, "the first call after the loss is refused already")
	}
	if err == nil {
		rp := p.(*redisPermit)
		// The leases went with the keys: whose probes are out, nobody can know.
		for i := range w.open {
			w.open[i].until = time.Time{}
		}
		w.open = append(w.open, held{rp, w.at().Add(w.set.ProbeTTL)})
	} else {
		for i := range w.open {
			w.open[i].until = time.Time{}
		}
	}
	w.last = w.look(t, worker)
	require.NotEqual(t, map[State]State{Open: Closed}[known.State], w.last.State, "never straight to closed")
}

func (w *crowdOf) steps() map[string]func(*rapid.T) {
	verdict := rapid.SampledFrom([]Verdict{OK, Fail, Fail, Neutral})
	finish := func(t *rapid.T) { w.finish(t, false, verdict.Draw(t, "verdict")) }
	return map[string]func(*rapid.T){
		"ask": w.ask, "ask more": w.ask, "finish": finish, "finish more": finish,
		"fail": func(t *rapid.T) { w.finish(t, false, Fail) },
		"report again": func(t *rapid.T) {
			if w.last.State == Closed {
				t.Skip("told apart by their permit only")
			}
			w.finish(t, true, verdict.Draw(t, "verdict"))
		},
		"decline": func(t *rapid.T) { w.finish(t, false, Neutral) },
		"wait": func(t *rapid.T) {
			w.advance(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond)
			s := w.look(t, 0)
			require.Equal(t, w.last.State, s.State, "time alone moves nothing")
			require.Equal(t, w.last.Epoch, s.Epoch)
			w.last = s
		},
		"a new worker looks": func(t *rapid.T) {
			if len(w.workers) > 6 {
				t.Skip("enough")
			}
			require.Equal(t, w.last.Epoch, w.look(t, w.join(t)).Epoch)
			s := w.look(t, 0)
			require.Equal(t, w.last, s, "a new worker only reads")
		},
		"keys are lost": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "seldom") == 0 {
				w.lose(t)
			}
		},
	}
}
