package jobs

import (
	"context"
	"sync"
	"time"
)

// backlogKept is how long a backlog count is used before it is read again: a
// thousand jobs denied within a second must not count the queue a thousand times.
const backlogKept = 5 * time.Second

// backlog is a cached count of a charge queue's waiting jobs.
type backlog struct {
	mu   sync.Mutex
	n    int
	read time.Time
}

// backlogOf returns roughly how many charges wait at the provider. Without an answer
// from the database the last count is used: it only widens a spread.
func (r *Runner) backlogOf(ctx context.Context, l *lane) int {
	b := &l.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := r.cfg.Now(); now.Sub(b.read) < backlogKept {
		return b.n
	} else {
		b.read = now
	}
	const q = `
		SELECT count(*) FROM river_job
		WHERE queue = $1 AND kind = 'charge' AND state IN ('available', 'scheduled', 'retryable')`
	var n int
	if err := r.cfg.Store.Pool().QueryRow(ctx, q, chargeQueue(l.settings.Name)).Scan(&n); err != nil {
		r.cfg.Log.WarnContext(ctx, "backlog not counted", "provider", l.settings.Name, "error", err)
		return b.n
	}
	b.n = n
	return n
}
