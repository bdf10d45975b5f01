package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// errRepeated rolls a repeated action back; its first run already did the work.
var errRepeated = errors.New("store: action was done before")

// SyncNow enqueues a reconciliation run of a provider on a person's wish, once per
// action id, with its audit row. A run already under way is joined, not doubled.
func (s *Store) SyncNow(ctx context.Context, actionID uuid.UUID, providerName string, by Actor) error {
	target := "provider:" + providerName
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		first, _, err := s.ClaimAction(ctx, tx, actionID, by, "reconciliation.run", target, "enqueued")
		if err != nil || !first {
			return err
		}
		if err := s.Audit(ctx, tx, by, "reconciliation.run", target, "", nil, nil); err != nil {
			return err
		}
		return s.enq.Sync(ctx, tx, providerName, by.String())
	})
	if err != nil {
		return fmt.Errorf("sync %s now: %w", providerName, err)
	}
	return nil
}

// ReapplyWebhook applies an inbox row again on a person's wish, at once and once per
// action id, with its audit row, and returns the row's state afterwards. An applied
// row stays as it is. The signature was checked at receipt and its time is not looked
// at again. Errors: ErrNotFound, ErrNotAllowed (rejected and unparsed rows).
func (s *Store) ReapplyWebhook(ctx context.Context, actionID uuid.UUID, eventID int64, parse func(raw []byte) ([]provider.Event, error), by Actor) (string, error) {
	var state, earlier string
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		in, err := lockEntry(ctx, tx, eventID)
		if err != nil {
			return err
		}
		if in.state == inboxRejected || in.state == inboxUnparsed {
			// Unless this very action made it so: then its result is the answer.
			if earlier, err = actionResult(ctx, tx, actionID); err != nil {
				return err
			}
			return errRepeated
		}
		if state, err = s.ApplyWebhook(ctx, tx, eventID, parse); err != nil {
			return err
		}
		// Claimed last, because only now the result is known. The row lock makes two
		// clicks take turns, so the second finds the first one's claim.
		target := "webhook:" + strconv.FormatInt(eventID, 10)
		var first bool
		if first, earlier, err = s.ClaimAction(ctx, tx, actionID, by, "webhook.reapply", target, state); err != nil {
			return err
		}
		if !first {
			return errRepeated
		}
		return s.Audit(ctx, tx, by, "webhook.reapply", target, "",
			map[string]any{"state": in.state}, map[string]any{"state": state})
	})
	if errors.Is(err, errRepeated) {
		return earlier, nil
	}
	if err != nil {
		return "", fmt.Errorf("reapply webhook %d: %w", eventID, err)
	}
	return state, nil
}

// actionResult reads what an action id was claimed with. ErrNotAllowed: it never was.
func actionResult(ctx context.Context, tx pgx.Tx, id uuid.UUID) (result string, err error) {
	err = tx.QueryRow(ctx, `SELECT result FROM console_actions WHERE id = $1`, id).Scan(&result)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrNotAllowed
	}
	return result, err
}
