package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// loaders is how many tables are written at a time.
const loaders = 3

// load writes the books with COPY. The database has to be empty: books are never mixed
// with anybody's payments.
func (b books) load(ctx context.Context, pool *pgxpool.Pool, say func(string, ...any)) error {
	var some bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM payments)`).Scan(&some); err != nil {
		return err
	}
	if some {
		return errors.New("the database has payments; give an empty one")
	}
	first, others := b.tables()
	for _, group := range [][]table{first, others} {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(loaders)
		for _, t := range group {
			g.Go(func() error { return t.copyTo(ctx, pool, say) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	if err := b.loadSmall(ctx, pool); err != nil {
		return err
	}
	say("gathering statistics")
	return withConn(ctx, pool, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, `VACUUM (ANALYZE)`)
		return err
	})
}

func (t table) copyTo(ctx context.Context, pool *pgxpool.Pool, say func(string, ...any)) error {
	began, i := time.Now(), 0
	next := func() ([]any, error) {
		if i == t.rows {
			return nil, nil
		}
		i++
		return t.row(i - 1), nil
	}
	err := withConn(ctx, pool, func(c *pgx.Conn) error {
		_, err := c.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromFunc(next))
		return err
	})
	if err != nil {
		return fmt.Errorf("loading %s: %w", t.name, err)
	}
	say("%s: %d rows in %.0f s", t.name, t.rows, time.Since(began).Seconds())
	return nil
}

// withConn runs fn on a connection without the program's statement timeout, which is
// made for answers to people.
func withConn(ctx context.Context, pool *pgxpool.Pool, fn func(*pgx.Conn) error) error {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if _, err := c.Exec(ctx, `SET statement_timeout = 0`); err != nil {
		return err
	}
	defer func() { _, _ = c.Exec(ctx, `RESET statement_timeout`) }() // fails only with the connection
	return fn(c.Conn())
}

// small are tables that stay small in real life too: jobs that River keeps for a day,
// wallets, reconciliation runs, circuits' transitions and alerts.
var small = []string{
	`INSERT INTO river_job (state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, args, kind, queue)
	 SELECT 'completed', 1, 5, at, at, at, at, jsonb_build_object('payment_id', gen_random_uuid()), 'charge', 'charge_' || (ARRAY['atlas','borealis','cumulus'])[1 + n % 3]
	 FROM generate_series(1, 30000) n, LATERAL (SELECT now() - n * interval '2 seconds' AS at) t`,
	`INSERT INTO river_job (state, attempt, max_attempts, created_at, scheduled_at, args, kind, queue)
	 SELECT 'scheduled', 0, 5, now(), now() + n * interval '1 minute', jsonb_build_object('payment_id', gen_random_uuid()), 'reconcile', 'status_' || (ARRAY['atlas','borealis','cumulus'])[1 + n % 3]
	 FROM generate_series(1, 300) n`,
	`INSERT INTO wallets (id, owner_ref, currency, balance, created_at, updated_at)
	 SELECT gen_random_uuid(), 'customer-' || n, 'EUR', 100 * 40, now() - interval '30 days', now() FROM generate_series(1, 5000) n`,
	`INSERT INTO wallet_entries (wallet_id, operation_id, amount, balance_after, kind, actor, created_at)
	 SELECT w.id, 'op-' || w.owner_ref || '-' || n, 100, 100 * n, 'credit', 'client:bench', now() - interval '30 days' + n * interval '1 hour'
	 FROM wallets w, generate_series(1, 40) n`,
	`INSERT INTO reconciliation_runs (id, provider, window_from, window_to, state, pages, exceptions, matched, ours_only, status_differs, triggered_by, started_at, finished_at)
	 SELECT gen_random_uuid(), (ARRAY['atlas','borealis','cumulus'])[1 + n % 3], at - interval '1 hour', at, 'complete', 4, 3, 400, 2, 1, 'system:sync', at, at + interval '9 seconds'
	 FROM generate_series(1, 2000) n, LATERAL (SELECT now() - n * interval '20 minutes' AS at) t`,
	`INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, detail, at)
	 SELECT r.id, 'matched', p.id, p.provider_payment_id, '', r.started_at
	 FROM (SELECT id, started_at FROM reconciliation_runs ORDER BY started_at DESC LIMIT 50) r,
	      (SELECT id, provider_payment_id FROM payments WHERE provider_payment_id IS NOT NULL ORDER BY id DESC LIMIT 400) p`,
	`INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, detail, at)
	 SELECT r.id, CASE n WHEN 1 THEN 'status_differs' ELSE 'ours_only' END, gen_random_uuid(), '', 'not on the list', r.started_at
	 FROM reconciliation_runs r, generate_series(1, 3) n`,
	`INSERT INTO breaker_events (provider, class, epoch, from_state, to_state, reason, at)
	 SELECT (ARRAY['atlas','borealis','cumulus'])[1 + n % 3], 'charge', 'bench-' || n, CASE n % 2 WHEN 0 THEN 'closed' ELSE 'open' END,
	        CASE n % 2 WHEN 0 THEN 'open' ELSE 'closed' END, 'failures', now() - n * interval '1 hour'
	 FROM generate_series(1, 600) n`,
	`INSERT INTO alerts (kind, severity, provider, title, dedupe_key, created_at, delivered_at)
	 SELECT 'circuit_opened', 'warning', 'atlas', 'atlas: the circuit opened', 'bench-' || n, now() - n * interval '1 hour', now()
	 FROM generate_series(1, 2000) n`,
	`INSERT INTO provider_state (provider, last_webhook_at) SELECT unnest(ARRAY['atlas','borealis','cumulus']), now() ON CONFLICT DO NOTHING`,
}

func (b books) loadSmall(ctx context.Context, pool *pgxpool.Pool) error {
	return withConn(ctx, pool, func(c *pgx.Conn) error {
		for _, sql := range small {
			if _, err := c.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%w in %.60s", err, sql)
			}
		}
		return nil
	})
}
