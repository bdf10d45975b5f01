package breaker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// reachable reports whether to ask Redis now. While deciding alone, one caller at a
// time is sent to look, at jittered intervals.
func (r *Redis) reachable(e *shared) bool {
	if e.since.Load() == 0 {
		return true
	}
	now, due := r.opt.Now().UnixNano(), e.retry.Load()
	return now >= due && e.retry.CompareAndSwap(due, now+int64(r.opt.jittered(r.opt.Recheck)))
}

// lost notes that Redis did not answer: from now on this process decides alone.
func (r *Redis) lost(ctx context.Context, e *shared, err error) {
	if cluster, ok := r.store.client.(*redis.ClusterClient); ok {
		// A client that does not repeat commands does not look for a new primary either.
		cluster.ReloadState(ctx)
	}
	now := r.opt.Now()
	e.retry.Store(now.Add(r.opt.jittered(r.opt.Recheck)).UnixNano())
	if e.since.CompareAndSwap(0, now.UnixNano()) {
		r.opt.Log.WarnContext(ctx, "breaker: Redis does not answer, deciding alone",
			"circuit", e.key.String(), "remembered", e.seen.Load().state, "error", err)
	}
}

// back notes that Redis answered.
func (r *Redis) back(ctx context.Context, e *shared) {
	since := e.since.Load()
	if since == 0 || !e.since.CompareAndSwap(since, 0) {
		return
	}
	e.mu.Lock()
	e.alone = nil
	e.mu.Unlock()
	r.opt.Log.InfoContext(ctx, "breaker: Redis answers again", "circuit", e.key.String(),
		"alone_for", r.opt.Now().Sub(time.Unix(0, since)).Round(time.Millisecond))
}

// byItself returns the circuit this process decides with, begun from what it saw last.
func (r *Redis) byItself(e *shared) *local {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alone == nil {
		from := *e.seen.Load()
		from.fails = int(e.fails.Load())
		// Its times are the server's, as far as we know that clock.
		clock := func() int64 { return r.opt.Now().UnixMicro() + e.offset.Load() }
		e.alone = newLocalCircuit(e.key, &r.opt, e.set, from, clock, func(ev Event) {
			ev.Local = true
			ev.Epoch = "local/" + r.opt.Worker + "/" + ev.Epoch
			r.locals.add(ev)
		})
	}
	return e.alone
}

func (r *Redis) permitAlone(e *shared, token string) (Permit, error) {
	return r.byItself(e).permit(token)
}

// reportAlone takes the outcome of a call that the shared circuit admitted.
func (r *Redis) reportAlone(e *shared, f finished) {
	l := r.byItself(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if f.probe && f.epoch == l.c.epoch {
		l.c.probes[f.token] = now + 1 // the lease was ours in Redis
	}
	l.c.report(now, f)
}

// memory is what to restore in Redis should its keys be lost.
func (l *local) memory() view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.view
}

// Degraded implements Breaker: since when at least one circuit is decided alone. It
// also has Redis looked for, so that a circuit nobody calls recovers too.
func (r *Redis) Degraded() time.Time {
	var first int64
	r.entries.Range(func(_, v any) bool {
		e := v.(*shared)
		since := e.since.Load()
		if since != 0 && (first == 0 || since < first) {
			first = since
		}
		if since != 0 && r.reachable(e) {
			go func() { _, _ = r.look(context.Background(), e) }()
		}
		return true
	})
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(0, first)
}
