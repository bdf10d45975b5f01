package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// QueueDepth is one River queue as it is now.
type QueueDepth struct {
	Queue     string
	Available int // ready to run
	Running   int
	Scheduled int // snoozed or not yet due
	Retryable int // failed and coming back
	Discarded int // gave up in the last 24 h
	Completed int // in the last RateWindow
	Arrived   int // created in the last RateWindow, finished or not
	// Oldest is when the oldest ready job became ready; nil when none is.
	Oldest *time.Time
	// NextDue is when the next snoozed job comes back; nil when none is.
	NextDue  *time.Time
	PausedAt *time.Time // paused for all processes
	Workers  int        // processes with a running job in this queue
}

// RateWindow is the stretch of time in and out rates are measured over.
const RateWindow = 5 * time.Minute

// Depth is how many jobs wait: ready, snoozed and coming back.
func (q QueueDepth) Depth() int { return q.Available + q.Scheduled + q.Retryable }

// Drain estimates how long the ready jobs take at the recent rate of completion;
// false when nothing was completed recently, so nothing can be said.
func (q QueueDepth) Drain() (time.Duration, bool) {
	if q.Available == 0 {
		return 0, true
	}
	if q.Completed == 0 {
		return 0, false
	}
	return time.Duration(float64(RateWindow) / float64(q.Completed) * float64(q.Available)), true
}

// WaitReason counts payments of a provider that wait for the same reason.
type WaitReason struct {
	Provider string
	Status   Status
	Why      string // next_check_why: retry, reconcile, circuit_open, throttled, ...
	Payments int    // bounded by CountCap
	Next     *time.Time
}

// Queues reads the depth of every River queue that has jobs or is known to River.
// Only live states and the last minutes of finished jobs are touched, so finished
// history does not slow it down.
func (s *Store) Queues(ctx context.Context) ([]QueueDepth, error) {
	now := s.Now()
	rows, err := s.pool.Query(ctx, `
		WITH live AS (
			SELECT queue,
				count(*) FILTER (WHERE state = 'available') AS available,
				count(*) FILTER (WHERE state = 'running') AS running,
				count(*) FILTER (WHERE state IN ('scheduled', 'pending')) AS scheduled,
				count(*) FILTER (WHERE state = 'retryable') AS retryable,
				count(*) FILTER (WHERE created_at > $1) AS arrived,
				min(scheduled_at) FILTER (WHERE state = 'available') AS oldest,
				min(scheduled_at) FILTER (WHERE state IN ('scheduled', 'retryable')) AS next_due,
				count(DISTINCT attempted_by[array_upper(attempted_by, 1)]) FILTER (WHERE state = 'running') AS workers
			FROM river_job WHERE state IN ('available', 'running', 'scheduled', 'pending', 'retryable') GROUP BY queue
		), done AS (
			SELECT queue, count(*) AS completed, count(*) FILTER (WHERE created_at > $1) AS arrived
			FROM river_job WHERE state = 'completed' AND finalized_at > $1 GROUP BY queue
		), dropped AS (
			SELECT queue, count(*) AS discarded FROM river_job
			WHERE state = 'discarded' AND finalized_at > $2 GROUP BY queue
		)
		SELECT queue, coalesce(available, 0), coalesce(running, 0), coalesce(scheduled, 0), coalesce(retryable, 0),
			coalesce(discarded, 0), coalesce(completed, 0), coalesce(live.arrived, 0) + coalesce(done.arrived, 0),
			oldest, next_due, q.paused_at, coalesce(workers, 0)
		FROM (SELECT name AS queue, paused_at FROM river_queue) q
		FULL JOIN live USING (queue) FULL JOIN done USING (queue) FULL JOIN dropped USING (queue)
		ORDER BY queue`, now.Add(-RateWindow), now.Add(-24*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q QueueDepth, err error) {
		err = row.Scan(&q.Queue, &q.Available, &q.Running, &q.Scheduled, &q.Retryable, &q.Discarded, &q.Completed,
			&q.Arrived, &q.Oldest, &q.NextDue, &q.PausedAt, &q.Workers)
		return q, err
	})
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	return list, nil
}

// WaitReasons says what non-final payments wait for, by provider, status and reason.
// It reads the payments, not the queue: a payment without a job shows too.
func (s *Store) WaitReasons(ctx context.Context) ([]WaitReason, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT provider, status, next_check_why, count(*), min(next_check_at) FROM (
			SELECT provider, status, next_check_why, next_check_at FROM payments
			WHERE status IN ('pending', 'processing', 'requires_action', 'unknown')
			ORDER BY next_check_at LIMIT $1) open
		GROUP BY 1, 2, 3 ORDER BY 1, 2, 4 DESC`, CountCap)
	if err != nil {
		return nil, fmt.Errorf("wait reasons: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r WaitReason, err error) {
		err = row.Scan(&r.Provider, &r.Status, &r.Why, &r.Payments, &r.Next)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait reasons: %w", err)
	}
	return list, nil
}

// ProviderPause is a provider's charge queue stopped after a configuration alarm.
type ProviderPause struct {
	Provider string
	Reason   string
	At       *time.Time
}

// PausedProviders lists the providers whose charges are paused.
func (s *Store) PausedProviders(ctx context.Context) ([]ProviderPause, error) {
	rows, err := s.pool.Query(ctx, `SELECT provider, paused_reason, paused_at FROM provider_state
		WHERE charges_paused ORDER BY provider`)
	if err != nil {
		return nil, fmt.Errorf("paused providers: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p ProviderPause, err error) {
		err = row.Scan(&p.Provider, &p.Reason, &p.At)
		return p, err
	})
}
