package jobs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// queued is a transaction that keeps what River's client writes into one, for a batch: new
// jobs then travel with the statements that make their work, instead of in a COPY, which
// takes two round trips of its own. What a job's row holds stays River's business.
type queued struct {
	pool *pgxpool.Pool // answers what River asks about the server
	rows [][]any       // of jobs, in the order of jobColumns
	also []statement   // what is written beside them: the news for the workers
}

type statement struct {
	sql  string
	args []any
}

// jobColumns are those that River's client fills, in its order.
var jobColumns = []string{"args", "created_at", "kind", "max_attempts", "metadata", "priority", "queue", "scheduled_at", "state",
	"tags", "unique_key", "unique_states"}

// errQueued is what River gets for anything that it does not do today when it inserts jobs:
// what it then wanted must not be guessed.
var errQueued = errors.New("jobs: River's client asks more of a transaction than to insert")

// queue adds the jobs to b, those of them for which where holds of v.args.
func (q *queued) queue(b *pgx.Batch, where string) error {
	if len(q.rows) == 0 {
		return nil
	}
	var args, keys [][]byte
	var queues []string
	first := q.rows[0]
	for _, row := range q.rows {
		arg, ok1 := row[0].([]byte)
		name, ok2 := row[6].(string)
		key, ok3 := row[10].([]byte)
		same := func(i int) bool { return i == 0 || i == 6 || i == 10 || reflect.DeepEqual(row[i], first[i]) }
		for i := range row {
			if !ok1 || !ok2 || !ok3 || !same(i) {
				return fmt.Errorf("%w jobs of one kind: column %s", errQueued, jobColumns[i])
			}
		}
		args, queues, keys = append(args, arg), append(queues, name), append(keys, key)
	}
	b.Queue(`INSERT INTO river_job (args, queue, unique_key, created_at, kind, max_attempts, metadata, priority, scheduled_at, state, tags, unique_states)
		SELECT v.args, v.queue, v.key, $4::timestamptz, $5::text, $6::smallint, $7::jsonb, $8::smallint, $9::timestamptz, $10::text::river_job_state,
			$11::varchar[], $12::bit(8)
		FROM unnest($1::jsonb[], $2::text[], $3::bytea[]) AS v (args, queue, key) WHERE `+where,
		args, queues, keys, first[1], first[2], first[3], first[4], first[5], first[7], fmt.Sprint(first[8]), first[9], first[11])
	for _, s := range q.also {
		b.Queue(s.sql, s.args...)
	}
	return nil
}

// CopyFrom implements pgx.Tx.
func (q *queued) CopyFrom(_ context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (n int64, err error) {
	if len(table) != 1 || table[0] != "river_job" || !slices.Equal(columns, jobColumns) {
		return 0, fmt.Errorf("%w into %v (%v)", errQueued, table, columns)
	}
	for src.Next() {
		row, err := src.Values()
		if err != nil {
			return 0, err
		}
		q.rows = append(q.rows, row)
		n++
	}
	return n, src.Err()
}

// Exec implements pgx.Tx.
func (q *queued) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.also = append(q.also, statement{sql, args})
	return pgconn.CommandTag{}, nil
}

// Query implements pgx.Tx.
func (*queued) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errQueued }

// QueryRow implements pgx.Tx. River asks once which server this is.
func (q *queued) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if strings.Contains(sql, "PGGetProductAndVersion") {
		return q.pool.QueryRow(ctx, sql, args...)
	}
	return noRow{}
}

// noRow refuses a question.
type noRow struct{}

// Scan implements pgx.Row.
func (noRow) Scan(...any) error { return errQueued }

// Begin implements pgx.Tx.
func (*queued) Begin(context.Context) (pgx.Tx, error) { return nil, errQueued }

// Commit implements pgx.Tx.
func (*queued) Commit(context.Context) error { return errQueued }

// Rollback implements pgx.Tx.
func (*queued) Rollback(context.Context) error { return errQueued }

// SendBatch implements pgx.Tx.
func (*queued) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return noResults{} }

// LargeObjects implements pgx.Tx.
func (*queued) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }

// Prepare implements pgx.Tx.
func (*queued) Prepare(context.Context, string, string) (*pgconn.StatementDescription, error) {
	return nil, errQueued
}

// Conn implements pgx.Tx.
func (*queued) Conn() *pgx.Conn { return nil }

// noResults refuses a batch.
type noResults struct{ pgx.BatchResults }

// Exec implements pgx.BatchResults.
func (noResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, errQueued }

// Close implements pgx.BatchResults.
func (noResults) Close() error { return errQueued }
