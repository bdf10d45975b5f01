package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"fusebox/jobs"
	"fusebox/store"
	"fusebox/store/localpg"
)

// world is everything that runs.
type world struct {
	o     Options
	log   *slog.Logger
	dir   string // ledgers, Redis's file
	logs  string // of the processes
	mesh  *mesh
	pg    *localpg.Server
	redis *redisUnit
	sims  map[string]*sim
	units map[string]*unit // serve-1 … work-3, sim-NAME

	pool   *pgxpool.Pool // our own way to Postgres: no proxy in between
	store  *store.Store
	env    []string // of every process, but for the stores
	apis   []string // base URLs of the serve processes, through their proxies
	apiKey string
	relay  *relay

	rolled  int // rolling restarts so far
	closers []func()

	mu       sync.Mutex
	findings []string
}

// operator is who acts for the person at the console.
var operator = store.Actor{Kind: "user", ID: "chaos", Name: "Chaos operator"}

const (
	chaosAPIKey = "sk_test_chaos" // of every simulator; as Stripe's look
	// chaosSecret is long enough for a webhook secret and secret to nobody.
	chaosSecret = "0123456789abcdef0123456789abcdef"
)

// newWorld starts everything, the stores first.
func newWorld(ctx context.Context, o Options) (w *world, err error) {
	w = &world{o: o, log: o.Log, mesh: newMesh(), sims: map[string]*sim{}, units: map[string]*unit{}}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err = w.makeDir(); err != nil {
		return nil, err
	}
	w.defers(w.mesh.close)
	for _, step := range []func(context.Context) error{w.startPostgres, w.startRedis, w.startSims, w.startOurs, w.startRelay} {
		if err = step(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) defers(f func()) { w.closers = append(w.closers, f) }

func (w *world) close() {
	for _, f := range slices.Backward(w.closers) {
		f()
	}
	w.closers = nil
}

// finds notes what is wrong.
func (w *world) finds(format string, a ...any) {
	line := fmt.Sprintf(format, a...)
	w.log.Error("finding", "what", line)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, line)
}

// tempPrefix begins the name of a run's directory; the maker's process id follows.
const tempPrefix = "fusebox-chaos-"

func (w *world) makeDir() (err error) {
	removeOrphans()
	if w.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", tempPrefix, os.Getpid())); err != nil {
		return err
	}
	w.defers(func() { _ = os.RemoveAll(w.dir) })
	if w.logs = w.o.Logs; w.logs == "" {
		w.logs = w.dir
	}
	return os.MkdirAll(w.logs, 0o700)
}

// removeOrphans deletes the directories of runs that were killed; their processes died
// with them.
func removeOrphans() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*")) // the pattern is ours
	for _, dir := range dirs {
		var maker int
		_, err := fmt.Sscanf(strings.TrimPrefix(filepath.Base(dir), tempPrefix), "%d-", &maker)
		if err != nil || errors.Is(syscall.Kill(maker, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

func (w *world) startPostgres(ctx context.Context) (err error) {
	// Durable, as in production: a restart may lose nothing that was committed.
	if w.pg, err = localpg.Start(ctx, localpg.Options{TCP: true}); err != nil {
		return err
	}
	w.defers(func() { _ = w.pg.Stop() })
	if w.pool, err = store.Open(ctx, w.pg.DSN("postgres"), "chaos", 8); err != nil {
		return err
	}
	w.defers(w.pool.Close)
	if err = store.MigrateUp(ctx, w.pool); err != nil {
		return err
	}
	enq, err := jobs.NewEnqueuer(w.pool, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	w.store = store.New(w.pool, store.Options{Enqueuer: enq, Log: slog.New(slog.DiscardHandler)})
	_, w.apiKey, err = w.store.CreateAPIKey(ctx, "chaos", operator, store.ScopePayments, store.ScopeRefunds, store.ScopeCircuits)
	return err
}

func (w *world) startRedis(ctx context.Context) (err error) {
	if w.redis, err = newRedis(w.dir, w.logs); err != nil {
		return err
	}
	if err = w.redis.start(ctx); err != nil {
		return err
	}
	w.defers(func() { _ = w.redis.kill() })
	w.redis.died = w.restarts
	return nil
}

func (w *world) startSims(ctx context.Context) error {
	hooks, err := freeAddress()
	if err != nil {
		return err
	}
	w.relay = newRelay(hooks, w.log)
	for i, name := range providers {
		s, err := newSim(w, name, hooks, w.o.Seed+uint64(i)) //nolint:gosec // a small index
		if err != nil {
			return err
		}
		w.sims[name], w.units["sim-"+name] = s, s.unit
		s.died = w.restarts
		if err := s.start(ctx); err != nil {
			return err
		}
		w.defers(func() { _ = s.kill() })
		way, err := w.mesh.add("provider:"+name, s.listen)
		if err != nil {
			return err
		}
		w.env = append(w.env, s.settings("http://"+way)...)
	}
	return nil
}

// pace squeezes minutes into seconds, as the demo does.
var pace = []string{
	"FUSEBOX_SWEEP_EVERY=2s", "FUSEBOX_UNKNOWN_AGED=1m", "FUSEBOX_STOP_GRACE=5s", "FUSEBOX_DB_CONNS=16",
	"FUSEBOX_REDIS_TIMEOUT=250ms", "FUSEBOX_LOG_LEVEL=warn",
	"FUSEBOX_CIRCUIT_OPEN_FOR=3s", "FUSEBOX_CIRCUIT_OPEN_MAX=6s", "FUSEBOX_CIRCUIT_MIN_CALLS=10", "FUSEBOX_CIRCUIT_RATE_WINDOW=20s",
	"FUSEBOX_CIRCUIT_RAMP_FOR=5s", "FUSEBOX_CIRCUIT_RAMP_START=10", "FUSEBOX_CIRCUIT_RAMP_FULL=100",
}

// startOurs starts the product's processes, each on its own ways to the stores.
func (w *world) startOurs(ctx context.Context) error {
	w.env = append(w.env, pace...)
	w.env = append(w.env, "PATH="+os.Getenv("PATH"), "HOME="+w.dir, "TMPDIR="+os.TempDir(), "FUSEBOX_PROVIDERS="+strings.Join(providers, ","))
	for _, name := range slices.Concat(serves, works) {
		u, err := w.newUnit(name)
		if err != nil {
			return err
		}
		w.units[name] = u
		if err := u.start(ctx); err != nil {
			return err
		}
		w.defers(func() { _ = u.end(syscall.SIGTERM, 10*time.Second) })
	}
	return nil
}

func (w *world) newUnit(name string) (*unit, error) {
	db, err := w.mesh.add("postgres:"+name, hostOf(w.pg.DSN("postgres")))
	if err != nil {
		return nil, err
	}
	cache, err := w.mesh.add("redis:"+name, w.redis.addr)
	if err != nil {
		return nil, err
	}
	role, _, _ := strings.Cut(name, "-")
	u := &unit{name: name, args: []string{w.o.Binary, role}, dir: w.logs, died: w.restarts}
	u.env = append(slices.Clone(w.env), "FUSEBOX_WORKER="+name, "REDIS_URL=redis://"+cache,
		"DATABASE_URL="+strings.Replace(w.pg.DSN("postgres"), hostOf(w.pg.DSN("postgres")), db, 1))
	if role != "serve" {
		return u, nil
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	way, err := w.mesh.add("api:"+name, listen)
	if err != nil {
		return nil, err
	}
	u.env = append(u.env, "FUSEBOX_LISTEN="+listen)
	u.ready = func(ctx context.Context) error { return answers(ctx, "http://"+listen+"/healthz") }
	w.apis = append(w.apis, "http://"+way)
	return u, nil
}

func (w *world) startRelay(context.Context) error {
	if err := w.relay.start(w.apis); err != nil {
		return err
	}
	w.defers(w.relay.close)
	return nil
}

// restarts does what a supervisor does about a process that ended by itself, and notes
// that it had to.
func (w *world) restarts(u *unit, how string) {
	w.finds("%s ended by itself after %s (%s): %s", u.name, time.Since(u.began).Round(time.Millisecond), how, lastLine(u.lastWords()))
	if err := u.start(context.Background()); err != nil {
		w.finds("%s does not come back: %v", u.name, err)
	}
}

// verify runs the program's own audit, past all proxies, and returns its report.
func (w *world) verify(ctx context.Context) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	out, err := w.command(ctx, "verify", "--report", "-")
	var report map[string]any
	if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
		return nil, fmt.Errorf("verify: %w", errors.Join(err, jsonErr))
	}
	return report, nil // what it found is in the report; so is its exit code
}

// command runs the program on the stores directly and returns its standard output.
func (w *world) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, w.o.Binary, args...)
	cmd.Env = append(slices.Clone(w.env), "DATABASE_URL="+w.pg.DSN("postgres"), "REDIS_URL=redis://"+w.redis.addr)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	c, err := startChild(cmd)
	if err != nil {
		return nil, err
	}
	<-c.done
	if !c.cmd.ProcessState.Success() {
		err = fmt.Errorf("%s: %s: %s", strings.Join(args, " "), c.cmd.ProcessState, lastLine(errs.String()))
	}
	return out.Bytes(), err
}

// answers asks a URL for a 200.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}

// hostOf is host:port of a DSN of our own.
func hostOf(dsn string) string {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		panic(err) // localpg made it
	}
	return net.JoinHostPort(c.ConnConfig.Host, fmt.Sprint(c.ConnConfig.Port))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// redisUnit is the Redis that the processes share.
type redisUnit struct {
	*unit
	addr   string
	file   string // its data while it is stopped
	client *redis.Client
}

// newRedis prepares a redis-server that keeps its data over a stop, in a file.
func newRedis(dir, logs string) (*redisUnit, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed (Debian: apt-get install redis-server)")
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	r := &redisUnit{addr: addr, file: filepath.Join(dir, "redis.rdb"), client: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})}
	r.unit = &unit{name: "redis", dir: logs, args: []string{path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--dbfilename", "redis.rdb", "--maxmemory-policy", "noeviction"}}
	r.ready = func(ctx context.Context) error { return r.client.Ping(ctx).Err() }
	return r, nil
}

// stopKeeping stops it as an operator does: what it holds is written first.
func (r *redisUnit) stopKeeping(ctx context.Context) error {
	if err := r.client.Save(ctx).Err(); err != nil {
		return err
	}
	return r.kill()
}

// forget removes what a stop kept.
func (r *redisUnit) forget() { _ = os.Remove(r.file) }
