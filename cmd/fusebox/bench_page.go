package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/cmd/fusebox/bench"
	"fusebox/store"
)

// benchPage measures the console's pages on large books. DATABASE_URL may name an empty
// database to load them into.
func benchPage(ctx context.Context, args []string, out io.Writer) error {
	o := bench.PageOptions{DatabaseURL: os.Getenv("DATABASE_URL"), RedisURL: os.Getenv("REDIS_URL"), Progress: os.Stderr,
		Viewers: []int{1, 100}, Serve: servePages}
	fs := newFlags("bench page", "")
	fs.BoolVar(&o.JSON, "json", false, "print JSON")
	fs.IntVar(&o.Payments, "payments", 1_000_000, "payments to load")
	fs.IntVar(&o.Events, "events", 3, "timeline rows of each payment")
	fs.IntVar(&o.Webhooks, "webhooks", 1_000_000, "webhook rows to load")
	fs.IntVar(&o.Rounds, "rounds", 100, "how often each page is asked for")
	fs.DurationVar(&o.Watch, "watch", 20*time.Second, "how long each number of viewers watches")
	only := fs.String("only", "", "comma-separated pages to measure (default: all)")
	quiet := fs.Bool("quiet", false, "say nothing on standard error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if *quiet {
		o.Progress = nil
	}
	return bench.Page(ctx, o, out)
}

// servePages starts the console in this process, without workers: nothing but the pages
// uses the database. Its providers answer to nobody.
func servePages(ctx context.Context, databaseURL, redisURL string) (bench.Console, error) {
	env := []string{"DATABASE_URL=" + databaseURL, "REDIS_URL=" + redisURL, "FUSEBOX_LOG_LEVEL=error",
		"FUSEBOX_PROVIDERS=" + strings.Join(bench.Providers, ",")}
	for _, name := range bench.Providers {
		prefix := "PROVIDER_" + strings.ToUpper(name) + "_"
		env = append(env, prefix+"BASE_URL=http://127.0.0.1:9", prefix+"API_KEY=bench", prefix+"WEBHOOK_SECRETS="+benchSecret)
	}
	cfg, err := loadConfig(env)
	if err != nil {
		return bench.Console{}, err
	}
	c := bench.Console{Queries: new(atomic.Int64), Email: "bench@fusebox.test", Password: randomSecret()}
	cfg.tracer = statementCounter{c.Queries}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	c.URL = "http://" + ln.Addr().String()
	cfg.PublicURL = c.URL
	if err := migrated(ctx, databaseURL); err != nil {
		_ = ln.Close()
		return c, err
	}
	a, err := build(ctx, cfg, "bench")
	if err != nil {
		_ = ln.Close()
		return c, err
	}
	if _, err := a.store.CreateUser(ctx, store.NewUser{Email: c.Email, Name: "Bench", Role: store.RoleAdmin, Password: c.Password}, commandLine); err != nil {
		a.close()
		_ = ln.Close()
		return c, err
	}
	c.Pool = a.pool
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- a.serve(serving, ln, nil, false) }()
	c.Close = func() {
		stop()
		<-served
		a.close()
	}
	return c, nil
}

// migrated brings an empty database to this version.
func migrated(ctx context.Context, databaseURL string) error {
	pool, err := store.Open(ctx, databaseURL, "fusebox-bench-migrate", 2)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	return store.MigrateUp(ctx, pool)
}

// statementCounter counts what the program sends to the database, each statement of a
// batch too.
type statementCounter struct{ n *atomic.Int64 }

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (statementCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (c statementCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	c.n.Add(1)
}

func (statementCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
