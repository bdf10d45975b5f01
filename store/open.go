package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// Limits every connection carries, so that no statement of ours holds a lock or a
// connection for longer than people wait for an answer.
const (
	statementTimeout = 15 * time.Second
	lockTimeout      = 5 * time.Second
	idleInTxTimeout  = 15 * time.Second
)

// Open connects a pool with application_name, statement_timeout, lock_timeout and
// idle_in_transaction_session_timeout set. maxConns 0 keeps the DSN's or pgx's default.
// It fails when the server does not answer. A tracer is told of every statement. The DSN
// may name several hosts and target_session_attrs=read-write: the pool follows the one
// that takes writes.
func Open(ctx context.Context, dsn, appName string, maxConns int32, tracer ...pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("store: database URL: %w", err)
	}
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	set := cfg.ConnConfig.RuntimeParams
	set["application_name"] = appName
	set["statement_timeout"] = millis(statementTimeout)
	set["lock_timeout"] = millis(lockTimeout)
	set["idle_in_transaction_session_timeout"] = millis(idleInTxTimeout)
	set["timezone"] = "UTC"
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if len(tracer) > 0 {
		cfg.ConnConfig.Tracer = multitracer.New(tracer...)
	}
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		// Times are UTC everywhere; by default pgx scans them into the machine's zone.
		c.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID,
			Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		pgxuuid.Register(c.TypeMap()) // else ids go by way of text
		return nil
	}
	var h hosts
	h.follow(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("store: database: %w", err)
	}
	h.pool.Store(pool)
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("store: database does not answer: %w", err)
	}
	return pool, nil
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
