package breaker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

func clustered(t *testing.T, c *breakertest.Cluster, name string) *Redis {
	t.Helper()
	client := productionClient(t, c.URL())
	require.IsType(t, &redis.ClusterClient{}, client)
	return NewRedis(client, Options{Worker: name, Timeout: time.Second, Recheck: 50 * time.Millisecond,
		Poll: 5 * time.Millisecond, Names: []string{"atlas", "beta", "gamma", "delta"},
		Settings: func(Key) Settings { return Settings{Failures: 3, OpenFor: time.Hour} },
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func TestRedisClusterHoldsCircuitsOnAllNodes(t *testing.T) {
	t.Parallel()
	cluster := breakertest.StartCluster(t, false)
	ctx := context.Background()
	for _, class := range []string{"charge", "status"} {
		a, b := clustered(t, cluster, "a"), clustered(t, cluster, "b")
		warning, err := CheckServer(ctx, a.store.client)
		require.NoError(t, err)
		require.Empty(t, warning)
		owners := map[int]bool{}
		for _, name := range []string{"atlas", "beta", "gamma", "delta"} {
			k := Key{Name: name, Class: class}
			owners[cluster.Owner("{"+name+"}")] = true
			for i := range 3 {
				permit, err := []*Redis{a, b, a}[i].Permit(ctx, k)
				require.NoError(t, err)
				report(permit, Fail)
			}
			_, err := b.Permit(ctx, k)
			var d *Denied
			require.True(t, errors.As(err, &d), "shared by both")
			s, err := a.Snapshot(ctx, k)
			require.NoError(t, err)
			require.False(t, s.Degraded)
			require.Equal(t, Open, s.State)
		}
		require.Greater(t, len(owners), 1, "the names lie on several nodes")
		require.True(t, a.Degraded().IsZero())
		require.True(t, b.Degraded().IsZero())
	}
	events, pos := map[Key]int{}, ""
	for len(events) < 8 {
		var got []Event
		got, pos = next(t, clustered(t, cluster, "c"), pos)
		for _, e := range got {
			events[e.Key]++
		}
	}
	for _, n := range events {
		require.Equal(t, 1, n)
	}
}

func TestFailoverKeepsTheCircuitOpen(t *testing.T) {
	t.Parallel()
	cluster := breakertest.StartCluster(t, true)
	b := clustered(t, cluster, "a")
	for range 3 {
		require.Nil(t, once(t, b, Fail))
	}
	was := state(t, b)
	require.Equal(t, Open, was.State)
	owner := cluster.Owner("{atlas}")
	cluster.Replicated(owner)
	cluster.Nodes[owner].Stop()
	eventually(t, "the loss is noticed, calls stay denied", func() bool {
		require.Equal(t, DeniedOpen, once(t, b, OK).Reason)
		return !b.Degraded().IsZero()
	})
	eventually(t, "the replica took over", func() bool {
		require.Equal(t, DeniedOpen, once(t, b, OK).Reason)
		return b.Degraded().IsZero()
	})
	s := state(t, b)
	require.False(t, s.Degraded)
	require.Equal(t, was.Epoch, s.Epoch)
	fresh := clustered(t, cluster, "b")
	require.Equal(t, Open, state(t, fresh).State)
	s, err := fresh.Reset(context.Background(), charge, s.Epoch, "ana", "works on the new primary")
	require.NoError(t, err)
	require.Equal(t, Closed, s.State)
	require.Nil(t, once(t, b, OK))
}
