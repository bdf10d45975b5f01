package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawSettings draws settings with every rule, small enough that all of them fire.
func drawSettings(t *rapid.T) Settings {
	ms := func(name string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Millisecond
	}
	s := Settings{
		Failures: rapid.SampledFrom([]int{1, 2, 3, 5, -1}).Draw(t, "failures"),
		OpenFor:  ms("open_for", 1, 5000),
		Probes:   rapid.IntRange(1, 3).Draw(t, "probes"),
		ProbeTTL: ms("probe_ttl", 1, 3000),
		Quorum:   rapid.IntRange(1, 3).Draw(t, "quorum"), ActiveFor: ms("active_for", 500, 20000),
		Backoff: rapid.SampledFrom([]float64{1, 1.5, 2}).Draw(t, "backoff"),
		Jitter:  rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "jitter"),
	}
	s.Successes = rapid.IntRange(1, s.Probes).Draw(t, "successes")
	s.HalfOpenFor = s.ProbeTTL + ms("half_open_for", 0, 5000)
	if rapid.Bool().Draw(t, "windowed") {
		s.Window = ms("window", 1, 10000)
	}
	if s.Failures < 0 || rapid.Bool().Draw(t, "rated") {
		s.Rate, s.MinCalls = 0.5, rapid.IntRange(1, 8).Draw(t, "min_calls")
		s.RateWindow = time.Duration(rapid.IntRange(1, 10).Draw(t, "rate_window")) * time.Second
	}
	if rapid.Bool().Draw(t, "slow") {
		s.SlowCall, s.SlowRate = time.Second, 0.4
	}
	if rapid.Bool().Draw(t, "capped") {
		s.MaxInFlight, s.LeaseTTL = rapid.IntRange(1, 4).Draw(t, "cap"), ms("lease", 1, 4000)
	}
	if rapid.Bool().Draw(t, "ramped") {
		s.RampFor, s.RampStart, s.RampFull = ms("ramp_for", 1, 10000), 0.5, 7
	}
	return s
}

// twins drives the scripts and the Go machine with the same calls.
type twins struct {
	*rig
	key    Key
	model  *circuit
	events []occurrence
	open   []*redisPermit // unreported
	done   []*redisPermit
}

func (w *twins) us() int64 { return w.now.Load() }

func (w *twins) permit(t *rapid.T, worker int) {
	p, err := w.workers[worker].Permit(context.Background(), w.key)
	token := "denied"
	if rp, ok := p.(*redisPermit); ok {
		token = rp.token
	}
	code, retry := w.model.permit(w.us(), token)
	var d *Denied
	if errors.As(err, &d) {
		require.Equal(t, d.Reason, code)
		require.Equal(t, d.RetryAfter.Microseconds(), retry, "retry after %s", code)
		return
	}
	require.Equal(t, p.Probe(), code == admittedProbe, "twin says %s", code)
	require.Contains(t, []string{admitted, admittedProbe}, code)
	rp := p.(*redisPermit)
	require.Equal(t, rp.epoch, w.model.epoch)
	w.open = append(w.open, rp)
}

func (w *twins) report(t *rapid.T, p *redisPermit, v Verdict, latency time.Duration) {
	p.done.Store(false) // duplicates go to the script too
	p.Report(context.Background(), v, latency, "timeout", "pay")
	w.model.report(w.us(), finished{token: p.token, epoch: p.epoch, verdict: v, slow: w.model.set.isSlow(latency),
		entry: entry("timeout", "pay"), probe: p.probe, worker: p.r.opt.Worker, rnd: 0.25})
}

// together sends several operations of one worker in one trip; the model takes them one
// after the other, as if each had come alone.
func (w *twins) together(t *rapid.T, worker int, verdict func() (Verdict, time.Duration)) {
	b := w.workers[worker].(*Redis)
	e := b.circuit(w.key)
	var batch []*operation
	var ends []finished // of the reports; a permit's has only its token
	for range rapid.IntRange(1, 6).Draw(t, "operations") {
		if len(w.open) == 0 || rapid.Bool().Draw(t, "ask") {
			f := finished{token: b.tokens.next()}
			batch, ends = append(batch, askFor(f.token)), append(ends, f)
			continue
		}
		i := rapid.IntRange(0, len(w.open)-1).Draw(t, "permit")
		p := w.open[i]
		w.open = append(w.open[:i], w.open[i+1:]...)
		v, latency := verdict()
		f := finished{token: p.token, epoch: p.epoch, verdict: v, slow: e.set.isSlow(latency),
			entry: entry("timeout", "pay"), probe: p.probe, worker: b.opt.Worker, rnd: 0.25}
		batch, ends = append(batch, tell(f)), append(ends, f)
	}
	b.fly(context.Background(), e, &e.line, batch)
	for i, o := range batch {
		require.NoError(t, o.err)
		if o.kind != asks {
			require.Equal(t, w.model.report(w.us(), ends[i]), o.code)
			require.Equal(t, w.model.epoch, o.decided)
			continue
		}
		code, retry := w.model.permit(w.us(), ends[i].token)
		require.Equal(t, code, o.code)
		require.Equal(t, retry, o.retry, "retry after %s", code)
		require.Equal(t, w.model.epoch, o.decided)
		if code == admitted || code == admittedProbe {
			w.open = append(w.open, &redisPermit{r: b, e: e, token: ends[i].token, epoch: o.decided, probe: code == admittedProbe})
		}
	}
}

func (w *twins) operate(t *rapid.T, epoch string) {
	b := w.workers[0].(*Redis)
	d := time.Duration(rapid.IntRange(1, 5000).Draw(t, "for")) * time.Millisecond
	action := rapid.SampledFrom([]string{actionReset, actionProbe, string(ForcedOpen), string(ForcedClosed), string(MetricsOnly)}).Draw(t, "action")
	if action != string(ForcedOpen) && rapid.Bool().Draw(t, "endless") {
		d = 0
	}
	_, err := b.operate(context.Background(), w.key, action, epoch, "ana", "why", d)
	require.Equal(t, err, w.model.operate(w.us(), action, epoch, "ana", "why", d.Microseconds()))
}

func (w *twins) check(t *rapid.T) {
	s, err := w.workers[0].Snapshot(context.Background(), w.key)
	require.NoError(t, err)
	require.Equal(t, w.model.snapshot(w.key, w.us()), s)
}

// TestTwins holds the scripts and the Go machine to the same answers, snapshots and
// events over random calls, reports (late and double ones too), waits and operators,
// with each worker's own clock off by up to hours.
func TestTwins(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "miniredis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var settings sync.Map
			var run atomic.Int64
			r := newRig(t, kind, rigOptions{workers: 3, skew: []time.Duration{0, 10 * time.Minute, -3 * time.Hour},
				of: func(k Key) Settings {
					s, _ := settings.Load(k)
					return s.(Settings)
				}, rand: func() float64 { return 0.25 }})
			rapid.Check(t, func(t *rapid.T) {
				w := &twins{rig: r, key: Key{Name: fmt.Sprintf("p%d", run.Add(1)), Class: "charge"}}
				s := drawSettings(t)
				require.NoError(t, s.Validate())
				settings.Store(w.key, s)
				w.model = newCircuit(s.WithDefaults(), unseen(), func(o occurrence) { w.events = append(w.events, o) })
				t.Repeat(w.actions())
				w.compareEvents(t)
			})
		})
	}
}

func (w *twins) actions() map[string]func(*rapid.T) {
	verdict := rapid.SampledFrom([]Verdict{OK, Fail, Fail, Neutral})
	latency := rapid.SampledFrom([]time.Duration{time.Millisecond, 2 * time.Second})
	ask := func(t *rapid.T) { w.permit(t, rapid.IntRange(0, 2).Draw(t, "worker")) }
	tell := func(t *rapid.T) {
		if len(w.open) == 0 {
			t.Skip("nothing to report")
		}
		i := rapid.IntRange(0, len(w.open)-1).Draw(t, "permit")
		p := w.open[i]
		w.open = append(w.open[:i], w.open[i+1:]...)
		w.done = append(w.done, p)
		w.report(t, p, verdict.Draw(t, "verdict"), latency.Draw(t, "latency"))
	}
	return map[string]func(*rapid.T){
		"": w.check, "ask": ask, "ask again": ask, "tell": tell, "tell again": tell,
		"tell twice": func(t *rapid.T) {
			if len(w.done) == 0 {
				t.Skip("nothing reported")
			}
			w.report(t, rapid.SampledFrom(w.done).Draw(t, "reported"), verdict.Draw(t, "verdict"), 0)
		},
		"together": func(t *rapid.T) {
			w.together(t, rapid.IntRange(0, 2).Draw(t, "worker"), func() (Verdict, time.Duration) {
				return verdict.Draw(t, "verdict"), latency.Draw(t, "latency")
			})
		},
		"good together": func(t *rapid.T) {
			w.together(t, rapid.IntRange(0, 2).Draw(t, "worker"), func() (Verdict, time.Duration) { return OK, 0 })
		},
		"fail": func(t *rapid.T) {
			ask(t)
			if n := len(w.open); n > 0 {
				p := w.open[n-1]
				w.open = w.open[:n-1]
				w.report(t, p, Fail, 0)
			}
		},
		"wait": func(t *rapid.T) {
			w.advance(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
		},
		"wait long": func(t *rapid.T) {
			w.advance(time.Duration(rapid.IntRange(1, 5000).Draw(t, "s")) * time.Second)
		},
		"operate": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
				w.operate(t, rapid.SampledFrom([]string{w.model.epoch, w.model.epoch, "0", "7"}).Draw(t, "epoch"))
			}
		},
	}
}

func (w *twins) compareEvents(t *rapid.T) {
	b := w.workers[0].(*Redis)
	msgs, err := b.store.client.XRange(context.Background(), b.opt.Prefix+"{"+w.key.Name+"}:events", "-", "+").Result()
	require.NoError(t, err)
	require.Len(t, msgs, len(w.events))
	epochs, state, epoch := map[string]bool{}, Closed, "0"
	for i, m := range msgs {
		e := parseEvent(w.key.Name, m)
		require.Equal(t, w.events[i].event(w.key), e)
		require.False(t, epochs[e.Epoch], "epoch %s twice", e.Epoch)
		epochs[e.Epoch] = true
		require.Equal(t, state, e.From, "transitions must form a chain")
		if state = e.To; e.Kind == KindTransition {
			require.True(t, older(epoch, e.Epoch), "epochs must grow")
			require.True(t, legal(e), "%s to %s because of %s", e.From, e.To, e.Reason)
			epoch = e.Epoch
		}
	}
}

// legal lists the transitions there are.
func legal(e Event) bool {
	switch e.Reason {
	case ReasonConsecutive, ReasonWindow, ReasonRate, ReasonSlow:
		return e.From == Closed && e.To == Open
	case ReasonOpenTimeOver, ReasonProbeOnce:
		return e.From == Open && e.To == HalfOpen
	case ReasonProbeFailed:
		return e.From == HalfOpen && e.To == Open
	case ReasonProbesSucceeded:
		return e.From == HalfOpen && e.To == Closed
	case ReasonHalfOpenOver:
		return e.From == HalfOpen && e.To == HalfOpen
	case ReasonReset, ReasonForcedClosed:
		return e.To == Closed
	case ReasonForcedOpen:
		return e.To == Open
	case ReasonMetricsOnly, ReasonOverrideExpired:
		return e.From == e.To
	}
	return false
}
