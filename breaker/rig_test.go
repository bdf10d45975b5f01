package breaker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

var charge = Key{Name: "atlas", Class: "charge"}

// epochStart is where the tests' server clock begins.
var epochStart = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// rig is one circuit store with a settable server clock and several workers on it.
type rig struct {
	t       testing.TB
	kind    string
	workers []Breaker
	client  *redis.Client // nil for Local
	now     atomic.Int64  // server clock, microseconds
	setTime func(time.Time)
	mu      sync.Mutex
	local   []Event
}

// rigOptions of newRig.
type rigOptions struct {
	settings Settings
	of       func(Key) Settings // instead of settings
	workers  int                // default 1
	skew     []time.Duration    // of each worker's own clock
	client   *redis.Client      // instead of a fresh store
	rand     func() float64
}

// kinds are the stores every core test runs on.
var kinds = []string{"redis", "miniredis", "local"}

// onEach runs a test on a real Redis, on miniredis and on Local.
func onEach(t *testing.T, o rigOptions, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, kind, o))
		})
	}
}

func newRig(t testing.TB, kind string, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, kind: kind, setTime: func(time.Time) {}}
	r.now.Store(epochStart.UnixMicro())
	head := luaHead
	switch {
	case o.client != nil:
		r.client = o.client
	case kind == "redis":
		r.client = breakertest.Shared(t).Client()
	case kind == "miniredis":
		m, err := miniredis.Run()
		require.NoError(t, err)
		t.Cleanup(m.Close)
		r.client = redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true})
		t.Cleanup(func() { _ = r.client.Close() })
		r.setTime = m.SetTime
	}
	if kind == "redis" {
		// A real server's clock cannot be set: the tests' scripts read a key instead.
		head = strings.Replace(head, "redis.call('TIME')", "redis.call('HMGET', 'clock', 's', 'us')", 1)
		require.NotEqual(t, luaHead, head)
		r.setTime = func(at time.Time) {
			us := at.UnixMicro()
			require.NoError(t, r.client.HSet(context.Background(), "clock", "s", us/1e6, "us", us%1e6).Err())
		}
	}
	r.setTime(epochStart)
	for i := range max(o.workers, 1) {
		r.workers = append(r.workers, r.worker(i, head, o))
	}
	return r
}

func (r *rig) worker(i int, head string, o rigOptions) Breaker {
	var skew time.Duration
	if i < len(o.skew) {
		skew = o.skew[i]
	}
	opt := Options{
		Settings: func(k Key) Settings {
			if o.of != nil {
				return o.of(k)
			}
			return o.settings
		},
		Worker: fmt.Sprintf("w%d", i), Timeout: 10 * time.Second, Names: []string{charge.Name},
		Now:  func() time.Time { return time.UnixMicro(r.now.Load()).Add(skew) },
		Rand: o.rand, await: true, Poll: time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnEvent: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.local = append(r.local, e)
		},
	}
	if r.kind == "local" {
		if i > 0 {
			return r.workers[0] // one process has one breaker
		}
		return NewLocal(opt)
	}
	b := NewRedis(r.client, opt)
	b.scripts = newScripts(head)
	return b
}

// advance moves the server's clock and with it every worker's.
func (r *rig) advance(d time.Duration) {
	r.now.Add(d.Microseconds())
	r.setTime(time.UnixMicro(r.now.Load()))
}

// permit asks worker w; nil permit when denied.
func (r *rig) permit(w int) (Permit, *Denied) {
	r.t.Helper()
	p, err := r.workers[w].Permit(context.Background(), charge)
	var d *Denied
	if err != nil {
		require.True(r.t, errors.As(err, &d), "Permit must return nothing but *Denied: %v", err)
		return nil, d
	}
	return p, nil
}

// call makes a whole call on worker w.
func (r *rig) call(w int, v Verdict) *Denied {
	r.t.Helper()
	p, d := r.permit(w)
	if p != nil {
		report(p, v)
	}
	return d
}

func report(p Permit, v Verdict) {
	p.Report(context.Background(), v, time.Millisecond, "timeout", "pay_1")
}

func (r *rig) snap() Snapshot {
	r.t.Helper()
	s, err := r.workers[0].Snapshot(context.Background(), charge)
	require.NoError(r.t, err)
	require.False(r.t, s.Degraded)
	return s
}

func (r *rig) requireState(want State) Snapshot {
	r.t.Helper()
	s := r.snap()
	require.Equal(r.t, want, s.State)
	return s
}

// trip opens the circuit with n failures of worker 0.
func (r *rig) trip(n int) Snapshot {
	r.t.Helper()
	for range n {
		require.Nil(r.t, r.call(0, Fail))
	}
	return r.requireState(Open)
}

// events returns everything emitted so far.
func (r *rig) events() []Event {
	r.t.Helper()
	if b, ok := r.workers[0].(*Redis); ok {
		pos := map[string][]string{}
		return b.poll(context.Background(), pos, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.local...)
}

// moves shows the transitions as "closed>open consecutive_failures".
func (r *rig) moves() []string {
	var out []string
	for _, e := range r.events() {
		if e.Kind == KindTransition {
			out = append(out, fmt.Sprintf("%s>%s %s", e.From, e.To, e.Reason))
		}
	}
	return out
}
