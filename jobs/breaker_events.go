package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

const (
	// watchPause is the wait after an error of the event source or the database.
	watchPause = 2 * time.Second
	// watchWithin is how long the database may take to store an event.
	watchWithin = 10 * time.Second
	// settledFor is how old a transition must be before the comparison stores it: until
	// then the event itself, with its evidence, is likely on its way.
	settledFor = 10 * time.Second
)

// watchCircuits stores every transition the circuits emit until ctx ends. Every
// process watches; the store keeps each transition once and raises its alert with it.
func (r *Runner) watchCircuits(ctx context.Context) {
	position := ""
	for ctx.Err() == nil {
		next, err := r.storeCircuitEvents(ctx, position)
		if err == nil {
			position = next
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.cfg.Log.WarnContext(ctx, "circuit events not read; trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(jitter(watchPause)):
		}
	}
}

// storeCircuitEvents stores the events after position and returns the new one. On an
// error the position stays: stored events are skipped the next time.
func (r *Runner) storeCircuitEvents(ctx context.Context, position string) (string, error) {
	events, next, err := r.cfg.Events.Next(ctx, position)
	if err != nil {
		return position, err
	}
	for _, e := range events {
		// A database that vanished must not keep the events that come after.
		recording, cancel := context.WithTimeout(ctx, watchWithin)
		err := r.recordCircuit(recording, e)
		cancel()
		if err != nil {
			return position, err
		}
	}
	return next, nil
}

// recordCircuit stores a transition. A bad_worker event is none: the circuit stayed
// closed because one worker alone sees failures, which is news about that worker.
func (r *Runner) recordCircuit(ctx context.Context, e breaker.Event) error {
	if e.Kind == breaker.KindBadWorker {
		return r.raise(ctx, store.Alert{
			Kind: breaker.KindBadWorker, Severity: "warning", Provider: e.Key.Name,
			Title:     fmt.Sprintf("Worker %s alone sees failures at %s", e.Note, e.Key),
			Detail:    e.Evidence.Description,
			DedupeKey: fmt.Sprintf("%s:%s:%s", breaker.KindBadWorker, e.Key, e.Epoch),
		})
	}
	evidence, err := evidenceOf(e)
	if err != nil {
		return err
	}
	first, err := r.cfg.Store.RecordBreakerEvent(ctx, store.BreakerEvent{
		Provider: e.Key.Name, Class: e.Key.Class, Epoch: e.Epoch, From: string(e.From), To: string(e.To),
		Reason: e.Reason, Evidence: evidence, At: e.At,
	})
	if err != nil {
		return fmt.Errorf("jobs: breaker event %s %s: %w", e.Key, e.Epoch, err)
	}
	if first && e.To == breaker.Closed {
		r.wake(e.Key)
	}
	return nil
}

// wake brings back what waits for a circuit that is closed now, however it closed: a
// person's probe or reset can end an open time, or an override of hours, early. Who
// stored the event does it. Where that fails, or a job is just going to sleep, the sweep
// finds the payment past its time. A long backlog must not hold up the next event, so it
// goes on beside it, until the process stops.
func (r *Runner) wake(k breaker.Key) {
	var back func() (int, error)
	switch {
	case r.lanes[k.Name] == nil:
		return // no queue of ours waits for it
	case k.Class == classCharge, k.Class == classStatus:
		back = func() (int, error) { return r.cfg.Store.WakeWaiting(r.waking, k.Name, k.Class == classCharge) }
	case k.Class == provider.ClassToken:
		back = func() (int, error) { return r.cfg.Store.WakeTokenless(r.waking, k.Name) }
	default:
		return
	}
	r.background.Go(func() {
		n, err := back()
		if err != nil && r.waking.Err() == nil {
			r.cfg.Log.Error("waking what waited for the circuit", "circuit", k.String(), "error", err)
		}
		if n > 0 {
			r.cfg.Log.Info("circuit closed; what waited for it comes back", "circuit", k.String(), "payments", n)
		}
	})
}

// evidenceOf is the event's evidence as stored, with who moved the circuit by hand.
func evidenceOf(e breaker.Event) (map[string]any, error) {
	raw, err := json.Marshal(e.Evidence)
	if err != nil {
		return nil, fmt.Errorf("jobs: breaker evidence: %w", err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("jobs: breaker evidence: %w", err)
	}
	for k, v := range map[string]string{"actor": e.Actor, "note": e.Note} {
		if v != "" {
			m[k] = v
		}
	}
	if e.Local {
		m["local"] = true
	}
	return m, nil
}

// compareCircuits stores a transition whose event was lost: a Redis failover can drop
// the last write of the stream and keep the state, or a process can stop between the
// two. It compares each circuit as it is with its last stored event.
func (r *Runner) compareCircuits(ctx context.Context) error {
	var errs []error
	for _, s := range r.cfg.Providers {
		for _, class := range r.classesOf(s.Name) {
			errs = append(errs, r.compareCircuit(ctx, breaker.Key{Name: s.Name, Class: class}))
		}
	}
	return errors.Join(errs...)
}

// classesOf are the classes of a provider's circuits.
func (r *Runner) classesOf(name string) []string {
	classes := []string{classCharge, classStatus}
	if l := r.lanes[name]; l != nil && l.adapter.Capabilities().TokenCircuit {
		classes = append(classes, provider.ClassToken)
	}
	return classes
}

func (r *Runner) compareCircuit(ctx context.Context, k breaker.Key) error {
	snap, err := r.cfg.Breaker.Snapshot(ctx, k)
	if err != nil || snap.Degraded || snap.Epoch == "" || snap.Since.IsZero() {
		return nil //nolint:nilerr // without the shared state there is nothing to compare with
	}
	if r.cfg.Now().Sub(snap.Since) < settledFor {
		return nil
	}
	epoch, state, err := r.lastCircuitEvent(ctx, k)
	if err != nil || epoch == snap.Epoch || (epoch == "" && snap.State == breaker.Closed) {
		return err
	}
	return r.recordCircuit(ctx, breaker.Event{
		Key: k, Epoch: snap.Epoch, From: state, To: snap.State, Reason: snap.OpenReason, At: snap.Since,
		Evidence: breaker.Evidence{
			Failures:    snap.Consecutive,
			Description: "found by comparing the circuit with its stored events; the event itself was lost",
		},
	})
}

// lastCircuitEvent returns the epoch and state of a circuit's last stored event.
func (r *Runner) lastCircuitEvent(ctx context.Context, k breaker.Key) (epoch string, state breaker.State, err error) {
	const q = `
		SELECT epoch, to_state FROM breaker_events
		WHERE provider = $1 AND class = $2 ORDER BY at DESC, id DESC LIMIT 1`
	err = r.cfg.Store.Pool().QueryRow(ctx, q, k.Name, k.Class).Scan(&epoch, &state)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", breaker.Closed, nil
	}
	if err != nil {
		return "", "", fmt.Errorf("jobs: last event of circuit %s: %w", k, err)
	}
	return epoch, state, nil
}
