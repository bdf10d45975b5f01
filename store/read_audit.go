package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// AuditEntry is one row of the audit log: who did what to which target, and why.
type AuditEntry struct {
	ID        int64
	At        time.Time
	Actor     string // kind:id
	ActorName string // for people
	Action    string
	Target    string // kind:id
	Before    map[string]any
	After     map[string]any
	Reason    string
	RequestID string
}

// AuditFilter narrows the audit log. Zero fields do not narrow.
type AuditFilter struct {
	Action string // whole, e.g. payment.resolve
	Target string // whole, e.g. payment:ID
	Actor  string // whole, e.g. user:ID
	Whose  string // "people", "clients", "engine"; empty: everybody
	From   time.Time
	To     time.Time // not included
}

// auditWhose narrows to kinds of actors. The partial indexes audit_log_people and
// audit_log_clients have the same words; most rows are the engine's.
var auditWhose = map[string]string{
	"people":  "(actor LIKE 'user:%' OR actor LIKE 'system:cli%')",
	"clients": "actor LIKE 'client:%'",
	"engine":  "actor LIKE 'system:%' AND actor NOT LIKE 'system:cli%'",
}

// auditSlack is how much longer than another a transaction may take to write its row.
const auditSlack = 10 * time.Minute

// ListAudit reads audit rows newest first, older than before (0: from the top).
func (s *Store) ListAudit(ctx context.Context, f AuditFilter, before int64, limit int) (list []AuditEntry, more bool, err error) {
	w := &where{}
	for cond, v := range map[string]string{"action = ?": f.Action, "target = ?": f.Target, "actor = ?": f.Actor} {
		if v != "" {
			w.and(cond, v)
		}
	}
	if cond, ok := auditWhose[f.Whose]; ok {
		w.and(cond)
	}
	// Rows are numbered in the order of their writing, give or take a transaction: numbers
	// bound the walk down the primary key, times decide.
	if !f.From.IsZero() {
		w.and("id > coalesce((SELECT id FROM audit_log WHERE at < ? ORDER BY at DESC LIMIT 1), 0)", f.From.Add(-auditSlack))
		w.and("at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.and("id <= coalesce((SELECT id FROM audit_log WHERE at >= ? ORDER BY at LIMIT 1), 9223372036854775807)", f.To.Add(auditSlack))
		w.and("at < ?", f.To)
	}
	if before > 0 {
		w.and("id < ?", before)
	}
	sql := fmt.Sprintf(`SELECT id, at, actor, action, target, before, after, reason, request_id
		FROM audit_log %s ORDER BY id DESC LIMIT %s`, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("list audit: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a AuditEntry, err error) {
		err = row.Scan(&a.ID, &a.At, &a.Actor, &a.Action, &a.Target, &a.Before, &a.After, &a.Reason, &a.RequestID)
		return a, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list audit: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, s.nameActors(ctx, list)
}

func (s *Store) nameActors(ctx context.Context, list []AuditEntry) error {
	actors := make([]string, 0, len(list))
	for _, a := range list {
		actors = append(actors, a.Actor)
	}
	names, err := s.ActorNames(ctx, actors)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].ActorName = names[list[i].Actor]
	}
	return nil
}

// querier is what a pool and a transaction have in common for reading.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ActorNames maps actors ("user:ID", "client:ID", "system:charge") to names for
// people. Actors it does not know keep what stands after the colon.
func (s *Store) ActorNames(ctx context.Context, actors []string) (map[string]string, error) {
	return actorNames(ctx, s.pool, actors)
}

func actorNames(ctx context.Context, q querier, actors []string) (map[string]string, error) {
	names := make(map[string]string, len(actors))
	var ids []uuid.UUID
	for _, a := range actors {
		kind, id, _ := strings.Cut(a, ":")
		names[a] = id
		if u, err := uuid.Parse(id); err == nil && (kind == "user" || kind == "client") {
			ids = append(ids, u)
		}
	}
	if len(ids) == 0 {
		return names, nil
	}
	rows, err := q.Query(ctx, `SELECT 'user:' || id, name FROM users WHERE id = ANY($1)
		UNION ALL SELECT 'client:' || id, name FROM api_keys WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("actor names: %w", err)
	}
	var actor, name string
	_, err = pgx.ForEachRow(rows, []any{&actor, &name}, func() error {
		names[actor] = name
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("actor names: %w", err)
	}
	return names, nil
}
