package breakertest

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockKey marks a database as taken by a test.
const lockKey = "breakertest:taken"

// external takes a free database of the Redis at rawURL, waiting for one.
func external(t testing.TB, rawURL string) *Server {
	t.Helper()
	base, err := url.Parse(rawURL)
	if err != nil {
		t.Fatalf("breakertest: %s is no URL", EnvURL)
	}
	owner := strconv.Itoa(os.Getpid()) + "/" + t.Name()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for db := 1; db < 16; db++ {
			u := *base
			u.Path = "/" + strconv.Itoa(db)
			if s := take(t, u.String(), db, owner); s != nil {
				return s
			}
		}
	}
	t.Fatalf("breakertest: no database of %s is free or reachable", EnvURL)
	return nil
}

// take returns nil when the database is another test's, or not there.
func take(t testing.TB, u string, db int, owner string) *Server {
	t.Helper()
	o, err := redis.ParseURL(u)
	if err != nil {
		t.Fatalf("breakertest: %s: no Redis URL", EnvURL)
	}
	c := redis.NewClient(o)
	ctx := context.Background()
	// The lock of a killed test ends by itself.
	if ok, err := c.SetNX(ctx, lockKey, owner, 10*time.Minute).Result(); err != nil || !ok {
		_ = c.Close()
		return nil
	}
	t.Cleanup(func() {
		c.FlushDB(ctx)
		_ = c.Close()
	})
	return &Server{t: t, addr: o.Addr, db: db, url: u}
}
