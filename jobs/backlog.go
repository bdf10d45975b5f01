package jobs

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"fusebox/breaker"
)

// backlogKept is how long a backlog count is used before it is read again: a
// thousand jobs denied within a second must not count the queue a thousand times.
const backlogKept = 5 * time.Second

// dueSoon is how long after a circuit's open time a job still counts as waiting for it:
// most lookups are planned for hours later and are no backlog.
const dueSoon = 10 * time.Minute

// brief is the least width over which jobs return that a circuit only delays.
const brief = time.Second

// backlog is a cached count of a queue's waiting jobs.
type backlog struct {
	mu   sync.Mutex
	n    int
	read time.Time
}

// whyDenied is the reason to wait that people read: a full bulkhead and a ramp are not
// an open circuit, and end within moments.
func whyDenied(d *breaker.Denied) string {
	switch d.Reason {
	case breaker.DeniedSaturated:
		return whySaturated
	case breaker.DeniedRamp:
		return whyRamp
	}
	return whyCircuit
}

// backFrom is when a denied job comes back. From an open circuit: after its open time,
// over at least the first retry pause (10 s unless configured), since River's
// scheduler ticks every 5 s and less would collapse into one tick. A full bulkhead, for
// which it has waited already, and a ramp free up all the time, so a few jobs are back at
// once, and a backlog offers itself no faster than it can be taken.
func (r *Runner) backFrom(ctx context.Context, l *lane, d *breaker.Denied) time.Duration {
	after := max(d.RetryAfter, 0)
	n := r.backlogOf(ctx, l, d.Key.Class, after+dueSoon)
	first := l.settings.RetryPauses[0]
	switch d.Reason {
	case breaker.DeniedSaturated:
		return after + spread(breaker.Settings{}, min(brief, first), n, rand.Float64())
	case breaker.DeniedRamp:
		return after + spread(r.cfg.Circuits(d.Key), min(brief, first), n, rand.Float64())
	}
	return after + spread(r.cfg.Circuits(d.Key), first, n, rand.Float64())
}

// backlogOf returns roughly how many jobs of a class are due at the provider within a
// time. Without an answer from the database the last count is used: it only widens a spread.
func (r *Runner) backlogOf(ctx context.Context, l *lane, class string, within time.Duration) int {
	b, queue, kinds := &l.charges, chargeQueue(l.settings.Name), []string{kindCharge, kindOperation}
	if class == classStatus {
		b, queue, kinds = &l.lookups, statusQueue(l.settings.Name), []string{kindReconcile, kindOpLookup}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := r.cfg.Now()
	if now.Sub(b.read) < backlogKept {
		return b.n
	}
	b.read = now
	const q = `
		SELECT count(*) FROM river_job
		WHERE queue = $1 AND kind = ANY($2) AND state IN ('available', 'scheduled', 'retryable')
		  AND scheduled_at <= now() + make_interval(secs => $3)`
	var n int
	if err := r.cfg.Store.Pool().QueryRow(ctx, q, queue, kinds, within.Seconds()).Scan(&n); err != nil {
		r.cfg.Log.WarnContext(ctx, "backlog not counted", "queue", queue, "error", err)
		return b.n
	}
	b.n = n
	return n
}
