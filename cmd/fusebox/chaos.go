package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"fusebox/cmd/fusebox/chaos"
)

// chaosCommand runs the whole system of this same program under a seeded schedule of
// faults and audits it; see package chaos.
func chaosCommand(ctx context.Context, args []string, out io.Writer) (err error) {
	var o chaos.Options
	fs := newFlags("chaos", "")
	fs.DurationVar(&o.For, "for", 3*time.Minute, "how long faults and traffic last")
	fs.DurationVar(&o.Settle, "settle", 3*time.Minute, "how long everything may take to settle afterwards")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of the schedule: a failing one breaks the same things again")
	fs.Float64Var(&o.Rate, "rate", 20, "payments per second; wallets, refunds, captures and operators come along")
	fs.StringVar(&o.Logs, "logs", "", "keep the processes' logs and the providers' ledgers in this directory")
	path := fs.String("report", "-", "where the JSON goes; - is standard output")
	quiet := fs.Bool("quiet", false, "say nothing on standard error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.Binary, err = os.Executable(); err != nil {
		return err
	}
	if !*quiet {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	r, err := chaos.Run(ctx, o)
	if err != nil {
		return err
	}
	if *path != "-" {
		f, err := os.Create(*path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // written whole by then, or the write says so
		out = f
	}
	if err := r.Write(out); err != nil {
		return err
	}
	if !r.Clean() {
		return errFindings
	}
	return nil
}
