package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"fusebox/store"
)

func migrateCommand(ctx context.Context, args []string, out io.Writer) error {
	fs := newFlags("migrate", "up | down | status")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	if err := cfg.requireDatabase(); err != nil {
		return err
	}
	pool, err := store.Open(ctx, cfg.DatabaseURL, "fusebox-migrate", 4)
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	switch fs.Arg(0) {
	case "up":
		err = store.MigrateUp(ctx, pool)
	case "down":
		err = store.MigrateDown(ctx, pool)
	case "status":
	default:
		return fmt.Errorf("migrate: %q is not up, down or status", fs.Arg(0))
	}
	if err != nil {
		return err
	}
	migrations, err := store.MigrationStatus(ctx, pool)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, m := range migrations {
		state := "pending"
		if m.Applied {
			state = "applied"
			if !m.AppliedAt.IsZero() {
				state += " " + m.AppliedAt.UTC().Format(time.RFC3339)
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", m.Set, m.Version, m.Name, state)
	}
	return w.Flush()
}
