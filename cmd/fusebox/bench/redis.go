package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is the Redis that all arms share.
type redisServer struct {
	url     string
	version string
	stop    func()
}

// openRedis uses the Redis at url, or starts a private redis-server when url is empty.
func openRedis(ctx context.Context, url string) (*redisServer, error) {
	s := &redisServer{url: url, stop: func() {}}
	if url == "" {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	c, err := client(s.url, 2)
	if err != nil {
		s.stop()
		return nil, err
	}
	defer closer(c)()
	if err := s.await(ctx, c); err != nil {
		s.stop()
		return nil, err
	}
	if err := clear(ctx, c); err != nil {
		s.stop()
		return nil, err
	}
	kill := s.stop
	s.stop = func() {
		// What a benchmark wrote is of no use to anybody; a server of our own ends with it.
		if c, err := client(s.url, 2); err == nil && url != "" {
			_ = clear(context.Background(), c)
			_ = c.Close()
		}
		kill()
	}
	return s, nil
}

// start runs a redis-server on a free port of the loopback, without persistence.
func (s *redisServer) start() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not installed (Debian: apt-get install redis-server), and REDIS_URL is not set")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close() // only its number was wanted
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(dir, "log"))
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("redis-server: %w", err)
	}
	s.url = "redis://127.0.0.1:" + port
	// The client logs every refused connection: it is asked once the server listens.
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			break
		}
	}
	s.stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	return nil
}

// await waits for the server and learns its version.
func (s *redisServer) await(ctx context.Context, c redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		info, err := c.Info(ctx, "server").Result()
		if err == nil {
			for line := range strings.Lines(info) {
				if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
					s.version = strings.TrimSpace(v)
				}
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Redis does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// clear removes what benchmarks wrote.
func clear(ctx context.Context, c redis.UniversalClient) error {
	for _, pattern := range []string{prefix + "*", "gobreaker:*:" + prefix + "*"} {
		keys := c.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Del(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		if err := keys.Err(); err != nil {
			return err
		}
	}
	return nil
}
