package store

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// wakeOperations brings operations that wait for something forward: the first sends of
// pending ones with sends true, lookups of the others with it false.
func (s *Store) wakeOperations(ctx context.Context, tx pgx.Tx, providerName string, sends bool, what waiting, start time.Time, before, limit int) (int, error) {
	rows, err := tx.Query(ctx, `
		UPDATE operations SET next_check_why = $4
		WHERE id IN (SELECT id FROM operations WHERE provider = $1 AND next_check_why = ANY($2) AND (status = 'pending') = $3
			AND status IN ('pending', 'processing', 'unknown') AND $6 IN ('', status_reason) ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED)
		RETURNING id`, providerName, what.whys, sends, nextWork(sends), limit, what.reason)
	if err != nil {
		return 0, wrap(err, "wake operations")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, wrap(err, "wake operations")
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	for i, id := range ids {
		at := start.Add(s.wakeAt(providerName, sends, before+i))
		if _, err := tx.Exec(ctx, `UPDATE operations SET next_check_at = least(next_check_at, $2) WHERE id = $1`, id, at); err != nil {
			return 0, wrap(err, "wake operation")
		}
		if err := s.enqueueOperation(ctx, tx, id, providerName, sends, at); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

func nextWork(sends bool) string {
	if sends {
		return whyCharge
	}
	return whyReconcile
}

func (s *Store) enqueueOperation(ctx context.Context, tx pgx.Tx, id uuid.UUID, providerName string, sends bool, at time.Time) error {
	if sends {
		return s.enqueuer().Operation(ctx, tx, id, providerName, at)
	}
	return s.enqueuer().OperationLookup(ctx, tx, id, providerName, at)
}
