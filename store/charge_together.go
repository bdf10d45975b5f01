package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Chargeable is a payment and what its charge's attempts left behind.
type Chargeable struct {
	Payment
	Attempts int    // sends intended so far, whatever became of them
	NotSent  int    // of these, provably not sent
	Key      string // operation key; empty before the first attempt
	// First and Last are when attempts were marked as maybe sent; zero before the first.
	First, Last time.Time
}

// Chargeable reads a payment for its charge job, together with what other jobs ask for
// at the time. ErrNotFound.
func (s *Store) Chargeable(ctx context.Context, id uuid.UUID) (Chargeable, error) {
	if c, did := s.reads.do(ctx, id); did {
		return c, nil
	}
	list, found, err := s.readTogether(ctx, []uuid.UUID{id})
	if err != nil {
		return Chargeable{}, err
	}
	if !found[0] {
		return Chargeable{}, ErrNotFound
	}
	return list[0], nil
}

func (s *Store) readTogether(ctx context.Context, ids []uuid.UUID) (out []Chargeable, found []bool, err error) {
	at := make(map[uuid.UUID]Chargeable, len(ids))
	var b pgx.Batch
	settings(&b)
	b.Queue(`SELECT `+paymentColumns+` FROM payments WHERE id = ANY($1)`, ids).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Payment, error) { return scanPayment(r) })
		for _, p := range list {
			at[p.ID] = Chargeable{Payment: p}
		}
		return err
	})
	// Not by an index on the operation, which all attempts have in common. The batch is one
	// transaction, so that its settings hold here too.
	b.Queue(`SELECT payment_id, count(*), count(*) FILTER (WHERE outcome = 'not_sent'), min(operation_key), min(marked_at), max(marked_at)
		FROM attempts WHERE payment_id = ANY($1) AND operation || '' = $2 GROUP BY payment_id`, ids, operationCharge).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var c Chargeable
		_, err := pgx.ForEachRow(rows, []any{&id, &c.Attempts, &c.NotSent, &c.Key, &c.First, &c.Last}, func() error {
			if p, ok := at[id]; ok {
				c.Payment = p.Payment
				at[id] = c
			}
			return nil
		})
		return err
	})
	if err = s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, nil, wrap(err, "read payments to charge")
	}
	out, found = make([]Chargeable, len(ids)), make([]bool, len(ids))
	for i, id := range ids {
		out[i], found[i] = at[id]
	}
	return out, found, nil
}
