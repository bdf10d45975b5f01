package breaker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Snapshot implements Breaker. With Redis gone it shows the local view; it returns no
// error.
func (r *Redis) Snapshot(ctx context.Context, k Key) (Snapshot, error) {
	e := r.circuit(k)
	r.settle(e)
	if r.reachable(e) {
		if s, err := r.look(ctx, e); err == nil {
			return s, nil
		}
	}
	s := r.byItself(e).snapshot()
	s.Degraded = true
	return s, nil
}

// look reads the shared circuit.
func (r *Redis) look(ctx context.Context, e *shared) (Snapshot, error) {
	list, err := r.store.run(ctx, r.scripts.snapshot, e.keys, r.args(e, "0"))
	var s Snapshot
	var a answer
	if err == nil {
		s, a, err = parseSnapshot(list, e)
	}
	if err != nil {
		r.lost(ctx, e, err)
		return s, err
	}
	if seen := e.seen.Load(); older(a.epoch, seen.epoch) || (a.code == "lost" && e.fails.Load() > 0) {
		// Keys lost: show what the next permit restores, and keep it for that.
		v := e.keepMemory(seen)
		s = v.snapshot(e.key, e.set, a.now)
	} else {
		e.learn(a, r.opt.Now())
	}
	r.back(ctx, e)
	return s, nil
}

// keepMemory makes what this process decided alone its memory of the circuit. Only
// right when the shared one is lost.
func (e *shared) keepMemory(seen *view) view {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alone != nil {
		own := e.alone.memory()
		e.seen.CompareAndSwap(seen, &own)
		e.fails.Store(int64(own.fails))
	}
	v := *e.seen.Load()
	v.fails = int(e.fails.Load())
	return v
}

func parseSnapshot(list []any, e *shared) (Snapshot, answer, error) {
	if len(list) != 5 {
		return Snapshot{}, answer{}, errReply
	}
	parts := make([][]any, 5)
	for i, v := range list {
		parts[i], _ = v.([]any)
	}
	a, err := parseAnswer(parts[0])
	if err != nil {
		return Snapshot{}, a, err
	}
	s := a.view().snapshot(e.key, e.set, a.now)
	for i := 0; i+1 < len(parts[1]); i += 2 {
		until, _ := strconv.ParseFloat(fmt.Sprint(parts[1][i+1]), 64)
		s.Probes = append(s.Probes, Lease{Token: fmt.Sprint(parts[1][i]), Until: moment(int64(until))})
	}
	s.ProbesHeld = len(s.Probes)
	if n, ok := list[2].(int64); ok {
		s.InFlight = int(n)
	}
	for _, f := range parts[3] {
		s.Recent = append(s.Recent, parseFailure(fmt.Sprint(f)))
	}
	if len(s.Recent) > 0 {
		s.LastError = s.Recent[0].Class
	}
	s.readBuckets(parts[4], a)
	s.order()
	return s, a, nil
}

// readBuckets reads the hash report.lua keeps: a ring of seconds, the total, workers.
func (s *Snapshot) readBuckets(hash []any, a answer) {
	sec, width := a.now/1e6, int64(s.Settings.RateWindow.Seconds())
	for i := 0; i+1 < len(hash); i += 2 {
		name, value := fmt.Sprint(hash[i]), fmt.Sprint(hash[i+1])
		n := parseCounts(value)
		switch {
		case name == "total" && len(n) == 5:
			s.Total = Counts{OK: n[0], Fail: n[1], Neutral: n[2], Slow: n[3], Fenced: n[4]}
		case strings.HasPrefix(name, "w:") && len(n) == 1:
			if at := int64(n[0]); sec-at <= forgotten {
				s.Workers = append(s.Workers, Seen{Worker: name[2:], At: moment(at * 1e6)})
			}
		case len(n) == 5:
			at := int64(n[0])
			if at > sec-width && at <= sec && at >= a.since/1e6 {
				s.Window.OK, s.Window.Fail = s.Window.OK+n[1], s.Window.Fail+n[2]
				s.Window.Neutral, s.Window.Slow = s.Window.Neutral+n[3], s.Window.Slow+n[4]
			}
		}
	}
}

// operate runs an operator's action.
func (r *Redis) operate(ctx context.Context, k Key, action, epoch, actor, reason string, d time.Duration) (Snapshot, error) {
	e := r.circuit(k)
	r.settle(e)
	seen, view := e.remembered()
	a, err := r.call(ctx, e, r.scripts.operate, r.args(e, "0", action, epoch, short(actor), short(reason),
		strconv.FormatInt(d.Microseconds(), 10), seen, view))
	if err != nil {
		return Snapshot{}, errors.Join(ErrUnavailable, err)
	}
	s, err := r.look(ctx, e)
	if err != nil {
		s = a.view().snapshot(k, e.set, a.now) // done, but not to be seen in full
	}
	switch a.code {
	case "done":
		return s, nil
	case "refused":
		return s, ErrNotOpen
	}
	return s, ErrEpoch
}

// Reset implements Breaker.
func (r *Redis) Reset(ctx context.Context, k Key, epoch, actor, reason string) (Snapshot, error) {
	return r.operate(ctx, k, actionReset, epoch, actor, reason, 0)
}

// Override implements Operator.
func (r *Redis) Override(ctx context.Context, k Key, epoch string, o Override) (Snapshot, error) {
	if err := o.validate(); err != nil {
		return Snapshot{}, err
	}
	return r.operate(ctx, k, string(o.Mode), epoch, o.Actor, o.Reason, o.For)
}

// ProbeOnce implements Operator.
func (r *Redis) ProbeOnce(ctx context.Context, k Key, epoch, actor, reason string) (Snapshot, error) {
	return r.operate(ctx, k, actionProbe, epoch, actor, reason, 0)
}
