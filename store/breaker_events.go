package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// BreakerEvent is one circuit transition as stored.
type BreakerEvent struct {
	ID       int64
	Provider string
	Class    string // charge, status
	Epoch    string
	From, To string // closed, open, half_open
	Reason   string
	Evidence map[string]any
	At       time.Time
}

// RecordBreakerEvent stores a transition once per (provider, class, epoch) and raises
// its alert in the same transaction. stored is false on a repeat.
func (s *Store) RecordBreakerEvent(ctx context.Context, e BreakerEvent) (stored bool, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		stored = false // InTx may run this again
		err := tx.QueryRow(ctx, `
			INSERT INTO breaker_events (provider, class, epoch, from_state, to_state, reason, evidence, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT ON CONSTRAINT breaker_events_once DO NOTHING RETURNING id`,
			e.Provider, e.Class, e.Epoch, e.From, e.To, clean(e.Reason), cleanMap(e.Evidence), e.At.UTC()).Scan(&e.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return wrap(err, "record breaker event")
		}
		stored = true
		if err := s.alertCircuit(ctx, tx, e); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicProviders)
	})
	return stored && err == nil, err
}

// alertCircuit tells people that a circuit opened or closed. Half-open is a step on
// the way and no news; neither is an event that kept the state (an override).
func (s *Store) alertCircuit(ctx context.Context, tx pgx.Tx, e BreakerEvent) error {
	if e.From == e.To {
		return nil
	}
	a := Alert{
		Provider:  e.Provider,
		Detail:    e.Reason,
		DedupeKey: fmt.Sprintf("circuit:%s/%s:%s", e.Provider, e.Class, e.Epoch),
	}
	switch e.To {
	case "open":
		a.Kind, a.Severity = "circuit_opened", "critical"
		a.Title = fmt.Sprintf("Circuit %s/%s opened", e.Provider, e.Class)
	case "closed":
		a.Kind, a.Severity = "circuit_closed", "info"
		a.Title = fmt.Sprintf("Circuit %s/%s closed", e.Provider, e.Class)
	default:
		return nil
	}
	if who, _ := e.Evidence["actor"].(string); who != "" {
		a.Title += " by " + who // whom to ask
	}
	_, err := s.RaiseAlert(ctx, tx, a)
	return err
}
