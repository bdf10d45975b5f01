package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FindMany returns the data of those of the sessions that live, by token, in one
// statement.
func (s *Sessions) FindMany(ctx context.Context, tokens []string) (map[string][]byte, error) {
	rows, err := s.pool.Query(ctx, `SELECT token, data FROM sessions WHERE token = ANY ($1) AND now() < expiry`, tokens)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	var token string
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&token, &data}, func() error {
		found[token], data = data, nil // the next row must not write into this one's bytes
		return nil
	})
	return found, err
}

// UsersByID reads many people in one statement; who does not exist is left out.
func (s *Store) UsersByID(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]User, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+userColumns+` FROM users WHERE id = ANY ($1)`, ids)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (User, error) { return scanUser(r) })
	found := make(map[uuid.UUID]User, len(list))
	for _, u := range list {
		found[u.ID] = u
	}
	return found, err
}
