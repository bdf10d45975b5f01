// Command fusebox is the payments operations console and the charge engine behind
// it: one binary, several roles. Run "fusebox help" for the list.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"syscall"

	redislog "github.com/redis/go-redis/v9/logging"
)

// version is set by the build (-ldflags -X main.version=…).
var version = "dev"

// command is one role or tool. args excludes the command's own name.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, out io.Writer) error
}

func commands() []command {
	return []command{
		{"serve", "console, API and webhook receiver; --with-workers runs the jobs too", serveCommand},
		{"work", "River workers; --providers a,b limits the bulkheads", workCommand},
		{"migrate", "up | down | status: our schema and River's, under one lock", migrateCommand},
		{"demo", "everything on one machine, with simulated providers and real faults", demoCommand},
		{"simulate", "a stand-in payment provider over HTTP", simulate},
		{"verify", "audit the books against the providers' ledgers; exit 1 on a finding", verifyCommand},
		{"user", "add | passwd | role | disable | enable | sign-out | reset-factor | list: people and roles", userCommand},
		{"provider", "list, or check NAME: reachability, clock, credentials, webhook secret; moves no money", providerCommand},
		{"bench", "charge | webhook | isolation | breaker | page: measured against its floor and its peer, in the same run", benchCommand},
		{"apikey", "add | list | revoke: keys for API clients", apiKeyCommand},
		{"chaos", "the whole system under a seeded schedule of faults, then audited; exit 1 on a finding", chaosCommand},
		{"breaker", "list | probe | reset | open | close | metrics: circuits by hand", breakerCommand},
	}
}

// errFindings makes the process exit 1 after a report that was printed whole.
var errFindings = errors.New("findings")

// gcPercent lets the heap grow to five times what is live before it is collected: what
// is live is a few megabytes here, and collecting at twice that took an eighth of all
// processor time under load. GOGC overrides it.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// The Redis client writes lines of its own to standard error, in no format of ours.
	// What matters of them the breaker says.
	redislog.Disable()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done, err := profile(os.Getenv(profileVar), os.Args[1:])
	if err == nil {
		err = errors.Join(run(ctx, os.Args[1:], os.Stdout), done())
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFindings):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "fusebox:", err)
		os.Exit(1)
	}
}

// profileVar names the folder that a process writes its CPU profile to.
const profileVar = "CPU_PROFILE_DIR" // no setting: those are checked

// profile records where this process spends its processor time, until done, in a file of
// its own in dir, for go tool pprof. Nothing is recorded with an empty dir.
func profile(dir string, args []string) (done func() error, err error) {
	if dir == "" || len(args) == 0 {
		return func() error { return nil }, nil
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", filepath.Base(args[0]), os.Getpid())))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", profileVar, err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(out)
		return nil
	}
	if args[0] == "version" || args[0] == "--version" {
		fmt.Fprintln(out, version)
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out)
		}
	}
	usage(os.Stderr)
	return fmt.Errorf("%q is not a command", args[0])
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Fusebox answers one question: did the payment go through?\n\nUsage: fusebox COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\n\"fusebox COMMAND -h\" shows a command's flags. Configuration comes from the environment; see the README.\n")
}

// newFlags returns a flag set that reports its errors instead of exiting.
func newFlags(name, args string) *flag.FlagSet {
	fs := flag.NewFlagSet("fusebox "+name, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "Usage: fusebox %s [flags] %s\n", name, args)
		fs.PrintDefaults()
	}
	return fs
}

// newLogger logs to stderr, so that reports own stdout.
func newLogger(c config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}
