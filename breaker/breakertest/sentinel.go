package breakertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinelName is how the sentinels call the primary.
const sentinelName = "main"

// Sentinel is a Redis with a replica, and three sentinels of which two promote it.
type Sentinel struct {
	t         testing.TB
	Nodes     []*Server // the first primary, its replica
	sentinels []*Server
}

// StartSentinel runs them for one test. A primary that is silent for 3 s is replaced: less
// would take a busy machine for a dead one.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	g := &Sentinel{t: t}
	host, port, _ := net.SplitHostPort(g.node().addr)
	g.node("--replicaof", host, port)
	g.await("the replica follows", func(ctx context.Context) bool { return g.follows(ctx, g.Nodes[1]) })
	for range 3 {
		g.add(host, port)
	}
	g.await("the sentinels know each other", func(ctx context.Context) bool {
		for _, s := range g.sentinels {
			info, err := s.Client().Info(ctx, "sentinel").Result()
			if err != nil || !strings.Contains(info, "slaves=1,sentinels=3") {
				return false
			}
		}
		return true
	})
	return g
}

// node starts a Redis that can follow another.
func (g *Sentinel) node(args ...string) *Server {
	g.t.Helper()
	s := &Server{t: g.t, dir: g.t.TempDir(), args: append(args, "--repl-diskless-sync-delay", "0")}
	g.launch(s)
	g.Nodes = append(g.Nodes, s)
	return s
}

func (g *Sentinel) launch(s *Server) {
	g.t.Helper()
	if err := s.launch(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(s.Stop)
}

func (g *Sentinel) add(host, port string) {
	g.t.Helper()
	s := &Server{t: g.t, dir: g.t.TempDir(), watches: fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\n"+
		"sentinel down-after-milliseconds %[1]s 3000\nsentinel failover-timeout %[1]s 5000\n", sentinelName, host, port)}
	g.launch(s)
	g.sentinels = append(g.sentinels, s)
}

// sentinelArgs writes a sentinel's configuration, which it keeps its knowledge in.
func (s *Server) sentinelArgs(dir, port string) ([]string, error) {
	file := filepath.Join(dir, "sentinel.conf")
	conf := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nlogfile %s\n%s", port, dir, filepath.Join(dir, "log"), s.watches)
	return []string{file, "--sentinel"}, os.WriteFile(file, []byte(conf), 0o600)
}

// URL returns the group's URL for NewClient.
func (g *Sentinel) URL() string {
	url := "redis://" + g.sentinels[0].addr + "?master_name=" + sentinelName
	for _, s := range g.sentinels[1:] {
		url += "&addr=" + s.addr
	}
	return url
}

// Primary returns the index in Nodes of the node that is the primary by the word of a
// sentinel.
func (g *Sentinel) Primary() int {
	g.t.Helper()
	found := -1
	g.await("a sentinel names the primary", func(ctx context.Context) bool {
		for _, s := range g.sentinels {
			c := redis.NewSentinelClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DisableIdentity: true})
			at, err := c.GetMasterAddrByName(ctx, sentinelName).Result()
			_ = c.Close()
			for i, n := range g.Nodes {
				if err == nil && len(at) == 2 && n.addr == net.JoinHostPort(at[0], at[1]) {
					found = i
					return true
				}
			}
		}
		return false
	})
	return found
}

// AwaitFollower waits until node i is a replica that follows its primary.
func (g *Sentinel) AwaitFollower(i int) {
	g.t.Helper()
	g.await("the node follows the new primary", func(ctx context.Context) bool { return g.follows(ctx, g.Nodes[i]) })
}

func (g *Sentinel) follows(ctx context.Context, s *Server) bool {
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	info, err := c.Info(ctx, "replication").Result()
	return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
}

func (g *Sentinel) await(what string, ok func(context.Context) bool) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*startTimeout)
	defer cancel()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			g.t.Fatalf("breakertest: sentinel: not in time: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
