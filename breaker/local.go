package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Local is a breaker of one process. It has the semantics of Redis without sharing.
type Local struct {
	opt      Options
	tokens   tokens
	mu       sync.Mutex
	circuits map[Key]*local
}

var (
	_ Breaker  = (*Local)(nil)
	_ Operator = (*Local)(nil)
)

// NewLocal returns a breaker for one process. Options about Redis are ignored.
func NewLocal(opt Options) *Local {
	opt = opt.withDefaults()
	return &Local{opt: opt, tokens: newTokens(opt.Worker), circuits: map[Key]*local{}}
}

// local is one circuit with its lock and its clock.
type local struct {
	mu    sync.Mutex
	c     *circuit
	key   Key
	opt   *Options
	clock func() int64 // microseconds
	began view         // what it started from
}

func (l *Local) circuit(k Key) *local {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.circuits[k]; c != nil {
		return c
	}
	c := newLocalCircuit(k, &l.opt, l.opt.settings(k), unseen(),
		func() int64 { return l.opt.Now().UnixMicro() },
		func(e Event) {
			if l.opt.OnEvent != nil {
				l.opt.OnEvent(e)
			}
		})
	l.circuits[k] = c
	return c
}

func newLocalCircuit(k Key, opt *Options, s Settings, from view, clock func() int64, emit func(Event)) *local {
	return &local{key: k, opt: opt, clock: clock, began: from,
		c: newCircuit(s, from, func(o occurrence) { emit(o.event(k)) })}
}

// permit decides about one call.
func (l *local) permit(token string) (Permit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	code, retry := l.c.permit(l.clock(), token)
	if code != admitted && code != admittedProbe {
		return nil, denied(l.key, code, retry, l.opt.Now())
	}
	return &localPermit{l: l, token: token, epoch: l.c.epoch, probe: code == admittedProbe}, nil
}

func denied(k Key, code string, retry int64, now time.Time) *Denied {
	d := time.Duration(retry) * time.Microsecond
	return &Denied{Key: k, Reason: code, RetryAfter: d, Until: now.Add(d)}
}

func (l *local) report(f finished) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.report(l.clock(), f)
}

func (l *local) snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.snapshot(l.key, l.clock())
}

func (l *local) operate(action, epoch, actor, reason string, d time.Duration) (Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	err := l.c.operate(now, action, epoch, short(actor), short(reason), d.Microseconds())
	return l.c.snapshot(l.key, now), err
}

// localPermit is a permit given in this process.
type localPermit struct {
	l     *local
	token string
	epoch string
	probe bool
	done  atomic.Bool
}

// Probe implements Permit.
func (p *localPermit) Probe() bool { return p.probe }

// Report implements Permit.
func (p *localPermit) Report(_ context.Context, v Verdict, latency time.Duration, errClass, sample string) {
	if !p.done.CompareAndSwap(false, true) {
		return
	}
	p.l.report(finished{token: p.token, epoch: p.epoch, verdict: v, slow: p.l.c.set.isSlow(latency),
		entry: entry(errClass, sample), probe: p.probe, worker: p.l.opt.Worker, rnd: p.l.opt.Rand()})
}

// isSlow reports whether an answer after d counts as slow.
func (s Settings) isSlow(d time.Duration) bool { return s.SlowCall > 0 && d >= s.SlowCall }

// entry is the caller's part of a failure entry.
func entry(errClass, sample string) string {
	if errClass == "" {
		errClass = "error"
	}
	return clean(errClass) + "|" + clean(sample)
}

// Permit implements Breaker.
func (l *Local) Permit(_ context.Context, k Key) (Permit, error) {
	return l.circuit(k).permit(l.tokens.next())
}

// Snapshot implements Breaker.
func (l *Local) Snapshot(_ context.Context, k Key) (Snapshot, error) {
	return l.circuit(k).snapshot(), nil
}

// Reset implements Breaker.
func (l *Local) Reset(_ context.Context, k Key, epoch, actor, reason string) (Snapshot, error) {
	return l.circuit(k).operate(actionReset, epoch, actor, reason, 0)
}

// Override implements Operator.
func (l *Local) Override(_ context.Context, k Key, epoch string, o Override) (Snapshot, error) {
	if err := o.validate(); err != nil {
		return Snapshot{}, err
	}
	return l.circuit(k).operate(string(o.Mode), epoch, o.Actor, o.Reason, o.For)
}

// ProbeOnce implements Operator.
func (l *Local) ProbeOnce(_ context.Context, k Key, epoch, actor, reason string) (Snapshot, error) {
	return l.circuit(k).operate(actionProbe, epoch, actor, reason, 0)
}

// Degraded implements Breaker: nothing to be degraded from.
func (l *Local) Degraded() time.Time { return time.Time{} }

// validate refuses what no script should see.
func (o Override) validate() error {
	switch o.Mode {
	case ForcedOpen:
		if o.For <= 0 {
			return ErrExpiry
		}
	case ForcedClosed, MetricsOnly:
		if o.For < 0 {
			return ErrExpiry
		}
	default:
		return ErrMode
	}
	return nil
}
