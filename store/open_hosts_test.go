package store

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// order is where a connection of c would look, in turn.
func order(c *pgx.ConnConfig) []string {
	list := []string{c.Host + ":"}
	for _, f := range c.Fallbacks {
		list = append(list, f.Host+":")
	}
	return list
}

func TestTheHostThatAnsweredLastIsAskedFirst(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ mode, first, second string }{{"disable", "a:", "b:"}, {"prefer", "a: a:", "b: b:"}} {
		cfg, err := pgxpool.ParseConfig("postgres://u@a:1,b:2/db?target_session_attrs=read-write&sslmode=" + way.mode)
		require.NoError(t, err)
		cfg.AfterConnect = func(context.Context, *pgx.Conn) error { return nil }
		var h hosts
		h.follow(cfg)
		c := cfg.ConnConfig
		c.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			return map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2", "::2"}}[host], nil
		}
		next := func() string {
			c := c.Copy()
			require.NoError(t, cfg.BeforeConnect(t.Context(), c))
			return strings.Join(order(c), " ")
		}
		require.Equal(t, way.first+" "+way.second, next(), "as written")
		h.connected(t.Context(), c, "[::2]:2")
		require.Equal(t, way.second+" "+way.first, next())
		h.connected(t.Context(), c, "10.0.0.1:1")
		require.Equal(t, way.first+" "+way.second, next())
		h.connected(t.Context(), c, "10.0.0.1:2")
		require.Equal(t, way.first+" "+way.second, next(), "nobody's address")
	}
}

// TestOneHostIsNotFollowed: a name may stand for several proxies, in any order.
func TestOneHostIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u@a:1/db?sslmode=prefer&target_session_attrs=read-write", "postgres://u@a:1,b:2/db"} {
		cfg, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		new(hosts).follow(cfg)
		require.Nil(t, cfg.BeforeConnect, url)
	}
}
