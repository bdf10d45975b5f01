package store

import (
	"context"
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
	pool   *pgxpool.Pool
	conn   *pgxpool.Conn // nil until BEGIN is sent
	ended  bool          // COMMIT was done
	topics map[string]struct{}
}

// inExchange runs fn, which ends with x.commit, as InTx does: everything is rolled back
// after an error, and after contention fn runs again.
func (s *Store) inExchange(ctx context.Context, fn func(ctx context.Context, x *exchange) error) error {
	return s.again(ctx, func() error {
		x := &exchange{pool: s.pool, topics: map[string]struct{}{}}
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
	if x.conn == nil {
		conn, err := x.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("store: begin: %w", err)
		}
		x.conn = conn
		b.QueuedQueries = append([]*pgx.QueuedQuery{{SQL: `BEGIN`}}, b.QueuedQueries...)
	}
	return x.conn.SendBatch(ctx, b).Close()
}

// commit sends the last statements and commits. An error after COMMIT was sent leaves open
// whether it was done, as with any commit.
func (x *exchange) commit(ctx context.Context, b *pgx.Batch, topics ...string) error {
	b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if x.ended = tag.String() == "COMMIT"; !x.ended {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	if err := x.send(ctx, b); err != nil {
		return err
	}
	for _, t := range topics {
		x.topics[t] = struct{}{}
	}
	return nil
}

// Query reads within the exchange, between its batches; not before the first.
func (x *exchange) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return x.conn.Query(ctx, sql, args...)
}

// end gives the connection back, without a transaction in it.
func (x *exchange) end(ctx context.Context) {
	if x.conn == nil {
		return
	}
	if !x.ended && !x.conn.Conn().IsClosed() {
		ctx, cancel := Detached(ctx)
		defer cancel()
		_, _ = x.conn.Exec(ctx, `ROLLBACK`) // failing, the pool throws the connection away
	}
	x.conn.Release()
}

// queueExactly queues a statement that writes rows and fails, in the server, unless it
// writes n of them: the batch did not write what it had read and locked, and its calls then
// go alone and find out why. sql has no RETURNING of its own.
func queueExactly(b *pgx.Batch, n int, sql string, args ...any) {
	b.Queue(`WITH written AS (`+sql+` RETURNING 1) SELECT `+orFail("count(*)", len(args)+1)+` FROM written`, append(args, n)...)
}

// orFail is an expression that fails with codeText, and says why in the server's log, unless
// count is the value of a parameter.
func orFail(count string, param int) string {
	return fmt.Sprintf(`(CASE %[1]s WHEN $%[2]d THEN '0' ELSE 'fusebox: ' || %[1]s || ' rows, not ' || $%[2]d || '; done again, one by one' END)::int`, count, param)
}
