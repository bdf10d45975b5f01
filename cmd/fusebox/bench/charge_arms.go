package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// openConns is a pool with as many connections as there are clients, all open.
func openConns(ctx context.Context, dsn string, n int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the database URL is not valid")
	}
	cfg.MaxConns, cfg.MinConns = int32(n), int32(n)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// benchTable is a payments table with nothing but what a payment cannot do without.
func benchTable(ctx context.Context, pool *pgxpool.Pool, name string) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
		id uuid PRIMARY KEY, idempotency_key text NOT NULL UNIQUE, order_ref text NOT NULL, provider text NOT NULL, amount bigint NOT NULL,
		currency text NOT NULL, status text NOT NULL, created_at timestamptz NOT NULL, settled_at timestamptz)`, pgx.Identifier{name}.Sanitize()))
	return err
}

const (
	floorTable = "bench_floor"
	plainTable = "bench_plain"
)

func insertInto(table string) string {
	return `INSERT INTO ` + table + ` (id, idempotency_key, order_ref, provider, amount, currency, status, created_at)
		VALUES ($1, $2, 'ORDER', 'atlas', 4900, 'EUR', 'pending', now())`
}

func settleIn(table string) string {
	return `UPDATE ` + table + ` SET status = 'succeeded', settled_at = now() WHERE id = $1 AND status = 'pending'`
}

// floorCharges are the two commits that no solution can do without: the payment is
// there before anybody calls a provider, and its outcome is there afterwards.
func floorCharges(ctx context.Context, dsn string, clients int) (chargeArm, error) {
	pool, err := openConns(ctx, dsn, clients)
	if err != nil {
		return chargeArm{}, err
	}
	if err := benchTable(ctx, pool, floorTable); err != nil {
		pool.Close()
		return chargeArm{}, err
	}
	run := func(ctx context.Context, clients, n int, accept *histogram) error {
		var mu sync.Mutex
		return spread(clients, n, func(int) error {
			id := uuid.Must(uuid.NewV7())
			began := time.Now()
			if _, err := pool.Exec(ctx, insertInto(floorTable), id, id.String()); err != nil {
				return err
			}
			took := time.Since(began)
			mu.Lock()
			accept.add(took)
			mu.Unlock()
			_, err := pool.Exec(ctx, settleIn(floorTable), id)
			return err
		})
	}
	return chargeArm{"floor", run, pool.Close}, nil
}

// plainArgs is the peer's job.
type plainArgs struct {
	ID uuid.UUID `json:"id"`
}

func (plainArgs) Kind() string { return "bench_plain" }

// plainWorker settles a payment in the transaction that completes its job. It calls no
// provider: the peer is spared what Fusebox does between its commits.
type plainWorker struct {
	river.WorkerDefaults[plainArgs]
	pool *pgxpool.Pool
	done chan struct{}
}

func (w *plainWorker) Work(ctx context.Context, job *river.Job[plainArgs]) error {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // does nothing after the commit
	if _, err := tx.Exec(ctx, settleIn(plainTable), job.Args.ID); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.done <- struct{}{}
	return nil
}

func plainTables(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	return benchTable(ctx, pool, plainTable)
}

// plainRiver is River as its documentation shows it, with its tables as it makes them: the
// payment and its job in one transaction, the outcome and the job's end in another.
func plainRiver(ctx context.Context, databaseURL string, clients int) (arm chargeArm, err error) {
	dsn, drop, err := beside(ctx, databaseURL, "fusebox_bench_river")
	if err != nil {
		return chargeArm{}, err
	}
	defer func() {
		if err != nil {
			drop()
		}
	}()
	pool, err := openConns(ctx, dsn, clients+4) // River's own notifier and fetcher need some
	if err != nil {
		return chargeArm{}, err
	}
	if err = plainTables(ctx, pool); err != nil {
		pool.Close()
		return chargeArm{}, err
	}
	done := make(chan struct{}, 1<<16)
	workers := river.NewWorkers()
	river.AddWorker(workers, &plainWorker{pool: pool, done: done})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues: map[string]river.QueueConfig{plainTable: {MaxWorkers: clients, FetchCooldown: river.FetchCooldownMin}}})
	if err == nil {
		err = client.Start(context.WithoutCancel(ctx))
	}
	if err != nil {
		pool.Close()
		return chargeArm{}, err
	}
	pay := func(ctx context.Context) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // does nothing after the commit
		id := uuid.Must(uuid.NewV7())
		if _, err := tx.Exec(ctx, insertInto(plainTable), id, id.String()); err != nil {
			return err
		}
		if _, err := client.InsertTx(ctx, tx, plainArgs{id}, &river.InsertOpts{Queue: plainTable}); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	run := func(ctx context.Context, clients, n int, accept *histogram) error {
		var mu sync.Mutex
		err := spread(clients, n, func(int) error {
			began := time.Now()
			if err := pay(ctx); err != nil {
				return err
			}
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			accept.add(took)
			return nil
		})
		for range n {
			if err != nil {
				break
			}
			select {
			case <-done:
			case <-time.After(time.Minute):
				err = errors.New("a job was not worked within a minute")
			}
		}
		return err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = client.Stop(ctx) // the benchmark is over either way
		pool.Close()
		drop()
	}
	return chargeArm{"plain_river", run, stop}, nil
}
