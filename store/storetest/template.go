package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/migrations"
	"fusebox/store"
)

// templateLock serializes the processes that share a server.
const templateLock int64 = 0x746d706c // "tmpl"

// templates remembers, per server, the template this process has made sure of.
var templates struct {
	sync.Mutex
	names map[string]string
}

// ensureTemplate returns the name of a migrated template database on the server,
// making it if needed. The name carries a hash of the migrations, so that a server
// that outlives a change of them never serves an old schema.
func ensureTemplate(ctx context.Context, admin string) (string, error) {
	templates.Lock()
	defer templates.Unlock()
	if name, ok := templates.names[admin]; ok {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	hash, err := schemaHash()
	if err != nil {
		return "", err
	}
	name := "fusebox_template_" + hash
	if err := makeTemplate(ctx, admin, name); err != nil {
		return "", fmt.Errorf("template database: %w", err)
	}
	if templates.names == nil {
		templates.names = map[string]string{}
	}
	templates.names[admin] = name
	return name, nil
}

func makeTemplate(ctx context.Context, admin, name string) error {
	c, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return err
	}
	var exists bool
	err = c.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	if err != nil || exists {
		return err
	}
	// Built under another name and renamed when complete: a killed process leaves no
	// half-migrated template.
	building := name + "_building"
	for _, statement := range []string{`DROP DATABASE IF EXISTS ` + ident(building), `CREATE DATABASE ` + ident(building)} {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := migrate(ctx, withDatabase(admin, building)); err != nil {
		return err
	}
	_, err = c.Exec(ctx, `ALTER DATABASE `+ident(building)+` RENAME TO `+ident(name))
	return err
}

func migrate(ctx context.Context, dsn string) error {
	pool, err := store.Open(ctx, dsn, "fusebox-test-migrate", 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	return store.MigrateUp(ctx, pool)
}

// schemaHash covers our migration files and River's version.
func schemaHash() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(migrations.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(migrations.FS, path)
		h.Write([]byte(path))
		h.Write(b)
		return err
	})
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/riverqueue/river" {
				h.Write([]byte(dep.Version))
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], err
}
