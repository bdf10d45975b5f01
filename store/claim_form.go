package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ErrActionDone: the form was sent before, and what it asked for is done.
var ErrActionDone = errors.New("store: this action is done already")

// claimForm claims the one-time id of a form in tx; Nil: a command, which has none.
// ErrActionDone when it was claimed before.
func (s *Store) claimForm(ctx context.Context, tx pgx.Tx, action uuid.UUID, by Actor, what, target string) error {
	if action == uuid.Nil {
		return nil
	}
	first, _, err := s.ClaimAction(ctx, tx, action, by, what, target, "done")
	if err == nil && !first {
		return ErrActionDone
	}
	return err
}
