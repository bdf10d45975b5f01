package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// MaxReplayCalls is how many recorded calls one replay reads: a busy provider's day.
// The latest ones are kept, so that a reader who asks for more sees the recent past
// whole instead of the distant past alone.
const MaxReplayCalls = 100_000

// RecordedCall is one provider call as it ended.
type RecordedCall struct {
	At         time.Time
	Verdict    string // ok, fail, neutral
	ErrorClass string
	Latency    time.Duration
	Worker     string
}

// CallRange names calls of one circuit that ended in [From, To).
type CallRange struct {
	Provider, Class string
	From, To        time.Time
	Max             int // at most MaxReplayCalls, which 0 also means
}

// EachCall streams a circuit's calls to fn, latest first, and stops after r.Max:
// truncated then says that older calls of the range exist and were not read. fn's
// error ends the reading and is returned.
func (s *Store) EachCall(ctx context.Context, r CallRange, fn func(RecordedCall) error) (truncated bool, err error) {
	if r.Max <= 0 || r.Max > MaxReplayCalls {
		r.Max = MaxReplayCalls
	}
	rows, err := s.pool.Query(ctx, `SELECT at, verdict, error_class, latency_us, worker FROM call_outcomes
		WHERE provider = $1 AND class = $2 AND at >= $3 AND at < $4 ORDER BY at DESC LIMIT $5`,
		r.Provider, r.Class, r.From, r.To, r.Max+1)
	if err != nil {
		return false, fmt.Errorf("recorded calls: %w", err)
	}
	var c RecordedCall
	var us int64
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&c.At, &c.Verdict, &c.ErrorClass, &us, &c.Worker}, func() error {
		if n++; n > r.Max {
			truncated = true
			return nil
		}
		c.Latency = time.Duration(us) * time.Microsecond
		return fn(c)
	})
	if err != nil {
		return false, fmt.Errorf("recorded calls: %w", err)
	}
	return truncated, nil
}

// maxSwings bounds how many openings and closings of one circuit are read.
const maxSwings = 10_000

// CircuitSwings reads the openings and closings of one circuit in [from, to), oldest
// first, with the opening that was in force at from before them. Half-open steps on
// the way are left out: calls are blocked from the opening to the closing. What one
// process decided alone while Redis was gone is left out too.
func (s *Store) CircuitSwings(ctx context.Context, provider, class string, from, to time.Time) ([]BreakerEvent, error) {
	const swing = `provider = $1 AND class = $2 AND from_state <> to_state
		AND (from_state = 'closed' OR to_state = 'closed') AND NOT coalesce((evidence->>'local')::boolean, false)`
	rows, err := s.pool.Query(ctx, `
		SELECT id, provider, class, epoch, from_state, to_state, reason, evidence, at FROM (
			(SELECT * FROM breaker_events WHERE `+swing+` AND at < $3 ORDER BY at DESC, id DESC LIMIT 1)
			UNION ALL
			(SELECT * FROM breaker_events WHERE `+swing+` AND at >= $3 AND at < $4 ORDER BY at DESC, id DESC LIMIT $5)) x
		ORDER BY at, id`, provider, class, from, to, maxSwings)
	if err != nil {
		return nil, fmt.Errorf("circuit swings: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanBreakerEvent)
	if err != nil {
		return nil, fmt.Errorf("circuit swings: %w", err)
	}
	if len(list) > 0 && list[0].At.Before(from) && list[0].To == "closed" {
		list = list[1:] // closed at from: what came before is another story
	}
	return list, nil
}

// RecentChanges reads the latest changes of state of every circuit since a moment,
// oldest first, without their evidence: for a strip of time. What one process decided
// alone is left out. When there are more than it reads, whole is false and the list
// begins later than since.
func (s *Store) RecentChanges(ctx context.Context, since time.Time) (list []BreakerEvent, whole bool, err error) {
	const read = 4000
	rows, err := s.pool.Query(ctx, `
		SELECT id, provider, class, epoch, from_state, to_state, reason, CASE WHEN evidence ? 'local' THEN '{"local":true}' ELSE '{}' END::jsonb, at FROM (
			SELECT * FROM breaker_events ORDER BY id DESC LIMIT $2) latest
		WHERE at >= $1 ORDER BY at, id`, since, read)
	if err != nil {
		return nil, false, fmt.Errorf("recent changes: %w", err)
	}
	if list, err = pgx.CollectRows(rows, scanBreakerEvent); err != nil {
		return nil, false, fmt.Errorf("recent changes: %w", err)
	}
	whole = len(list) < read
	return slices.DeleteFunc(list, func(e BreakerEvent) bool { return e.From == e.To || e.Evidence["local"] == true }), whole, nil
}

func scanBreakerEvent(row pgx.CollectableRow) (e BreakerEvent, err error) {
	err = row.Scan(&e.ID, &e.Provider, &e.Class, &e.Epoch, &e.From, &e.To, &e.Reason, &e.Evidence, &e.At)
	return e, err
}

// SettledMeanwhile counts the payments of a provider that were unknown and have been
// settled by our own lookups since a moment, up to CountCap: what goes on while its
// charges are blocked.
func (s *Store) SettledMeanwhile(ctx context.Context, provider string, since time.Time) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM (
		SELECT 1 FROM payments WHERE provider = $1 AND settled_at >= $2 AND status_evidence = 'lookup' AND unknown_seen
		LIMIT $3) x`, provider, since, CountCap).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("settled meanwhile: %w", err)
	}
	return n, nil
}

// CircuitAct is the latest thing a person did to a circuit.
type CircuitAct struct {
	Target string // circuit:NAME/CLASS
	At     time.Time
	Actor  string // kind:id
	Who    string // the person's name; the actor's own words for anybody else
	Action string // circuit.reset, circuit.override, ...
	Reason string
	After  map[string]any
}

// LastCircuitActs reads, for each target, the latest audit row about it.
func (s *Store) LastCircuitActs(ctx context.Context, targets []string) ([]CircuitAct, error) {
	rows, err := s.pool.Query(ctx, `SELECT t.target, a.at, a.actor, a.action, a.reason, a.after
		FROM unnest($1::text[]) AS t(target)
		CROSS JOIN LATERAL (SELECT * FROM audit_log WHERE target = t.target AND action LIKE 'circuit.%' ORDER BY id DESC LIMIT 1) a`, targets)
	if err != nil {
		return nil, fmt.Errorf("circuit acts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a CircuitAct, err error) {
		err = row.Scan(&a.Target, &a.At, &a.Actor, &a.Action, &a.Reason, &a.After)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("circuit acts: %w", err)
	}
	actors := make([]string, len(list))
	for i, a := range list {
		actors[i] = a.Actor
	}
	names, err := s.ActorNames(ctx, actors)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		if list[i].Who = names[a.Actor]; list[i].Who == "" {
			list[i].Who = a.Actor
		}
	}
	return list, nil
}
