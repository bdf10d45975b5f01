package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"fusebox/jobs"
	"fusebox/web"
)

func serveCommand(ctx context.Context, args []string, _ io.Writer) error {
	fs := newFlags("serve", "")
	withWorkers := fs.Bool("with-workers", false, "run the jobs in this process too")
	listen := fs.String("listen", "", "address to listen on (overrides FUSEBOX_LISTEN)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	if *listen != "" {
		cfg.Listen = *listen
	}
	a, err := build(ctx, cfg, "serve")
	if err != nil {
		return err
	}
	defer a.close()
	if err := printBudgets(os.Stderr, cfg.providers, a.registry); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("FUSEBOX_LISTEN: %w", err)
	}
	fmt.Fprintf(os.Stderr, "fusebox listens on http://%s\n", ln.Addr())
	return a.serve(ctx, ln, nil, *withWorkers)
}

// serve runs the HTTP side, and the jobs if asked, until ctx ends; then it drains:
// live streams end, requests and jobs get StopGrace to finish.
func (a *app) serve(ctx context.Context, ln net.Listener, demo *web.Demo, withWorkers bool) error {
	srv, err := a.server(demo)
	if err != nil {
		return err
	}
	var runner *jobs.Runner
	if withWorkers {
		if runner, err = a.runner(nil); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.serveHTTP(ctx, ln, srv) })
	if runner != nil {
		g.Go(func() error { return a.runJobs(ctx, runner) })
	}
	return g.Wait()
}

func (a *app) serveHTTP(ctx context.Context, ln net.Listener, srv *web.Server) error {
	h := &http.Server{
		Handler:           srv.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second, // live streams lift it for themselves
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.StopGrace)
	defer cancel()
	srv.Close()
	err := h.Shutdown(grace)
	if serveErr := <-done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// runJobs works the queues until ctx ends. The working context is detached: a
// signal must not cancel a charge in flight before its grace is over.
func (a *app) runJobs(ctx context.Context, r *jobs.Runner) error {
	if err := a.startJobs(ctx, r); err != nil {
		return err
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.StopGrace)
	defer cancel()
	return r.Stop(grace)
}

// startJobs waits, as openPool does, for a database that went away after the pool was
// opened and is restarting. Ended by ctx it has started nothing, and stopping that is fine.
func (a *app) startJobs(ctx context.Context, r *jobs.Runner) error {
	deadline := time.Now().Add(startGrace)
	for {
		err := r.Start(context.WithoutCancel(ctx))
		// Of what was connected before, a connection can be found dead without a question.
		away := startingUp(err) || errors.Is(err, pgconn.ErrConnClosed)
		if err == nil || !away || time.Now().After(deadline) {
			return err
		}
		a.log.Warn("the database went away; waiting", "error", err)
		if !sleep(ctx, time.Second) {
			return nil
		}
	}
}

func workCommand(ctx context.Context, args []string, _ io.Writer) error {
	fs := newFlags("work", "")
	only := fs.String("providers", "", "comma-separated providers whose bulkheads this process works (default: all)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	a, err := build(ctx, cfg, "work")
	if err != nil {
		return err
	}
	defer a.close()
	if err := printBudgets(os.Stderr, cfg.providers, a.registry); err != nil {
		return err
	}
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	runner, err := a.runner(names)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "fusebox works as %s\n", cfg.workerName())
	return a.runJobs(ctx, runner)
}
