package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/localpg"
	"fusebox/web"
)

// demoOptions are the demo's flags.
type demoOptions struct {
	listen string
	length time.Duration
	settle time.Duration
	report string
	info   string
	seed   uint64
	rate   float64
}

func demoCommand(ctx context.Context, args []string, out io.Writer) error {
	var o demoOptions
	fs := newFlags("demo", "")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the console; port 0 picks a free one")
	fs.DurationVar(&o.length, "for", 0, "run that long, settle, report, exit (0: until stopped)")
	fs.DurationVar(&o.settle, "settle", 90*time.Second, "with --for: how long to wait for everything to settle")
	fs.StringVar(&o.report, "report", "", "with --for: where the JSON report goes; - is standard output")
	fs.StringVar(&o.info, "info", "", "write URL, sign-in, API key and providers to this file once ready")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of traffic and faults")
	fs.Float64Var(&o.rate, "rate", 0, "payments per second (default 15 with --for, else 3)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return runDemo(ctx, o, out)
}

func (o *demoOptions) check() error {
	if o.length < 0 || o.settle <= 0 {
		return errors.New("--for and --settle: must be positive")
	}
	if o.report != "" && o.length == 0 {
		return errors.New("--report: needs --for; a demo without an end has no report")
	}
	if o.rate < 0 || o.rate > 200 {
		return errors.New("--rate: must be between 0 and 200 payments per second")
	}
	if o.rate == 0 {
		o.rate = 3
		if o.length > 0 {
			o.rate = 15
		}
	}
	return nil
}

// demo is a running demo.
type demo struct {
	opts      demoOptions
	cfg       config
	log       *slog.Logger
	app       *app
	providers []*demoProvider
	traffic   *traffic
	url       string
	email     string
	password  string
	apiKey    string
	closers   []func()
}

// runDemo starts everything, in an order in which nothing waits for a later part,
// and takes it down in reverse.
func runDemo(ctx context.Context, o demoOptions, out io.Writer) (err error) {
	d := &demo{opts: o}
	defer d.close()
	if d.cfg, err = loadConfig(os.Environ()); err != nil {
		return err
	}
	if _, set := os.LookupEnv("FUSEBOX_LOG_LEVEL"); !set {
		d.cfg.LogLevel = "error" // the faults are the point and no news; the sign-in must stay on screen
	}
	d.log = newLogger(d.cfg)
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	d.defers(func() { _ = ln.Close() }) // already closed by the server, unless the start failed
	d.url = "http://" + ln.Addr().String()
	for _, step := range []func(context.Context) error{d.startStores, d.startProviders, d.buildApp, d.addPeople} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.live(ctx, ln, out)
}

func (d *demo) defers(f func()) { d.closers = append(d.closers, f) }

func (d *demo) close() {
	for i := len(d.closers) - 1; i >= 0; i-- {
		d.closers[i]()
	}
}

// startStores brings a private Postgres and an embedded Redis, unless the
// environment names real ones.
func (d *demo) startStores(ctx context.Context) error {
	if d.cfg.DatabaseURL == "" {
		pg, err := localpg.Start(ctx, localpg.Options{Log: d.log})
		if err != nil {
			return err
		}
		d.defers(func() {
			if err := pg.Stop(); err != nil {
				d.log.Warn("stopping Postgres", "error", err)
			}
		})
		d.cfg.DatabaseURL = pg.DSN("postgres")
	}
	if d.cfg.RedisURL == "" {
		mr, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("embedded Redis: %w", err)
		}
		d.defers(mr.Close)
		d.cfg.RedisURL, d.cfg.embeddedRedis = "redis://"+mr.Addr(), true
	}
	pool, err := store.Open(ctx, d.cfg.DatabaseURL, "fusebox-demo-migrate", 4)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	return store.MigrateUp(ctx, pool)
}

func (d *demo) startProviders(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fusebox-demo-")
	if err != nil {
		return err
	}
	d.defers(func() { _ = os.RemoveAll(dir) })
	d.providers = demoProviders()
	d.cfg.providers, d.cfg.ProviderNames = nil, nil
	for _, p := range d.providers {
		// It ends by Close, after the traffic and the server, not when a signal comes.
		if err := p.start(context.WithoutCancel(ctx), dir, d.url+"/webhooks/"+p.name, d.opts.seed, d.log); err != nil {
			return err
		}
		d.defers(func() { _ = p.sim.Close() })
		d.cfg.providers = append(d.cfg.providers, p.settings)
		d.cfg.ProviderNames = append(d.cfg.ProviderNames, p.name)
	}
	return nil
}

func (d *demo) buildApp(ctx context.Context) error {
	d.cfg.PublicURL = d.url
	d.cfg.SweepEvery = 5 * time.Second
	d.cfg.UnknownAged = 2 * time.Minute
	d.cfg.circuits.suggest(demoCircuits)
	d.cfg.StopGrace = 5 * time.Second
	// Everything shares one machine here, often a small one that is building something
	// else: a slow answer of the embedded Redis is no outage.
	d.cfg.RedisTimeout = max(d.cfg.RedisTimeout, 500*time.Millisecond)
	if d.cfg.DBConns < 48 {
		d.cfg.DBConns = 48
	}
	if err := errors.Join(d.cfg.validateProviders(), d.cfg.validateCircuits()); err != nil {
		return err
	}
	var err error
	d.app, err = build(ctx, d.cfg, "demo")
	if err == nil {
		d.defers(d.app.close)
	}
	return err
}

// addPeople makes a sign-in and a key for this run; nothing has a default password.
func (d *demo) addPeople(ctx context.Context) error {
	d.email, d.password = "admin@fusebox.demo", randomSecret()
	_, err := d.app.store.CreateUser(ctx, store.NewUser{Email: d.email, Name: "Demo admin", Role: store.RoleAdmin, Password: d.password}, commandLine)
	if errors.Is(err, store.ErrUserExists) { // a database of the caller's own, used before
		err = d.app.store.SetPassword(ctx, d.email, d.password, commandLine)
	}
	if err != nil {
		return err
	}
	_, d.apiKey, err = d.app.store.CreateAPIKey(ctx, "demo", commandLine, store.ScopePayments, store.ScopeRefunds)
	return err
}

// live serves until ctx ends or the run's length is over, with traffic and outages. They
// end first, then the server they talk to, then (in close) the providers it calls.
func (d *demo) live(ctx context.Context, ln net.Listener, out io.Writer) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- d.app.serve(serving, ln, d.surroundings(), true) }()
	defer func() { stop(); <-served }()

	d.traffic = newTraffic(d.url, d.apiKey, d.cfg.ProviderNames, d.opts.seed, d.log)
	d.traffic.holds = d.holders()
	if err := d.traffic.openWallets(ctx); err != nil {
		return err
	}
	if err := d.announce(out); err != nil {
		return err
	}
	busy, calm := context.WithCancel(ctx)
	var around sync.WaitGroup
	around.Go(func() { d.traffic.run(busy, d.opts.rate) })
	around.Go(func() { outages(busy, d.byName("outage"), d.opts.length, d.log) })
	defer func() { calm(); around.Wait() }()
	if d.opts.length == 0 {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			served <- nil
			return err
		}
	}
	if !sleep(ctx, d.opts.length) {
		return ctx.Err()
	}
	calm()
	around.Wait()
	return d.finish(ctx, out)
}

func (d *demo) surroundings() *web.Demo {
	w := &web.Demo{EmbeddedRedis: d.cfg.embeddedRedis, Simulators: map[string]string{}}
	for _, p := range d.providers {
		w.Simulators[p.name] = p.sim.ControlURL()
	}
	return w
}

// holders are the providers that hold money until it is captured.
func (d *demo) holders() map[string]bool {
	out := map[string]bool{}
	for _, name := range d.app.registry.Names() {
		a, _ := d.app.registry.Get(name)
		out[name] = a.Capabilities().Can(provider.OpCapture) && a.Capabilities().Can(provider.OpVoid)
	}
	return out
}

func (d *demo) byName(name string) *demoProvider {
	for _, p := range d.providers {
		if p.name == name {
			return p
		}
	}
	return nil
}

// announce prints the URL and sign-in, and writes the info file, once requests work.
func (d *demo) announce(out io.Writer) error {
	if d.opts.info != "" {
		if err := d.writeInfo(); err != nil {
			return err
		}
	}
	if d.opts.report == "-" {
		return nil // standard output belongs to the report
	}
	_, err := fmt.Fprintf(out, `
Fusebox demo is running.

  Console   %s
  Sign in   %s
  Password  %s
  Checkout  %s/checkout
  API key   %s

Six simulated providers take payments: steady, flaky (every fault), stripe (the same
through Stripe's API), outage (first its charges fail, then all of it, then it is back),
nokeys, nostatus. Break them yourself: "Break something" in the console. Stop with
Ctrl-C; nothing is kept.
`, d.url, d.email, d.password, d.url, d.apiKey)
	return err
}

func (d *demo) writeInfo() error {
	type providerInfo struct {
		URL           string `json:"url"`
		WebhookSecret string `json:"webhook_secret"`
	}
	info := struct {
		URL       string                  `json:"url"`
		Email     string                  `json:"email"`
		Password  string                  `json:"password"`
		APIKey    string                  `json:"api_key"`
		Providers map[string]providerInfo `json:"providers"`
	}{d.url, d.email, d.password, d.apiKey, map[string]providerInfo{}}
	for _, p := range d.providers {
		info.Providers[p.name] = providerInfo{p.sim.URL(), p.settings.WebhookSecrets[0]}
	}
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	// Renamed into place: a reader that waits for the file never sees half of it.
	tmp := d.opts.info + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, d.opts.info)
}

// finish heals the providers, waits until everything is settled, audits, reports.
func (d *demo) finish(ctx context.Context, out io.Writer) error {
	for _, p := range d.providers {
		f := p.sim.Faults()
		f.Outage, f.Rates = "none", nil
		if err := p.sim.SetFaults(f); err != nil {
			return fmt.Errorf("healing %s: %w", p.name, err)
		}
	}
	settling, end := context.WithCancel(ctx)
	var around sync.WaitGroup
	around.Go(func() { d.traffic.decideAll(settling) })
	unsettled, err := d.awaitSettled(ctx)
	end()
	around.Wait()
	if err != nil {
		return err
	}
	r, err := d.app.verify(ctx)
	if err != nil {
		return err
	}
	r.Unsettled = unsettled
	if d.opts.report != "" {
		if err := r.write(d.opts.report, out); err != nil {
			return err
		}
	}
	if !r.clean() {
		return errFindings
	}
	return nil
}

// awaitSettled waits until no payment is open and no event unapplied, or names
// what is left when the time is up.
func (d *demo) awaitSettled(ctx context.Context) ([]string, error) {
	deadline := time.Now().Add(d.opts.settle)
	for {
		var open []string
		err := d.app.store.EachPayment(ctx, func(p store.Payment) error {
			if !p.Status.Final() {
				open = append(open, fmt.Sprintf("%s at %s is %s (%s)", p.ID, p.Provider, p.Status, p.StatusReason))
			}
			return nil
		})
		if err == nil {
			err = d.app.store.EachRefund(ctx, func(o store.Operation) error {
				if !o.Status.Final() {
					open = append(open, fmt.Sprintf("%s %s at %s is %s (%s)", o.Kind, o.ID, o.Provider, o.Status, o.StatusReason))
				}
				return nil
			})
		}
		if err != nil || len(open) == 0 || time.Now().After(deadline) {
			return open, err
		}
		if !sleep(ctx, 250*time.Millisecond) {
			return open, ctx.Err()
		}
	}
}
