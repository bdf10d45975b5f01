package breakertest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSentinelsPromoteTheReplica(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := StartSentinel(t)
	first := g.Primary()
	o, err := redis.ParseFailoverURL(g.URL())
	require.NoError(t, err)
	c := redis.NewFailoverClient(o)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	require.EqualValues(t, 1, c.Wait(ctx, 1, startTimeout).Val(), "the replica has it")
	g.Nodes[first].Stop()
	g.await("the replica is the primary", func(context.Context) bool { return g.Primary() != first })
	g.await("the client finds it", func(ctx context.Context) bool { return c.Get(ctx, "k").Val() == "v" })
	g.Nodes[first].Restart()
	g.AwaitFollower(first)
}
