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

	row uint32 // see Seen
}

// Seen is a payment as it was read. A transaction that finds its row to be the same version
// still need not read it again.
type Seen struct {
	Payment Payment
	row     uint32 // xmin: the transaction that wrote this version of the row; 0: not known
}

// of is s if it is of that payment, else what is known of one that nobody has read.
func (s Seen) of(id uuid.UUID) Seen {
	if s.Payment.ID != id {
		return Seen{Payment: Payment{ID: id}}
	}
	return s
}

// Seen returns the payment as it was read.
func (c Chargeable) Seen() Seen { return Seen{c.Payment, c.row} }

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
	b.Queue(`SELECT `+paymentColumns+`, xmin FROM payments WHERE id = ANY($1)`, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var c Chargeable
			var err error
			if c.Payment, err = scanPayment(withMore{rows, []any{&c.row}}); err != nil {
				return err
			}
			at[c.ID] = c
		}
		return rows.Err()
	})
	// Not by an index on the operation, which all attempts have in common. The batch is one
	// transaction, so that its settings hold here too.
	b.Queue(`SELECT payment_id, count(*), count(*) FILTER (WHERE outcome = 'not_sent'), min(operation_key), min(marked_at), max(marked_at)
		FROM attempts WHERE payment_id = ANY($1) AND operation || '' = $2 GROUP BY payment_id`, ids, operationCharge).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var c Chargeable
		_, err := pgx.ForEachRow(rows, []any{&id, &c.Attempts, &c.NotSent, &c.Key, &c.First, &c.Last}, func() error {
			if p, ok := at[id]; ok {
				c.Payment, c.row = p.Payment, p.row
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
