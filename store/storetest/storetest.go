// Package storetest gives every test a database of its own: a copy of a template
// that is migrated once, on a private server started once per test process or on
// the server named by FUSEBOX_TEST_PG.
package storetest

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fusebox/store"
	"fusebox/store/localpg"
)

// Env names a running server to use instead of a private one: a DSN whose role may
// create databases. One server then serves the tests of all packages.
const Env = "FUSEBOX_TEST_PG"

// DB is a test's own database, with the whole schema and no rows.
type DB struct {
	Name string
	DSN  string
	Pool *pgxpool.Pool
}

// server is this process's server, started by the first test that needs one.
var server struct {
	once  sync.Once
	admin string // DSN of a database to create others from
	own   *localpg.Server
	err   error
}

// Main runs the tests and stops the private server, if one was started. Use it as
// TestMain's body: os.Exit(storetest.Main(m)). Without it the server still dies with
// the process, but leaves its temporary files behind.
func Main(m *testing.M) int {
	defer func() {
		if server.own != nil {
			_ = server.own.Stop()
		}
	}()
	return m.Run()
}

// Parallel lets that many tests per processor run at once, unless -parallel says how many.
// For packages whose tests mostly wait: for a retry, a deadline, another process. Call it
// before Main.
func Parallel(perCPU int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		_ = flag.Set(parallelFlag, strconv.Itoa(perCPU*runtime.GOMAXPROCS(0)))
	}
}

const parallelFlag = "test.parallel"

// New returns a fresh database, dropped at the end of the test.
func New(t testing.TB) *DB {
	t.Helper()
	server.once.Do(startServer)
	if server.err != nil {
		t.Fatalf("storetest: %v", server.err)
	}
	return NewOn(t, server.admin)
}

// NewOn returns a fresh database on the server admin (a DSN) points at; for tests
// that restart a server of their own.
func NewOn(t testing.TB, admin string) *DB {
	t.Helper()
	ctx := context.Background()
	template, err := ensureTemplate(ctx, admin)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text()[:16])
	create := fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy`, ident(name), ident(template))
	if err := exec(ctx, admin, create); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	db := &DB{Name: name, DSN: withDatabase(admin, name)}
	t.Cleanup(func() {
		if db.Pool != nil {
			db.Pool.Close()
		}
		// FORCE ends the sessions of processes the test started.
		if err := exec(ctx, admin, `DROP DATABASE IF EXISTS `+ident(name)+` WITH (FORCE)`); err != nil {
			t.Logf("storetest: %v", err)
		}
	})
	if db.Pool, err = store.Open(ctx, db.DSN, "fusebox-test", 8); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return db
}

func startServer() {
	if dsn := os.Getenv(Env); dsn != "" {
		server.admin = dsn
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server.own, server.err = localpg.Start(ctx, localpg.Options{Fast: true, MaxConnections: 400})
	if server.err == nil {
		server.admin = server.own.DSN("postgres")
	}
}

// exec runs one statement on a connection of its own.
func exec(ctx context.Context, dsn, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, statement)
	return err
}

// withDatabase returns dsn with another database name.
func withDatabase(dsn, name string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" { // keyword/value form; the last one wins
		return dsn + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }
