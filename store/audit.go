package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Audit writes one audit row in tx: who did what to which target, why, and what it
// was before and after. Targets read kind:id, e.g. payment:UUID.
func (s *Store) Audit(ctx context.Context, tx pgx.Tx, by Actor, action, target, reason string, before, after map[string]any) error {
	var b pgx.Batch
	queueAudit(&b, s.Now(), by, action, target, reason, before, after)
	return wrap(tx.SendBatch(ctx, &b).Close(), "audit")
}

func queueAudit(b *pgx.Batch, at time.Time, by Actor, action, target, reason string, before, after map[string]any) {
	queueAudits(b, []auditRow{{at, by, action, target, reason, before, after}})
}

// auditRow is a row of the audit log before it is stored.
type auditRow struct {
	at                     time.Time
	by                     Actor
	action, target, reason string
	before, after          map[string]any
}

func queueAudits(b *pgx.Batch, list []auditRow) {
	var a struct {
		at                                     []time.Time
		actor, action, target, reason, request []string
		before, after                          []map[string]any
	}
	for _, r := range list {
		a.at, a.actor, a.action = append(a.at, r.at), append(a.actor, r.by.String()), append(a.action, r.action)
		a.target, a.reason, a.request = append(a.target, r.target), append(a.reason, clean(r.reason)), append(a.request, clean(r.by.RequestID))
		a.before, a.after = append(a.before, cleanMap(r.before)), append(a.after, cleanMap(r.after))
	}
	b.Queue(`INSERT INTO audit_log (at, actor, action, target, before, after, reason, request_id)
		SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::text[], $8::text[])`,
		a.at, a.actor, a.action, a.target, a.before, a.after, a.reason, a.request)
}

// ClaimAction records a one-time action id in tx. first is false on a repeat, with the
// first call's result text. Two at once take turns: the second waits for the first's
// commit or rollback.
func (s *Store) ClaimAction(ctx context.Context, tx pgx.Tx, id uuid.UUID, by Actor, action, target, result string) (first bool, earlier string, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO console_actions (id, actor, action, target, result, created_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`,
		id, by.String(), action, target, result, s.Now())
	if err != nil {
		return false, "", wrap(err, "claim action")
	}
	if tag.RowsAffected() == 1 {
		return true, "", nil
	}
	err = tx.QueryRow(ctx, `SELECT result FROM console_actions WHERE id = $1`, id).Scan(&earlier)
	return false, earlier, wrap(err, "read action")
}
