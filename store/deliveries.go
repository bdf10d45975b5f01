package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Deliveries is what the inbox knows of a provider's events.
type Deliveries struct {
	LastVerified time.Time // zero: none ever
	LastSecret   string    // label of the secret that signed it
	Rejected     int       // since the given time, bounded by CountCap
	RejectedWhy  string    // signature verdict of the latest of these
}

// Deliveries reads when a provider's last verified event came and which were refused
// since a time.
func (s *Store) Deliveries(ctx context.Context, provider string, since time.Time) (d Deliveries, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT received_at, secret_label FROM webhook_events
		WHERE provider = $1 AND signature = 'valid' ORDER BY id DESC LIMIT 1`, provider).Scan(&d.LastVerified, &d.LastSecret)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Deliveries{}, wrap(err, "last verified event")
	}
	rows, err := s.pool.Query(ctx, `
		SELECT signature FROM webhook_events
		WHERE provider = $1 AND state = 'rejected' AND received_at >= $2 ORDER BY id DESC LIMIT $3`, provider, since, CountCap)
	if err != nil {
		return Deliveries{}, wrap(err, "refused events")
	}
	why, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return Deliveries{}, wrap(err, "refused events")
	}
	if d.Rejected = len(why); d.Rejected > 0 {
		d.RejectedWhy = why[0]
	}
	return d, nil
}
