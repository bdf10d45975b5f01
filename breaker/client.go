package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// clientTimeout bounds each step of a trip to Redis.
const clientTimeout = 50 * time.Millisecond

// NewClient returns a client fit for NewRedis: it never repeats a command, dials once
// and gives up after about 50 ms. The URL is redis://, rediss:// or unix://; with addr
// parameters (?addr=host:port&addr=...) it is a cluster, with master_name a Sentinel
// group. Timeouts given in the URL win.
func NewClient(rawURL string) (redis.UniversalClient, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("breaker: redis url: %w", withoutURL(err))
	}
	switch q := u.Query(); {
	case q.Has("master_name"):
		return failoverClient(rawURL)
	case q.Has("addr"):
		return clusterClient(rawURL)
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("breaker: redis url: %w", withoutURL(err))
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
	o.MaintNotificationsConfig = noMaintenance()
	deadlines(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	return redis.NewClient(o), nil
}

func clusterClient(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("breaker: redis cluster url: %w", withoutURL(err))
	}
	// MaxRedirects stays: MOVED and ASK answer commands that did not run.
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
	o.MaintNotificationsConfig = noMaintenance()
	deadlines(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	return redis.NewClusterClient(o), nil
}

func failoverClient(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("breaker: redis sentinel url: %w", withoutURL(err))
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
	deadlines(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
	return redis.NewFailoverClient(o), nil
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// deadlines sets what the URL left open.
func deadlines(ds ...*time.Duration) {
	for _, d := range ds {
		orDefault(d, clientTimeout)
	}
}

// withoutURL drops the URL, which may hold a password, from a parse error.
func withoutURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

// CheckServer refuses a Redis that may drop circuits: its maxmemory-policy must be
// noeviction, on every primary. The warning is not empty when the server does not let
// itself be asked, as managed services may.
func CheckServer(ctx context.Context, client redis.UniversalClient) (warning string, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return checkNode(ctx, client)
	}
	warnings := make(chan string, 1)
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		w, err := checkNode(ctx, node)
		if w != "" {
			select {
			case warnings <- w:
			default:
			}
		}
		return err
	})
	select {
	case warning = <-warnings:
	default:
	}
	return warning, err
}

func checkNode(ctx context.Context, client redis.Cmdable) (string, error) {
	if err := client.Ping(ctx).Err(); err != nil {
		return "", fmt.Errorf("breaker: redis: %w", err)
	}
	policy, err := evictionPolicy(ctx, client)
	switch {
	case err != nil:
		return "redis does not tell its maxmemory-policy (" + err.Error() + "); make sure it is noeviction", nil
	case policy != "noeviction":
		return "", fmt.Errorf("%w: maxmemory-policy is %q, it must be noeviction", ErrServer, policy)
	}
	return "", nil
}

// evictionPolicy asks CONFIG, and INFO where CONFIG is not allowed.
func evictionPolicy(ctx context.Context, client redis.Cmdable) (string, error) {
	m, err := client.ConfigGet(ctx, "maxmemory-policy").Result()
	if p := m["maxmemory-policy"]; err == nil && p != "" {
		return p, nil
	}
	info, infoErr := client.Info(ctx, "memory").Result()
	for line := range strings.Lines(info) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return p, nil
		}
	}
	if err == nil {
		err = infoErr
	}
	if err == nil {
		err = fmt.Errorf("it has no such setting")
	}
	return "", err
}

// warnClient logs settings of a foreign client that break the breaker's promises.
func warnClient(client redis.UniversalClient, log *slog.Logger) {
	var retries int
	var honours bool
	switch c := client.(type) {
	case *redis.Client:
		retries, honours = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, honours = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	default:
		return
	}
	if retries > 0 {
		log.Warn("breaker: the Redis client repeats commands; a repeated report counts twice", "max_retries", retries)
	}
	if !honours {
		log.Warn("breaker: the Redis client ignores deadlines; calls may wait for its own timeouts")
	}
}
