package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"fusebox/breaker"
	"fusebox/jobs"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/web"
)

// app is one process's parts, in the order they are built: pool → insert-only
// enqueuer → store → adapters → circuits → what the role adds.
type app struct {
	cfg      config
	log      *slog.Logger
	pool     *pgxpool.Pool
	store    *store.Store
	jobs     *jobs.Enqueuer
	registry *provider.Registry
	redis    redis.UniversalClient
	circuits *breaker.Redis
	clock    *clock
	closers  []func() // before the connections
}

// build connects what every working role shares. name becomes application_name.
func build(ctx context.Context, cfg config, name string) (*app, error) {
	if err := cfg.requireRedis(); err != nil {
		return nil, err
	}
	a, err := buildReader(ctx, cfg, name)
	if err != nil {
		return nil, err
	}
	if err := a.connectCircuits(ctx); err != nil {
		a.close()
		return nil, err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var clock sync.WaitGroup
	clock.Go(func() { a.clock.follow(following, a.pool) })
	a.closers = append(a.closers, func() { stop(); clock.Wait() })
	return a, nil
}

// buildReader connects the books only: for tools that touch no circuit.
func buildReader(ctx context.Context, cfg config, name string) (*app, error) {
	if err := cfg.requireDatabase(); err != nil {
		return nil, err
	}
	a := &app{cfg: cfg, log: newLogger(cfg)}
	a.clock = newClock(cfg.now, a.log)
	var err error
	if a.registry, err = a.guarded().Build(cfg.providers); err != nil {
		return nil, err
	}
	if a.pool, err = a.openPool(ctx, name); err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	a.clock.ask(ctx, a.pool)
	enq, err := jobs.NewEnqueuer(a.pool, a.log)
	if err != nil {
		a.close()
		return nil, err
	}
	enq.UseClock(a.clock.now)
	a.jobs = enq
	a.store = store.New(a.pool, store.Options{Enqueuer: enq, Log: a.log, WakeAt: a.wakeAt, Now: a.clock.now})
	return a, nil
}

// startGrace is how long a starting process waits for a database that is itself
// starting, as after a reboot of the whole machine.
const startGrace = 30 * time.Second

// openPool waits out a database that cannot serve yet. What waiting does not change
// (a wrong password, a database that does not exist) is refused at once.
func (a *app) openPool(ctx context.Context, name string) (*pgxpool.Pool, error) {
	deadline := time.Now().Add(startGrace)
	var tracers []pgx.QueryTracer
	if a.cfg.tracer != nil {
		tracers = append(tracers, a.cfg.tracer)
	}
	for {
		pool, err := store.Open(ctx, a.cfg.DatabaseURL, "fusebox-"+name, a.cfg.DBConns, tracers...)
		if err == nil || !startingUp(err) || time.Now().After(deadline) {
			return pool, err
		}
		a.log.Warn("the database is not ready; waiting", "error", err)
		if !sleep(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
}

// startingUp reports whether err says that the server is there, or just restarting, and
// will serve soon: refused, reset and silent connections, the operator interventions, and
// a standby that nobody has promoted yet.
func startingUp(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "57P03" || pg.Code == "57P01" || pg.Code == "57P02"
	}
	return errors.Is(err, store.ErrNotPrimary) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
}

// connectCircuits does not insist on a live Redis: charging goes on without one.
func (a *app) connectCircuits(ctx context.Context) error {
	client, err := breaker.NewClient(a.cfg.patientRedisURL())
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	a.redis = client
	check, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	warning, err := breaker.CheckServer(check, client)
	switch {
	case errors.Is(err, breaker.ErrServer):
		return fmt.Errorf("REDIS_URL: %w", err)
	case err != nil:
		a.log.Warn("Redis cannot be reached; circuits are local until it can", "error", err)
	case warning != "" && !a.cfg.embeddedRedis:
		a.log.Warn(warning)
	}
	a.circuits = breaker.NewRedis(client, breaker.Options{
		Settings: a.circuitSettings, Names: a.registry.Names(), Worker: a.cfg.workerName(),
		Timeout: a.cfg.RedisTimeout, Log: a.log, Now: a.clock.now,
	})
	return nil
}

// circuitSettings gives the translation service, which moves no money, settings of
// its own.
func (a *app) circuitSettings(k breaker.Key) breaker.Settings {
	if k == web.TranslateKey {
		return breaker.NonMoney()
	}
	return a.cfg.circuit(k)
}

// wakeAt paces the payments that waited for a circuit by its ramp.
func (a *app) wakeAt(name string, charges bool, i int) time.Duration {
	k := breaker.Key{Name: name, Class: classStatus}
	if charges {
		k.Class = classCharge
	}
	return jobs.WakeAt(a.circuitSettings(k), i)
}

func (a *app) runner(only []string) (*jobs.Runner, error) {
	for _, name := range only {
		if _, ok := a.registry.Get(name); !ok {
			return nil, fmt.Errorf("--providers: %q is not in FUSEBOX_PROVIDERS", name)
		}
	}
	return jobs.New(jobs.Config{
		Store: a.store, Registry: a.registry, Providers: a.cfg.providers,
		Breaker: a.circuits, Events: a.circuits, Circuits: a.circuitSettings, Sinks: a.cfg.sinks(), Only: only,
		Worker: a.cfg.workerName(), SweepEvery: a.cfg.SweepEvery, UnknownAged: a.cfg.UnknownAged,
		CallsKept: a.cfg.CallsKept, Log: a.log, Now: a.clock.now, At: failpoint,
	})
}

func (a *app) server(demo *web.Demo) (*web.Server, error) {
	proxies, err := a.cfg.trustedProxies()
	if err != nil {
		return nil, fmt.Errorf("FUSEBOX_TRUSTED_PROXIES: %w", err)
	}
	pages, err := jobPages(a.jobs.Client(), a.log)
	if err != nil {
		return nil, err
	}
	oidc, err := a.cfg.SignIn.oidc()
	if err != nil {
		return nil, err
	}
	return web.New(web.Config{
		OIDC: oidc, RequireFactor: a.cfg.SignIn.RequireFactor,
		Store: a.store, Breaker: a.circuits, Providers: a.cfg.providers, Registry: a.registry,
		PublicURL: a.cfg.publicURL(), Version: version, TranslateURL: a.cfg.TranslateURL,
		TranslateKey: a.cfg.TranslateKey, MetricsToken: a.cfg.MetricsToken, TrustedProxies: proxies,
		JobPages: pages, FourEyes: a.cfg.fourEyes, Demo: demo, Log: a.log, Now: a.clock.now,
	})
}

func (a *app) close() {
	for _, f := range a.closers {
		f()
	}
	if a.redis != nil {
		if err := a.redis.Close(); err != nil {
			a.log.Warn("closing Redis", "error", err)
		}
	}
	if a.pool != nil {
		a.pool.Close()
	}
}

func (c config) publicURL() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listen
}

// printBudgets refuses time budgets that do not fit each other and prints what a
// hanging provider can cost.
func printBudgets(w io.Writer, ps []provider.Settings, reg *provider.Registry) error {
	for _, p := range ps {
		budgets, err := jobs.CheckBudgets([]provider.Settings{p}, reg)
		if err != nil {
			return settingNames(p.Name, err)
		}
		b := budgets[0]
		fmt.Fprintf(w, "provider %s: a hang can hold %d workers for %.0f worker-seconds; at most %d requests per charge, %d per lookup\n",
			b.Provider, b.Workers, b.HangSeconds, b.RequestsPerCharge, b.RequestsPerLookup)
		if b.RequestsPerOperation > 0 {
			fmt.Fprintf(w, "provider %s: at most %d requests per refund, %d per lookup of one\n",
				b.Provider, b.RequestsPerOperation, b.RequestsPerOperationLookup)
		}
	}
	return nil
}
