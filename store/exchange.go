package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// exchange is a transaction in as few round trips as it has questions: BEGIN goes out with
// its first statements and COMMIT with its last. Under load a round trip is mostly waiting
// for the processor, on both sides.
//
// Since nothing of the last batch has been looked at when the commit is done, whatever
// must stop it has to fail in the server: see queueExactly.
type exchange struct {
	conn   *pgxpool.Conn
	begun  bool // BEGIN was sent
	ended  bool // COMMIT was done
	topics map[string]struct{}
}

// inExchange runs fn, which ends with x.commit, as InTx does: everything is rolled back
// after an error, and after contention fn runs again.
func (s *Store) inExchange(ctx context.Context, fn func(ctx context.Context, x *exchange) error) error {
	return s.again(ctx, func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("store: begin: %w", err)
		}
		x := &exchange{conn: conn, topics: map[string]struct{}{}}
		defer x.end(ctx)
		if err := fn(ctx, x); err != nil {
			return err
		}
		if x.ended {
			s.bell.mark(x.topics, ringAfter)
		}
		return nil
	})
}

// send is one round trip.
func (x *exchange) send(ctx context.Context, b *pgx.Batch) error {
	if !x.begun {
		x.begun = true
		b.QueuedQueries = append([]*pgx.QueuedQuery{{SQL: `BEGIN`}}, b.QueuedQueries...)
	}
	return x.conn.SendBatch(ctx, b).Close()
}

// commit sends the last statements and commits. An error after COMMIT was sent leaves open
// whether it was done, as with any commit.
func (x *exchange) commit(ctx context.Context, b *pgx.Batch, topics ...string) error {
	committed := false
	b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if committed = tag.String() == "COMMIT"; !committed {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	if err := x.send(ctx, b); err != nil {
		return err
	}
	if x.ended = committed; !committed {
		return errors.New("store: commit: no answer to it")
	}
	for _, t := range topics {
		x.topics[t] = struct{}{}
	}
	return nil
}

// Query reads within the exchange, between its batches.
func (x *exchange) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return x.conn.Query(ctx, sql, args...)
}

// end gives the connection back, without a transaction in it.
func (x *exchange) end(ctx context.Context) {
	if x.begun && !x.ended && !x.conn.Conn().IsClosed() {
		ctx, cancel := Detached(ctx)
		defer cancel()
		_, _ = x.conn.Exec(ctx, `ROLLBACK`) // failing, the pool throws the connection away
	}
	x.conn.Release()
}

// queueExactly queues a statement that writes rows and fails, in the server, unless it
// writes n of them. sql has no RETURNING of its own.
func queueExactly(b *pgx.Batch, n int, sql string, args ...any) {
	b.Queue(fmt.Sprintf(`WITH written AS (%s RETURNING 1) SELECT 1 / (count(*) = $%d)::int FROM written`, sql, len(args)+1), append(args, n)...)
}
