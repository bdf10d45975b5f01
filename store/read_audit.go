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
	People bool   // only what people did, not the engine
}

// ListAudit reads audit rows newest first, older than before (0: from the top).
func (s *Store) ListAudit(ctx context.Context, f AuditFilter, before int64, limit int) (list []AuditEntry, more bool, err error) {
	w := &where{}
	for cond, v := range map[string]string{"action = ?": f.Action, "target = ?": f.Target, "actor = ?": f.Actor} {
		if v != "" {
			w.and(cond, v)
		}
	}
	if f.People {
		w.and("actor LIKE 'user:%'") // the partial index audit_log_people has the same words
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
