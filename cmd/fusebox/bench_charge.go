package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"fusebox/cmd/fusebox/bench"
	"fusebox/provider/gateway"
	"fusebox/store"
)

// benchCharge measures payments per second. DATABASE_URL may name an empty database.
func benchCharge(ctx context.Context, args []string, out io.Writer) error {
	o := bench.ChargeOptions{DatabaseURL: os.Getenv("DATABASE_URL"), RedisURL: os.Getenv("REDIS_URL"), Progress: os.Stderr}
	fs := newFlags("bench charge", "")
	fs.BoolVar(&o.JSON, "json", false, "print JSON")
	fs.IntVar(&o.Clients, "clients", 32, "callers at a time; floor and peer have as many connections")
	fs.IntVar(&o.Payments, "payments", 2000, "payments in one turn of each arm")
	fs.IntVar(&o.Rounds, "rounds", 5, "turns of each arm")
	fs.IntVar(&o.Load, "load", 0, "payments to load before")
	fs.IntVar(&o.Grow, "grow", 0, "payments of a second database, measured beside the first in turns")
	fs.DurationVar(&o.CommitDelay, "commit-delay", 0, "slow every commit of the private server down by this, as a slower disk would")
	fs.BoolVar(&o.Alone, "alone", false, "measure Fusebox only, without floor and peer")
	profiles := fs.String("profile", "", "folder for a CPU profile of every process; empty: none")
	workers := fs.Int("workers", 1, "worker processes")
	limit := fs.Int("limit", 0, "calls in flight at a time at each of two providers, over all workers; 0: one provider without a limit")
	quiet := fs.Bool("quiet", false, "say nothing on standard error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *workers < 1 || *workers > 16 || *limit < 0 {
		return errors.New("--workers: must be between 1 and 16; --limit: must not be negative")
	}
	if *quiet {
		o.Progress = nil
	}
	o.Start = func(ctx context.Context, databaseURL, redisURL string) (bench.Charger, error) {
		return startCharger(ctx, databaseURL, redisURL, benchSize{clients: o.Clients, workers: *workers, limit: *limit, profiles: *profiles})
	}
	return bench.RunCharge(ctx, o, out)
}

// benchWebhook measures events per second. DATABASE_URL may name an empty database.
func benchWebhook(ctx context.Context, args []string, out io.Writer) error {
	o := bench.ChargeOptions{DatabaseURL: os.Getenv("DATABASE_URL"), RedisURL: os.Getenv("REDIS_URL"), Progress: os.Stderr}
	fs := newFlags("bench webhook", "")
	fs.BoolVar(&o.JSON, "json", false, "print JSON")
	fs.IntVar(&o.Clients, "clients", 32, "deliveries at a time; the floor has as many connections")
	fs.IntVar(&o.Payments, "events", 2000, "events in one turn")
	fs.IntVar(&o.Rounds, "rounds", 5, "turns of each arm")
	fs.DurationVar(&o.CommitDelay, "commit-delay", 0, "slow every commit of the private server down by this, as a slower disk would")
	profiles := fs.String("profile", "", "folder for a CPU profile of every process; empty: none")
	quiet := fs.Bool("quiet", false, "say nothing on standard error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *quiet {
		o.Progress = nil
	}
	o.Start = func(ctx context.Context, databaseURL, redisURL string) (bench.Charger, error) {
		return startCharger(ctx, databaseURL, redisURL, benchSize{clients: o.Clients, workers: 1, profiles: *profiles})
	}
	sign := func(raw []byte, at time.Time) (string, string) {
		return gateway.SignatureHeader, gateway.Sign(raw, at, benchSecret)
	}
	return bench.RunWebhook(ctx, o, sign, out)
}

// benchIsolation measures what a provider that hangs does to another one's charges.
// DATABASE_URL may name an empty database.
func benchIsolation(ctx context.Context, args []string, out io.Writer) error {
	o := bench.IsolationOptions{DatabaseURL: os.Getenv("DATABASE_URL"), RedisURL: os.Getenv("REDIS_URL"), Progress: os.Stderr}
	fs := newFlags("bench isolation", "")
	fs.BoolVar(&o.JSON, "json", false, "print JSON")
	fs.IntVar(&o.Rounds, "rounds", 5, "turns, each alone and beside the provider that hangs")
	fs.IntVar(&o.Queued, "queued", 500, "payments that wait at the provider that hangs")
	fs.IntVar(&o.Rate, "rate", 50, "payments per second at the healthy provider")
	fs.DurationVar(&o.For, "for", 10*time.Second, "length of one turn")
	quiet := fs.Bool("quiet", false, "say nothing on standard error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *quiet {
		o.Progress = nil
	}
	o.Start = func(ctx context.Context, databaseURL, redisURL string) (bench.Charger, string, error) {
		f, err := startCharger(ctx, databaseURL, redisURL, benchSize{clients: 8, workers: 1})
		return f, hangingProvider, err
	}
	return bench.RunIsolation(ctx, o, out)
}

// benchProcesses are processes of this program that a benchmark started.
type benchProcesses struct {
	env  []string
	list []*benchProcess
}

type benchProcess struct {
	cmd  *exec.Cmd
	name string
	log  bytes.Buffer
	done chan struct{}
}

// start runs this program with args; lines gets its standard output.
func (b *benchProcesses) start(lines chan<- string, args ...string) (*benchProcess, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &benchProcess{cmd: exec.Command(exe, args...), name: args[0], done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = b.env, &p.log
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	b.list = append(b.list, p)
	go func() {
		defer close(p.done)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // nobody reads any more
			}
		}
		_ = p.cmd.Wait() // how it ended matters only to who waits for it to begin
	}()
	return p, nil
}

// stop ends all of them, the last one first.
func (b *benchProcesses) stop() {
	for i := len(b.list) - 1; i >= 0; i-- {
		p := b.list[i]
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
}

// benchSize is how large a Fusebox a benchmark starts.
type benchSize struct {
	clients int // that will call at a time
	workers int // processes
	limit   int // calls in flight at each of two providers; 0: one provider, without a limit

	profiles string // folder for CPU profiles of all processes; empty: none
}

// startCharger starts a provider that answers at once, with a limit two of them, a server
// and workers, each in a process of its own.
func startCharger(ctx context.Context, databaseURL, redisURL string, size benchSize) (c bench.Charger, err error) {
	ps := &benchProcesses{env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir()}}
	if size.profiles != "" {
		ps.env = append(ps.env, profileVar+"="+size.profiles)
	}
	defer func() {
		if err != nil {
			ps.stop()
		}
	}()
	if err := migrated(ctx, databaseURL); err != nil {
		return c, err
	}
	told := make(chan string, 16)
	if _, err := ps.start(told, "simulate", "--name", "atlas", "--api-key", "bench-key", "--webhook-secret", benchSecret); err != nil {
		return c, err
	}
	url, err := toldURL(ctx, told)
	if err != nil {
		return c, err
	}
	names := []string{"atlas", hangingProvider}
	if size.limit > 0 {
		if _, err := ps.start(told, "simulate", "--name", "cumulus", "--api-key", "bench-key", "--webhook-secret", benchSecret); err != nil {
			return c, err
		}
		second, err := toldURL(ctx, told)
		if err != nil {
			return c, err
		}
		c.Second, names = "cumulus", append(names, "cumulus")
		ps.env = append(ps.env, "PROVIDER_CUMULUS_BASE_URL="+second, "PROVIDER_CUMULUS_API_KEY=bench-key", "PROVIDER_CUMULUS_WEBHOOK_SECRETS="+benchSecret,
			fmt.Sprintf("PROVIDER_CUMULUS_CHARGE_WORKERS=%d", 8*size.clients), fmt.Sprintf("PROVIDER_CUMULUS_MAX_IN_FLIGHT=%d", size.limit),
			fmt.Sprintf("PROVIDER_ATLAS_MAX_IN_FLIGHT=%d", size.limit))
	}
	if _, err := ps.start(told, "simulate", "--name", hangingProvider, "--api-key", "bench-key", "--webhook-secret", benchSecret, "--outage", "black_hole"); err != nil {
		return c, err
	}
	hangs, err := toldURL(ctx, told)
	if err != nil {
		return c, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	c.URL, c.Provider = "http://"+ln.Addr().String(), "atlas"
	listen := ln.Addr().String()
	_ = ln.Close() // only its number was wanted
	ps.env = append(ps.env, "DATABASE_URL="+databaseURL, "REDIS_URL="+redisURL, "FUSEBOX_LISTEN="+listen, "FUSEBOX_LOG_LEVEL=error",
		"FUSEBOX_PROVIDERS="+strings.Join(names, ","), "FUSEBOX_REDIS_TIMEOUT=1s", fmt.Sprintf("FUSEBOX_DB_CONNS=%d", max(size.clients/2, 8)),
		"PROVIDER_ATLAS_BASE_URL="+url, "PROVIDER_ATLAS_API_KEY=bench-key", "PROVIDER_ATLAS_WEBHOOK_SECRETS="+benchSecret,
		"PROVIDER_BOREALIS_BASE_URL="+hangs, "PROVIDER_BOREALIS_API_KEY=bench-key", "PROVIDER_BOREALIS_WEBHOOK_SECRETS="+benchSecret,
		fmt.Sprintf("PROVIDER_ATLAS_CHARGE_WORKERS=%d", 8*size.clients))
	server, err := ps.start(nil, "serve")
	if err != nil {
		return c, err
	}
	for range size.workers {
		if _, err := ps.start(nil, "work"); err != nil {
			return c, err
		}
	}
	if err := ready(ctx, c.URL, server); err != nil {
		return c, err
	}
	pool, err := store.Open(ctx, databaseURL, "fusebox-bench", 4)
	if err != nil {
		return c, err
	}
	books := store.New(pool, store.Options{})
	_, c.APIKey, err = books.CreateAPIKey(ctx, "bench", commandLine, store.ScopePayments)
	if c.Email, c.Password = "bench@fusebox.test", randomSecret(); err == nil {
		_, err = books.CreateUser(ctx, store.NewUser{Email: c.Email, Name: "Bench", Role: store.RoleSupport, Password: c.Password}, commandLine)
	}
	if err != nil {
		pool.Close()
		return c, err
	}
	c.Pool = pool
	c.Close = func() { pool.Close(); ps.stop() }
	return c, nil
}

// hangingProvider takes connections and never answers; only bench isolation pays there.
const hangingProvider = "borealis"

// benchSecret is long enough for a webhook secret and secret to nobody.
const benchSecret = "0123456789abcdef0123456789abcdef"

// toldURL waits for the address that a simulator prints.
func toldURL(ctx context.Context, lines <-chan string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		select {
		case line := <-lines:
			if url, ok := strings.CutPrefix(line, "url: "); ok {
				return url, nil
			}
		case <-ctx.Done():
			return "", errors.New("the simulated provider did not start")
		}
	}
}

// ready waits until the server answers.
func ready(ctx context.Context, url string, p *benchProcess) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %s", p.name, p.log.String())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready", p.name)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
