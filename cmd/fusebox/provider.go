package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"fusebox/provider"
	"fusebox/provider/check"
)

// providerCommand lists the configured providers and checks one of them.
func providerCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("provider: say list, or check NAME")
	}
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	registry, err := kinds.Build(cfg.providers)
	if err != nil {
		return err
	}
	switch args[0] {
	case "list":
		return listProviders(cfg, registry, out)
	case "check":
		return checkProvider(ctx, cfg, registry, args[1:], out)
	}
	return fmt.Errorf("provider: %q is not list or check", args[0])
}

// listProviders shows what is configured and what each adapter declares.
func listProviders(cfg config, registry *provider.Registry, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tADDRESS\tKEYS\tWAYS TO THE TRUTH\tLIST\tEVENTS\tOPERATIONS")
	for _, s := range cfg.providers {
		a, _ := registry.Get(s.Name)
		c := a.Capabilities()
		keys := "none"
		if c.IdempotencyKeys {
			keys = c.KeyLife.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v\t%t\t%t\t%v\n", s.Name, s.Kind, s.BaseURL, keys, c.Ways, c.Listing, c.Webhooks, c.Operations)
	}
	return w.Flush()
}

func checkProvider(ctx context.Context, cfg config, registry *provider.Registry, args []string, out io.Writer) error {
	fs := newFlags("provider check", "NAME")
	asJSON := fs.Bool("json", false, "print JSON")
	if err := fs.Parse(args); err != nil {
		return err
	}
	name := fs.Arg(0)
	adapter, ok := registry.Get(name)
	if !ok || fs.NArg() != 1 {
		return fmt.Errorf("provider check: %q is not one of FUSEBOX_PROVIDERS", name)
	}
	a := app{cfg: cfg}
	settings, _ := a.settings(name)
	findings := check.Run(ctx, check.Options{Settings: settings, Adapter: adapter, Deliveries: deliveries(ctx, cfg, name)})
	if err := printFindings(out, findings, *asJSON); err != nil {
		return err
	}
	if check.Failed(findings) {
		return errFindings
	}
	return nil
}

// deliveries reads the inbox, if there is a database; without one the rest can still be
// checked, before anything is installed.
func deliveries(ctx context.Context, cfg config, name string) *check.Deliveries {
	if cfg.requireDatabase() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	a, err := buildReader(ctx, cfg, "check")
	if err != nil {
		return nil
	}
	defer a.close()
	d, err := a.store.Deliveries(ctx, name, a.store.Now().Add(-24*time.Hour))
	if err != nil {
		a.log.Warn("the inbox cannot be read", "error", err)
		return nil
	}
	c := check.Deliveries(d)
	return &c
}

func printFindings(out io.Writer, list []check.Finding, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, f := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Result, f.Check, f.Detail)
	}
	return w.Flush()
}
