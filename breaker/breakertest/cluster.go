package breakertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots a Redis Cluster has.
const slots = 16384

// Cluster is a Redis Cluster of three primaries, each with a replica or without.
type Cluster struct {
	t       testing.TB
	Nodes   []*Server // the primaries first, in slot order, then their replicas
	clients []*redis.Client
}

// StartCluster runs a cluster of three primaries for one test; with replicas, each has
// one that takes over after about a second.
func StartCluster(t testing.TB, replicas bool) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	n := 3
	if replicas {
		n = 6
	}
	for range n {
		c.add()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	for i, node := range c.clients {
		host, port, _ := strings.Cut(c.Nodes[0].addr, ":")
		c.must(node.ClusterResetHard(ctx).Err())
		if i < 3 {
			c.must(node.ClusterAddSlotsRange(ctx, slots*i/3, slots*(i+1)/3-1).Err())
		}
		if i > 0 {
			c.must(node.Do(ctx, "CLUSTER", "MEET", host, port, c.Nodes[0].busPort()).Err())
		}
	}
	c.await(ctx, "cluster_known_nodes:"+strconv.Itoa(n))
	if replicas {
		c.replicate(ctx)
	}
	c.await(ctx, "cluster_state:ok")
	return c
}

// busPort is the port the nodes talk on.
func (s *Server) busPort() string { return s.args[1] }

func (c *Cluster) add() {
	c.t.Helper()
	node := &Server{t: c.t, dir: c.t.TempDir(), args: []string{"--cluster-port", strconv.Itoa(10000 + rand.IntN(10000)),
		"--cluster-enabled", "yes", "--databases", "1", "--cluster-node-timeout", "1000", "--cluster-announce-ip", "127.0.0.1"}}
	if err := node.launch(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(node.Stop)
	c.Nodes = append(c.Nodes, node)
	c.clients = append(c.clients, node.Client())
}

// replicate makes each later node the replica of a primary and waits for its data.
func (c *Cluster) replicate(ctx context.Context) {
	c.t.Helper()
	for i := range 3 {
		id, err := c.clients[i].ClusterMyID(ctx).Result()
		c.must(err)
		c.must(c.clients[3+i].ClusterReplicate(ctx, id).Err())
		c.poll(ctx, "replica follows", func() bool {
			info, err := c.clients[3+i].Info(ctx, "replication").Result()
			return err == nil && strings.Contains(info, "master_link_status:up")
		})
	}
}

// Owner returns the index of the primary that holds key.
func (c *Cluster) Owner(key string) int {
	c.t.Helper()
	slot, err := c.clients[0].ClusterKeySlot(context.Background(), key).Result()
	c.must(err)
	for i := range 3 {
		if int(slot) < slots*(i+1)/3 {
			return i
		}
	}
	return 2
}

// Replicated waits until the replica of primary i has everything written so far.
func (c *Cluster) Replicated(i int) {
	c.t.Helper()
	n, err := c.clients[i].Wait(context.Background(), 1, startTimeout).Result()
	c.must(err)
	if n != 1 {
		c.t.Fatal("breakertest: the replica does not follow")
	}
}

// URL returns the cluster's URL for NewClient.
func (c *Cluster) URL() string {
	url := "redis://" + c.Nodes[0].addr + "?addr=" + c.Nodes[1].addr
	for _, n := range c.Nodes[2:] {
		url += "&addr=" + n.addr
	}
	return url
}

// await waits until every node says what.
func (c *Cluster) await(ctx context.Context, what string) {
	c.t.Helper()
	c.poll(ctx, what, func() bool {
		for _, node := range c.clients {
			info, err := node.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, what) {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) poll(ctx context.Context, what string, ok func() bool) {
	c.t.Helper()
	for !ok() {
		select {
		case <-ctx.Done():
			c.t.Fatal(fmt.Errorf("breakertest: cluster: not in time: %s", what))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("breakertest: cluster: %v", err)
	}
}
