package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// QueueSwitch stops and starts a queue in every process that works it. An Enqueuer that
// is one too lets people pause queues.
type QueueSwitch interface {
	// PauseQueue keeps jobs of the queue from starting once tx commits; running ones end.
	PauseQueue(ctx context.Context, tx pgx.Tx, queue string) error
	// ResumeQueue lets them start again.
	ResumeQueue(ctx context.Context, tx pgx.Tx, queue string) error
}

var (
	// ErrQueueChanged says that somebody paused or resumed the queue meanwhile.
	ErrQueueChanged = errors.New("store: the queue was paused or resumed meanwhile")
	errNoSwitch     = errors.New("store: made without a queue switch")
)

// QueuePause is a queue that a person stopped.
type QueuePause struct {
	Queue  string
	Reason string
	By     string // kind:id
	ByName string
	At     time.Time
	Until  *time.Time // it resumes by itself; nil: a person has to
}

// QueueChange is what a person does to a queue. Seen is when the pause that they saw
// began, zero when the queue ran: another state now is ErrQueueChanged.
type QueueChange struct {
	Queue    string
	Seen     time.Time
	Until    *time.Time // of a pause
	Reason   string
	ActionID uuid.UUID
	By       Actor
}

func queueTarget(queue string) string { return "queue:" + queue }

// QueuePauses lists the queues that people stopped.
func (s *Store) QueuePauses(ctx context.Context) ([]QueuePause, error) {
	rows, err := s.pool.Query(ctx, `SELECT queue, reason, paused_by, paused_at, until FROM queue_pauses ORDER BY queue`)
	if err != nil {
		return nil, fmt.Errorf("queue pauses: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p QueuePause, err error) {
		err = row.Scan(&p.Queue, &p.Reason, &p.By, &p.At, &p.Until)
		return p, err
	})
	if err != nil || len(list) == 0 {
		return list, wrap(err, "queue pauses")
	}
	actors := make([]string, len(list))
	for i, p := range list {
		actors[i] = p.By
	}
	names, err := s.ActorNames(ctx, actors)
	for i, p := range list {
		list[i].ByName = names[p.By]
	}
	return list, err
}

// PauseQueue stops a queue everywhere, once per action id, with its audit row. Nothing
// is lost: its jobs wait. ErrQueueChanged when it is paused already.
func (s *Store) PauseQueue(ctx context.Context, ch QueueChange) error {
	return s.changeQueue(ctx, ch, "queue.pause", func(ctx context.Context, tx pgx.Tx, sw QueueSwitch) error {
		now := s.Now()
		tag, err := tx.Exec(ctx, `INSERT INTO queue_pauses (queue, reason, paused_by, paused_at, until)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`, ch.Queue, clean(ch.Reason), ch.By.String(), now, ch.Until)
		if err != nil {
			return wrap(err, "pause queue")
		}
		if tag.RowsAffected() == 0 {
			return ErrQueueChanged
		}
		after := map[string]any{"paused": true}
		if ch.Until != nil {
			after["until"] = ch.Until.UTC().Format(time.RFC3339)
		}
		if err := s.Audit(ctx, tx, ch.By, "queue.pause", queueTarget(ch.Queue), ch.Reason, map[string]any{"paused": false}, after); err != nil {
			return err
		}
		return sw.PauseQueue(ctx, tx, ch.Queue)
	})
}

// ResumeQueue starts a queue again, once per action id, with its audit row.
// ErrQueueChanged when the pause is another than the person saw.
func (s *Store) ResumeQueue(ctx context.Context, ch QueueChange) error {
	return s.changeQueue(ctx, ch, "queue.resume", func(ctx context.Context, tx pgx.Tx, sw QueueSwitch) error {
		tag, err := tx.Exec(ctx, `DELETE FROM queue_pauses WHERE queue = $1 AND paused_at = $2`, ch.Queue, ch.Seen)
		if err != nil {
			return wrap(err, "resume queue")
		}
		if tag.RowsAffected() == 0 {
			return ErrQueueChanged
		}
		return s.resumed(ctx, tx, sw, ch.Queue, ch.By, ch.Reason)
	})
}

func (s *Store) resumed(ctx context.Context, tx pgx.Tx, sw QueueSwitch, queue string, by Actor, reason string) error {
	err := s.Audit(ctx, tx, by, "queue.resume", queueTarget(queue), reason, map[string]any{"paused": true}, map[string]any{"paused": false})
	if err != nil {
		return err
	}
	return sw.ResumeQueue(ctx, tx, queue)
}

// changeQueue claims the action and does it; a repeat does nothing.
func (s *Store) changeQueue(ctx context.Context, ch QueueChange, action string, do func(context.Context, pgx.Tx, QueueSwitch) error) error {
	sw, ok := s.enq.(QueueSwitch)
	if !ok {
		return errNoSwitch
	}
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		first, _, err := s.ClaimAction(ctx, tx, ch.ActionID, ch.By, action, queueTarget(ch.Queue), "done")
		if err != nil || !first {
			return err
		}
		if err := do(ctx, tx, sw); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicProviders)
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, ch.Queue, err)
	}
	return nil
}

// SweepPauses ends the pauses whose time is over and holds the others: River forgets the
// row of a queue that no process worked for a day, and its pause with it.
func (s *Store) SweepPauses(ctx context.Context) error {
	sw, ok := s.enq.(QueueSwitch)
	if !ok {
		return nil
	}
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		over, err := collectQueues(tx.Query(ctx, `DELETE FROM queue_pauses WHERE until <= $1 RETURNING queue`, s.Now()))
		if err != nil {
			return err
		}
		for _, queue := range over {
			if err := s.resumed(ctx, tx, sw, queue, System("sweep"), "the pause was over"); err != nil {
				return err
			}
		}
		lost, err := collectQueues(tx.Query(ctx, `SELECT queue FROM queue_pauses p
			WHERE NOT EXISTS (SELECT 1 FROM river_queue q WHERE q.name = p.queue AND q.paused_at IS NOT NULL) FOR UPDATE`))
		if err != nil {
			return err
		}
		for _, queue := range lost {
			if err := sw.PauseQueue(ctx, tx, queue); err != nil {
				return err
			}
		}
		if len(over) == 0 {
			return nil
		}
		return Notify(ctx, tx, TopicProviders)
	})
	return wrap(err, "sweep pauses")
}

func collectQueues(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
