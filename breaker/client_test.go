package breaker

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

func TestNewClientNeverRepeatsAndGivesUpSoon(t *testing.T) {
	t.Parallel()
	c, err := NewClient("redis://localhost:6379/3")
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	o := c.(*redis.Client).Options()
	require.Zero(t, o.MaxRetries) // what -1 becomes
	require.Equal(t, 1, o.DialerRetries)
	require.True(t, o.ContextTimeoutEnabled)
	for _, d := range []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout} {
		require.Equal(t, 50*time.Millisecond, d)
	}
	require.Equal(t, 3, o.DB)
}

func TestNewClientKinds(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]any{
		"redis://h:6379?read_timeout=2s":                       &redis.Client{},
		"redis://h:7000?addr=h:7001&addr=h:7002":               &redis.ClusterClient{},
		"redis://h:26379?master_name=main&addr=h:26380":        &redis.Client{},
		"rediss://user:secret@h:6380/0?skip_verify=false&db=1": &redis.Client{},
		"unix:///run/redis.sock?db=1":                          &redis.Client{},
	} {
		c, err := NewClient(url)
		require.NoError(t, err, url)
		require.IsType(t, want, c)
		require.NoError(t, c.Close())
	}
	for _, bad := range []string{"", "http://h", "redis://h:port", "redis://:hunter2@h/%zz", "redis://h?addr=h&nonsense=1"} {
		_, err := NewClient(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2", "a password is not told")
	}
}

func TestForeignClientsAreWarnedOf(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := redis.NewClient(&redis.Options{Addr: "localhost:1"})
	defer func() { _ = c.Close() }()
	NewRedis(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.Contains(t, log.String(), "repeats commands")
	require.Contains(t, log.String(), "ignores deadlines")
}

func TestCheckServerDemandsNoEviction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	good := breakertest.Start(t)
	warning, err := CheckServer(ctx, good.Client())
	require.NoError(t, err)
	require.Empty(t, warning)

	bad := breakertest.Start(t, "--maxmemory-policy", "volatile-lru")
	_, err = CheckServer(ctx, bad.Client())
	require.ErrorIs(t, err, ErrServer)
	require.ErrorContains(t, err, "volatile-lru")
}

func TestCheckServerWithoutCONFIG(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	// Managed services take CONFIG away; INFO still tells.
	bad := breakertest.Start(t, "--rename-command", "CONFIG", "", "--maxmemory-policy", "allkeys-lru")
	_, err := CheckServer(ctx, bad.Client())
	require.ErrorIs(t, err, ErrServer)
	// Without both it is a warning.
	silent := breakertest.Start(t)
	c := silent.Client()
	require.NoError(t, c.Do(ctx, "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-config", "-info").Err())
	o := *c.Options()
	o.Username, o.Password = "app", "x"
	app := redis.NewClient(&o)
	defer func() { _ = app.Close() }()
	warning, err := CheckServer(ctx, app)
	require.NoError(t, err)
	require.Contains(t, warning, "maxmemory-policy")
	require.Contains(t, warning, "noeviction")
}

func TestCheckServerOnTheDemosRedis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, err := NewClient("redis://" + m.Addr())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	warning, err := CheckServer(context.Background(), c)
	require.NoError(t, err)
	require.Contains(t, warning, "noeviction")
}

func TestCheckServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	c, err := NewClient("redis://127.0.0.1:1")
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = CheckServer(context.Background(), c)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrServer)
}
