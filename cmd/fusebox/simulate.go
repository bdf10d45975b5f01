package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"fusebox/provider/simulator"
)

// simulate runs one simulated provider until ctx ends, which a signal does. It
// prints its URLs and keys to out, one "name: value" a line.
func simulate(ctx context.Context, args []string, out io.Writer) error {
	opts, list, err := simulateOptions(args, out)
	if err != nil {
		return err
	}
	if list {
		return listFaults(out)
	}
	// Not ended by ctx but by Close, whose error says whether the ledger is whole.
	s, err := simulator.Start(context.WithoutCancel(ctx), opts)
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	if err := announce(out, s, opts); err != nil {
		return errors.Join(err, s.Close())
	}
	<-ctx.Done()
	return s.Close()
}

// simulateOptions reads the command line; list asks for the catalogue only.
func simulateOptions(args []string, out io.Writer) (opts simulator.Options, list bool, err error) {
	fs := flag.NewFlagSet("fusebox simulate", flag.ContinueOnError)
	fs.SetOutput(out)
	bindSimulator(fs, &opts)
	bindFaults(fs, &opts.Faults)
	verbose := fs.Bool("verbose", false, "log what happens")
	fs.BoolVar(&list, "list-faults", false, "print every fault and stop")
	if err := fs.Parse(args); err != nil {
		return opts, list, err
	}
	if fs.NArg() > 0 {
		return opts, list, fmt.Errorf("simulate: unexpected argument %q", fs.Arg(0))
	}
	if *verbose {
		opts.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return opts, list, nil
}

// bindSimulator declares the flags of what the provider is.
func bindSimulator(fs *flag.FlagSet, opts *simulator.Options) {
	fs.StringVar(&opts.Name, "name", "simulator", "`name` of the provider")
	fs.StringVar(&opts.Listen, "listen", "127.0.0.1:0", "`address` of the provider's API")
	fs.StringVar(&opts.ControlListen, "control", "127.0.0.1:0", "`address` of the control API (no sign-in: keep it private)")
	fs.StringVar(&opts.PublicURL, "public-url", "", "base `URL` in links for customers (default: the API's own)")
	fs.StringVar(&opts.LedgerPath, "ledger", "", "`file` that keeps the ledger (default: memory)")
	fs.StringVar(&opts.APIKey, "api-key", "", "`key` of the account (default: random, printed)")
	fs.StringVar(&opts.WebhookURL, "webhook-url", "", "`URL` that events go to")
	fs.Func("webhook-secret", "`secret` that signs events, newest first; may be repeated (default: random, printed)", func(v string) error {
		opts.WebhookSecrets = append(opts.WebhookSecrets, v)
		return nil
	})
	fs.Uint64Var(&opts.Seed, "seed", 1, "`number` that the draws of faults depend on")
	fs.BoolVar(&opts.NoKeys, "no-keys", false, "ignore idempotency keys")
	fs.BoolVar(&opts.NoStatusAPI, "no-status-api", false, "answer no question about a payment")
	fs.DurationVar(&opts.KeyLife, "key-life", 24*time.Hour, "how long answers are kept under a key")
}

// bindFaults declares the flags of what the provider does wrong from the start.
func bindFaults(fs *flag.FlagSet, faults *simulator.Faults) {
	fs.Func("preset", "`mix` of faults to begin with: healthy, settling, every_fault", func(v string) error {
		f, ok := simulator.Preset(v)
		if !ok {
			return errors.New("must be healthy, settling or every_fault")
		}
		faults.Rates = f.Rates
		return nil
	})
	fs.Func("fault", "`name=rate` of a fault, rate 0 to 1; may be repeated, after -preset", func(v string) error {
		return addFault(faults, v)
	})
	fs.Func("outage", "`mode` of outage to begin with: none, refuse, black_hole, error, charges", func(v string) error {
		faults.Outage = simulator.Outage(v)
		return faults.Validate()
	})
}

// addFault sets one rate from "name=rate".
func addFault(f *simulator.Faults, v string) error {
	name, text, ok := strings.Cut(v, "=")
	if !ok {
		return errors.New("must be name=rate")
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("rate must be a number")
	}
	changed := f.With(simulator.Fault(name), rate)
	if err := changed.Validate(); err != nil {
		return err
	}
	*f = changed
	return nil
}

// announce prints where the simulator is and what opens it.
func announce(out io.Writer, s *simulator.Server, opts simulator.Options) error {
	lines := [][2]string{
		{"name", s.Name()}, {"url", s.URL()}, {"control", s.ControlURL()}, {"api_key", s.APIKey()},
	}
	for _, secret := range s.WebhookSecrets() {
		lines = append(lines, [2]string{"webhook_secret", secret})
	}
	ledger := opts.LedgerPath
	if ledger == "" {
		ledger = "in memory"
	}
	lines = append(lines, [2]string{"ledger", ledger})
	for _, l := range lines {
		if _, err := fmt.Fprintf(out, "%s: %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// listFaults prints the catalogue as a table.
func listFaults(out io.Writer) error {
	for _, in := range simulator.Catalogue() {
		_, err := fmt.Fprintf(out, "%-24s %-8s amount %d  %s\n", in.Name, in.Kind, simulator.FaultAmount+in.Code, in.Text)
		if err != nil {
			return err
		}
	}
	return nil
}
