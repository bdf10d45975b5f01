package store

import (
	"context"
	"errors"
)

// LoseCreations has payments made together be committed as always, and nobody told.
func (s *Store) LoseCreations() {
	s.creates.run = func(ctx context.Context, list []creating) ([]Payment, []bool, error) {
		_, _, err := s.createTogether(ctx, list)
		return nil, nil, errors.Join(err, errors.New("the connection broke after COMMIT"))
	}
}
