package main

import (
	"context"
	"encoding/json"
	"errors"
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
	runs := fs.Int("runs", 1, "runs one after another, with the seeds that follow")
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
	if *runs < 1 || *runs > 100 {
		return errors.New("--runs: must be from 1 to 100")
	}
	all, err := chaos.RunSeries(ctx, o, *runs)
	if err != nil {
		return err
	}
	if err := writeChaos(all, *path, out); err != nil {
		return err
	}
	if len(all.Findings) > 0 {
		return errFindings
	}
	return nil
}

// writeChaos prints the report to path, "-" being out: of one run its own, of several
// their sums and each.
func writeChaos(all chaos.Series, path string, out io.Writer) error {
	var report any = all
	if len(all.Runs) == 1 {
		report = all.Runs[0]
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if path == "-" {
		_, err = out.Write(b)
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
