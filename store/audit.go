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
	b.Queue(`INSERT INTO audit_log (at, actor, action, target, before, after, reason, request_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		at, by.String(), action, target, cleanMap(before), cleanMap(after), clean(reason), clean(by.RequestID))
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
