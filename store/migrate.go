package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"fusebox/migrations"
)

// migrationLock is the advisory lock one migrating process holds.
const migrationLock int64 = 0x66757365626f78 // "fusebox"

// Migration is one schema change and whether the database has it.
type Migration struct {
	Set       string // fusebox or river
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero when not applied or not recorded
}

// MigrateUp applies every migration of River, then of ours, that the database lacks: ours
// tune River's tables.
// Processes that start together wait for each other.
func MigrateUp(ctx context.Context, pool *pgxpool.Pool) error {
	return migrating(ctx, pool, func(m migrator) error {
		if _, err := m.river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("store: migrate river up: %w", err)
		}
		if _, err := m.ours.Up(ctx); err != nil {
			return fmt.Errorf("store: migrate up: %w", err)
		}
		return nil
	})
}

// MigrateDown takes back our latest migration; with the first one gone, River's
// tables go as well, so that nothing is left of Fusebox.
func MigrateDown(ctx context.Context, pool *pgxpool.Pool) error {
	return migrating(ctx, pool, func(m migrator) error {
		if _, err := m.ours.Down(ctx); err != nil && !errors.Is(err, goose.ErrNoNextVersion) {
			return fmt.Errorf("store: migrate down: %w", err)
		}
		v, err := m.ours.GetDBVersion(ctx)
		if err != nil {
			return fmt.Errorf("store: migrate down: %w", err)
		}
		if v > 0 {
			return nil
		}
		_, err = m.river.Migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{TargetVersion: -1})
		if err != nil {
			return fmt.Errorf("store: migrate river down: %w", err)
		}
		return nil
	})
}

// MigrationStatus lists all migrations, ours first, oldest first.
func MigrationStatus(ctx context.Context, pool *pgxpool.Pool) ([]Migration, error) {
	var out []Migration
	err := migrating(ctx, pool, func(m migrator) error {
		ours, err := m.ours.Status(ctx)
		if err != nil {
			return fmt.Errorf("store: migration status: %w", err)
		}
		for _, st := range ours {
			out = append(out, Migration{Set: "fusebox", Version: st.Source.Version, Name: st.Source.Path,
				Applied: st.State == goose.StateApplied, AppliedAt: st.AppliedAt})
		}
		existing, err := m.river.ExistingVersions(ctx)
		if err != nil {
			return fmt.Errorf("store: migration status of river: %w", err)
		}
		has := make(map[int]bool, len(existing))
		for _, v := range existing {
			has[v.Version] = true
		}
		for _, v := range m.river.AllVersions() {
			out = append(out, Migration{Set: "river", Version: int64(v.Version), Name: v.Name, Applied: has[v.Version]})
		}
		return nil
	})
	return out, err
}

// CheckSchema reports, as an error that says what to do, a database whose schema is
// older than this program needs.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	ms, err := MigrationStatus(ctx, pool)
	if err != nil {
		return err
	}
	for _, m := range ms {
		if !m.Applied {
			return fmt.Errorf("store: the database lacks migration %s %d (%s); run fusebox migrate up", m.Set, m.Version, m.Name)
		}
	}
	return nil
}

// migrator holds both sets of migrations on connections of their own.
type migrator struct {
	ours  *goose.Provider
	river *rivermigrate.Migrator[pgx.Tx]
}

// migrating runs fn under the advisory lock, on a pool whose statements may take
// as long as a migration takes.
func migrating(ctx context.Context, pool *pgxpool.Pool, fn func(migrator) error) error {
	own, err := migrationPool(ctx, pool)
	if err != nil {
		return err
	}
	defer own.Close()
	return locked(ctx, own, func() error {
		db := stdlib.OpenDBFromPool(own)
		defer func() { _ = db.Close() }()
		m, err := newMigrator(db, own)
		if err != nil {
			return err
		}
		return fn(m)
	})
}

func migrationPool(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	cfg := pool.Config().Copy()
	cfg.MaxConns, cfg.MinConns = 3, 0 // the lock, goose, River
	for _, limit := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		cfg.ConnConfig.RuntimeParams[limit] = "0"
	}
	own, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("store: migrate: %w", err)
	}
	return own, nil
}

func newMigrator(db *sql.DB, pool *pgxpool.Pool) (migrator, error) {
	var sqlFiles fs.FS = migrations.FS
	ours, err := goose.NewProvider(goose.DialectPostgres, db, sqlFiles)
	if err != nil {
		return migrator{}, fmt.Errorf("store: migrations: %w", err)
	}
	quiet := slog.New(slog.DiscardHandler)
	rivers, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return migrator{}, fmt.Errorf("store: river migrations: %w", err)
	}
	return migrator{ours: ours, river: rivers}, nil
}

// locked holds the advisory lock on one session while fn runs. The lock ends with
// the session at the latest, so a killed process leaves none behind.
func locked(ctx context.Context, pool *pgxpool.Pool, fn func() error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("store: migrate: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, migrationLock); err != nil {
		return fmt.Errorf("store: migration lock: %w", err)
	}
	defer func() {
		ctx, cancel := Detached(ctx)
		defer cancel()
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, migrationLock)
	}()
	return fn()
}
