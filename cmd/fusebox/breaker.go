package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"fusebox/breaker"
	"fusebox/store"
	opcircuits "fusebox/web/circuits"
)

// breakerCommands are the subcommands of fusebox breaker.
func breakerCommands() []command {
	list := []command{{"list", "every circuit as it is now; --json for programs", listCircuits}}
	for _, a := range []struct {
		action  opcircuits.Action
		summary string
	}{
		{opcircuits.ProbeOnce, "let an open circuit try one call now"},
		{opcircuits.Reset, "close the circuit; ends an override too"},
		{opcircuits.ForcedOpen, "deny every call, --for a time that must be given"},
		{opcircuits.ForcedClosed, "admit every call, whatever fails"},
		{opcircuits.MetricsOnly, "count and change state, but admit every call"},
	} {
		list = append(list, command{a.action.Verb(), a.summary, operateCircuit(a.action)})
	}
	return append(list, command{"whatif", "what other settings would have done with recorded calls", whatIf})
}

func breakerCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(out, "Usage: fusebox breaker COMMAND [flags]\n\n")
		for _, c := range breakerCommands() {
			fmt.Fprintf(out, "  %-9s %s\n", c.name, c.summary)
		}
		return nil
	}
	var names []string
	for _, c := range breakerCommands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out)
		}
		names = append(names, c.name)
	}
	return fmt.Errorf("breaker: %q is not one of %s", args[0], strings.Join(names, ", "))
}

// circuitClasses are the operation classes whose calls are recorded.
var circuitClasses = []string{"charge", "status"}

// withCircuits runs fn with the books and the shared circuits at hand.
func withCircuits(ctx context.Context, fn func(*app) error) error {
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	a, err := build(ctx, cfg, "breaker")
	if err != nil {
		return err
	}
	defer a.close()
	return fn(a)
}

func listCircuits(ctx context.Context, args []string, out io.Writer) error {
	fs := newFlags("breaker list", "")
	asJSON := fs.Bool("json", false, "print JSON, as the API answers it")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return withCircuits(ctx, func(a *app) error {
		var list []breaker.Snapshot
		for _, p := range a.cfg.providers {
			for _, class := range a.classesOf(p.Name) {
				s, err := a.circuits.Snapshot(ctx, breaker.Key{Name: p.Name, Class: class})
				if err != nil {
					return err
				}
				list = append(list, s)
			}
		}
		if *asJSON {
			return printCircuitsJSON(out, list)
		}
		return printCircuits(out, list, time.Now())
	})
}

func printCircuitsJSON(out io.Writer, list []breaker.Snapshot) error {
	answer := struct {
		Data []opcircuits.View `json:"data"`
	}{[]opcircuits.View{}}
	for _, s := range list {
		answer.Data = append(answer.Data, opcircuits.NewView(s))
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(answer)
}

func printCircuits(out io.Writer, list []breaker.Snapshot, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CIRCUIT\tSTATE\tSINCE\tWHY\tNEXT PROBE\tOVERRIDE\tIN FLIGHT\tFAILURES\tEPOCH\tVIEW")
	for _, s := range list {
		why, flight, view := "-", "no limit", "shared"
		if s.State != breaker.Closed && s.OpenReason != "" {
			why = s.OpenReason
		}
		if s.Settings.MaxInFlight > 0 {
			flight = fmt.Sprintf("%d/%d", s.InFlight, s.Settings.MaxInFlight)
		}
		if s.Degraded {
			view = "DEGRADED: Redis is gone, this process's own"
		}
		fmt.Fprintln(w, strings.Join([]string{s.Key.String(), string(s.State), moment(s.Since, now), why, moment(s.OpenUntil, now),
			overrideWords(s, now), flight, strconv.Itoa(s.Consecutive), s.Epoch, view}, "\t"))
	}
	return w.Flush()
}

// moment is a time for a person who looks now; "-" for none.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	clock := t.UTC().Format("15:04:05Z")
	if now.UTC().Format(time.DateOnly) != t.UTC().Format(time.DateOnly) {
		clock = t.UTC().Format("2006-01-02 15:04:05Z")
	}
	if d := t.Sub(now).Round(time.Second); d > 0 {
		return clock + " (in " + d.String() + ")"
	}
	return clock
}

func overrideWords(s breaker.Snapshot, now time.Time) string {
	switch {
	case s.Mode == "":
		return "-"
	case s.ModeUntil.IsZero():
		return string(s.Mode) + " until reset"
	}
	return string(s.Mode) + " until " + moment(s.ModeUntil, now)
}

// circuitFlags are what a person says about an action.
type circuitFlags struct {
	provider, class, epoch, reason string
	lasts                          time.Duration
}

func operateCircuit(action opcircuits.Action) func(context.Context, []string, io.Writer) error {
	return func(ctx context.Context, args []string, out io.Writer) error {
		var f circuitFlags
		fs := newFlags("breaker "+action.Verb(), "")
		fs.StringVar(&f.provider, "provider", "", "the provider's name (required)")
		fs.StringVar(&f.class, "class", "charge", "charge, status, or token where requests carry one")
		fs.StringVar(&f.reason, "reason", "", "why; goes into the audit log (required)")
		fs.StringVar(&f.epoch, "epoch", "", "change it only if the circuit still has this epoch (default: the one read now)")
		if action.Override() {
			fs.DurationVar(&f.lasts, "for", 0, forUsage(action))
		}
		if err := fs.Parse(args); err != nil {
			return err
		}
		if fs.NArg() > 0 {
			return fmt.Errorf("breaker %s: %q is not a flag", action.Verb(), fs.Arg(0))
		}
		return withCircuits(ctx, func(a *app) error { return a.operate(ctx, action, f, out) })
	}
}

func forUsage(a opcircuits.Action) string {
	if a == opcircuits.ForcedOpen {
		return "how long, 1m to 168h (required)"
	}
	return "how long, 1m to 168h (default: until reset)"
}

// operate does one action and says what it did.
func (a *app) operate(ctx context.Context, action opcircuits.Action, f circuitFlags, out io.Writer) error {
	key, err := a.circuitKey(f)
	if err != nil {
		return err
	}
	seen, err := a.circuits.Snapshot(ctx, key)
	if err != nil {
		return err
	}
	if f.epoch == "" {
		f.epoch = seen.Epoch
		fmt.Fprintf(out, "%s is %s, epoch %s\n", key, circuitWords(seen), seen.Epoch)
	}
	ops := opcircuits.Operations{Store: a.store, Breaker: a.circuits, Log: a.log}
	res, err := ops.Do(ctx, opcircuits.Request{Key: key, Action: action, Epoch: f.epoch, ActionID: uuid.New(),
		By: personHere(), Reason: f.reason, For: f.lasts})
	if err != nil {
		return refusalWords(ctx, ops, key, res.After, err)
	}
	fmt.Fprintf(out, "%s: %s → %s, epoch %s\n", key, circuitWords(res.Before), circuitWords(res.After), res.After.Epoch)
	if res.Woken > 0 {
		fmt.Fprintf(out, "brought forward: %d waiting payments\n", res.Woken)
	}
	return nil
}

// circuitKey is the circuit the flags name, if there is one.
func (a *app) circuitKey(f circuitFlags) (breaker.Key, error) {
	names := a.registry.Names()
	if !slices.Contains(names, f.provider) {
		return breaker.Key{}, fmt.Errorf("--provider: %q is not one of %s", f.provider, strings.Join(names, ", "))
	}
	if classes := a.classesOf(f.provider); !slices.Contains(classes, f.class) {
		return breaker.Key{}, fmt.Errorf("--class: %q is not one of %s", f.class, strings.Join(classes, ", "))
	}
	return breaker.Key{Name: f.provider, Class: f.class}, nil
}

// circuitWords is a circuit's state in a few words.
func circuitWords(s breaker.Snapshot) string {
	now, words := time.Now(), string(s.State)
	switch {
	case s.Mode != "":
		words += " (" + overrideWords(s, now) + ")"
	case s.State == breaker.Open:
		words += " until " + moment(s.OpenUntil, now)
	}
	return words
}

// refusalWords says in one line why nothing was changed, and who was first.
func refusalWords(ctx context.Context, ops opcircuits.Operations, k breaker.Key, now breaker.Snapshot, err error) error {
	switch {
	case errors.Is(err, breaker.ErrUnavailable):
		return fmt.Errorf("%s: Redis cannot be reached, and a change would count in this process only; nothing was changed: %w", k, err)
	case errors.Is(err, breaker.ErrNotOpen):
		return fmt.Errorf("%s is %s: there is nothing to probe; nothing was changed", k, circuitWords(now))
	case !errors.Is(err, breaker.ErrEpoch):
		return err
	}
	who := ""
	if last, ok, lookErr := ops.LastChange(ctx, now); lookErr == nil && ok {
		who = fmt.Sprintf(" (%s: %s at %s)", last.ActorName, last.Action, last.At.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%s changed meanwhile: it is now %s, epoch %s%s; nothing was changed", k, circuitWords(now), now.Epoch, who)
}

// personHere is who runs this command, by the operating system's word.
func personHere() store.Actor {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return store.Actor{Kind: commandLine.Kind, ID: commandLine.ID + ":" + name, Name: name + " (" + commandLine.Name + ")"}
}
