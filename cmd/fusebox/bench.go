package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"fusebox/cmd/fusebox/bench"
)

// benchCommand measures parts of Fusebox against their floor and their peer.
func benchCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("bench: say what: charge, webhook, isolation, breaker or page")
	}
	switch args[0] {
	case "breaker":
		return benchBreaker(ctx, args[1:], out)
	case "charge":
		return benchCharge(ctx, args[1:], out)
	case "webhook":
		return benchWebhook(ctx, args[1:], out)
	case "isolation":
		return benchIsolation(ctx, args[1:], out)
	case "page":
		return benchPage(ctx, args[1:], out)
	case bench.LeakWorker: // a process that "bench breaker" starts
		var o bench.LeakOptions
		fs := newFlags("bench "+bench.LeakWorker, "")
		o.Bind(fs)
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		return bench.RunLeakWorker(ctx, o, os.Stdin, out)
	}
	return fmt.Errorf("bench: %q is none of charge, webhook, isolation, breaker and page", args[0])
}

func benchBreaker(ctx context.Context, args []string, out io.Writer) error {
	o := bench.BreakerOptions{RedisURL: os.Getenv("REDIS_URL"), Progress: os.Stderr}
	fs := newFlags("bench breaker", "")
	fs.BoolVar(&o.JSON, "json", false, "print JSON")
	fs.IntVar(&o.Rounds, "rounds", 3, "turns of each arm")
	fs.DurationVar(&o.For, "for", 1500*time.Millisecond, "length of one turn")
	quiet := fs.Bool("quiet", false, "say nothing on standard error")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *quiet {
		o.Progress = nil
	}
	return bench.Breaker(ctx, o, out)
}
