package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/store/localpg"
)

// openStores makes sure of a PostgreSQL and a Redis. Where an address is empty it starts a
// private server, durable as by default, and writes its address there. stop ends what was
// started.
func openStores(ctx context.Context, databaseURL, redisURL *string) (stop func(), err error) {
	stopPostgres := func() {}
	if *databaseURL == "" {
		pg, err := localpg.Start(ctx, localpg.Options{})
		if err != nil {
			return nil, err
		}
		stopPostgres = func() { _ = pg.Stop() } // it ends with this process in any case
		*databaseURL = pg.DSN("postgres")
	}
	redis, err := openRedis(ctx, *redisURL)
	if err != nil {
		stopPostgres()
		return nil, err
	}
	*redisURL = redis.url
	return func() { redis.stop(); stopPostgres() }, nil
}

// openStores makes sure of the stores. A private server is prepared: it has a log to write
// into, and its commits are delayed.
func (o *ChargeOptions) openStores(ctx context.Context) (stop func(), err error) {
	if o.CommitDelay != 0 && (o.DatabaseURL != "" || o.CommitDelay < 0 || o.CommitDelay > 100*time.Millisecond) {
		return nil, errors.New("--commit-delay: must be at most 100ms, and DATABASE_URL unset: only a private server is slowed down")
	}
	private := o.DatabaseURL == ""
	stop, err = openStores(ctx, &o.DatabaseURL, &o.RedisURL)
	if err != nil || !private {
		return stop, err
	}
	if err := o.prepare(ctx); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// prepare makes a new server like one that has run for a while. PostgreSQL writes its log into
// files it has used before, as many as there are; a new server has none, and would spend each
// arm's time, the more the more it writes, on making them.
func (o *ChargeOptions) prepare(ctx context.Context) error {
	c, err := pgx.Connect(ctx, o.DatabaseURL)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // it is not used again
	const logMB = 1024
	sql := []string{
		fmt.Sprintf(`ALTER SYSTEM SET min_wal_size = '%dMB'`, logMB), `SELECT pg_reload_conf()`,
		fmt.Sprintf(`SELECT count(pg_logical_emit_message(false, 'bench', repeat('x', 1 << 20))) FROM generate_series(1, %d)`, logMB),
		`CHECKPOINT`,
	}
	if o.CommitDelay > 0 {
		sql = append(sql, fmt.Sprintf(`ALTER SYSTEM SET commit_delay = %d`, o.CommitDelay.Microseconds()),
			`ALTER SYSTEM SET commit_siblings = 0`, `SELECT pg_reload_conf()`)
	}
	for _, s := range sql {
		if _, err := c.Exec(ctx, s); err != nil {
			return fmt.Errorf("prepare the private server: %w", err)
		}
	}
	return nil
}

// beside makes another database on the server of databaseURL and returns its address; drop
// takes it away again.
func beside(ctx context.Context, databaseURL, name string) (other string, drop func(), err error) {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Scheme == "" {
		return "", nil, errors.New("DATABASE_URL has to be a URL, to name another database of that server")
	}
	exec := func(ctx context.Context, sql string) error {
		c, err := pgx.Connect(ctx, databaseURL)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // it is not used again
		_, err = c.Exec(ctx, sql)
		return err
	}
	quoted := pgx.Identifier{name}.Sanitize()
	// One that broke off has left its own behind.
	for _, sql := range []string{`DROP DATABASE IF EXISTS ` + quoted + ` WITH (FORCE)`, `CREATE DATABASE ` + quoted} {
		if err := exec(ctx, sql); err != nil {
			return "", nil, err
		}
	}
	u.Path = "/" + name
	return u.String(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = exec(ctx, `DROP DATABASE IF EXISTS `+quoted+` WITH (FORCE)`) // a private server ends with the run in any case
	}, nil
}
