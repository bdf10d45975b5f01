package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"fusebox/breaker"
)

// arm is one way to make a protected call.
type arm struct {
	name string
	// open prepares a run of that many goroutines under a name of its own. caller
	// returns the function that makes one goroutine's calls; recorded is how many calls
	// the breaker knows of afterwards, -1 if it counts none.
	open func(ctx context.Context, name string, goroutines int) (run, error)
}

type run struct {
	caller   func(goroutine int) (func(work func()) error, error)
	recorded func(ctx context.Context) (int, error)
	close    func()
}

// uncounted is for arms without a breaker.
func uncounted(context.Context) (int, error) { return -1, nil }

// client returns a Redis client as the breaker wants it, with a connection for every
// goroutine, so that no arm waits for its own pool, and patience, so that a busy machine
// is measured and not mistaken for an outage.
func client(url string, goroutines int) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("the Redis URL is not valid")
	}
	o.PoolSize, o.MaxRetries, o.DialerRetries, o.DisableIdentity = max(goroutines, 2), -1, 1, true
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, patience
	return redis.NewClient(o), nil
}

// patience bounds a trip to Redis.
const patience = 5 * time.Second

// bare makes the call and nothing else.
func bare() arm {
	return arm{"bare", func(context.Context, string, int) (run, error) {
		call := func(work func()) error { work(); return nil }
		return run{caller: func(int) (func(func()) error, error) { return call, nil }, recorded: uncounted, close: func() {}}, nil
	}}
}

// floor makes two bare round trips around the call: the least a shared breaker costs.
func floor(url string) arm {
	return arm{"floor", func(ctx context.Context, _ string, goroutines int) (run, error) {
		c, err := client(url, goroutines)
		if err != nil {
			return run{}, err
		}
		call := func(work func()) error {
			if err := c.Ping(ctx).Err(); err != nil {
				return err
			}
			work()
			return c.Ping(ctx).Err()
		}
		return run{caller: func(int) (func(func()) error, error) { return call, nil }, recorded: uncounted, close: closer(c)}, nil
	}}
}

// ours is Fusebox's breaker with every rule on.
func ours(url string) arm {
	return arm{"ours", func(ctx context.Context, name string, goroutines int) (run, error) {
		c, err := client(url, goroutines)
		if err != nil {
			return run{}, err
		}
		settings := breaker.Recommended(patience)
		b := breaker.NewRedis(c, breaker.Options{Timeout: patience, Worker: "bench", Prefix: prefix,
			Settings: func(breaker.Key) breaker.Settings { return settings }})
		key := breaker.Key{Name: name, Class: "charge"}
		call := func(work func()) error {
			began := time.Now()
			permit, err := b.Permit(ctx, key)
			if err != nil {
				return err
			}
			work()
			permit.Report(ctx, breaker.OK, time.Since(began), "", "")
			return nil
		}
		return run{
			caller: func(int) (func(func()) error, error) { return call, nil },
			recorded: func(ctx context.Context) (int, error) {
				s, err := b.Snapshot(ctx, key)
				if err == nil && s.Degraded {
					err = errors.New("the Redis was lost during the run")
				}
				return s.Total.OK + s.Total.Fail + s.Total.Neutral, err
			},
			close: closer(c),
		}, nil
	}}
}

// gobreakerShared is sony/gobreaker v2's distributed breaker in its best arrangement:
// a breaker, a store and a connection for every goroutine.
func gobreakerShared(url string) arm {
	return arm{"gobreaker", func(ctx context.Context, name string, goroutines int) (run, error) {
		c, err := client(url, goroutines)
		if err != nil {
			return run{}, err
		}
		settings := gobreaker.Settings{Name: prefix + name}
		if _, err := gobreaker.NewDistributedCircuitBreaker[struct{}](goStore{c}, settings); err != nil {
			return run{}, fmt.Errorf("gobreaker: %w", err) // the first creates the shared state
		}
		return run{
			caller: func(int) (func(func()) error, error) {
				return gobreakerCaller(goStore{c}, settings)
			},
			recorded: func(ctx context.Context) (int, error) {
				raw, err := c.Get(ctx, "gobreaker:state:"+settings.Name).Bytes()
				if err != nil {
					return 0, err
				}
				var state gobreaker.SharedState
				err = json.Unmarshal(raw, &state)
				return int(state.Counts.Requests), err
			},
			close: closer(c),
		}, nil
	}}
}

func gobreakerCaller(s goStore, settings gobreaker.Settings) (func(func()) error, error) {
	// Creating one takes the lock that all share; many at once may not all get it.
	var b *gobreaker.DistributedCircuitBreaker[struct{}]
	var err error
	for range 5 {
		if b, err = gobreaker.NewDistributedCircuitBreaker[struct{}](s, settings); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("gobreaker: %w", err)
	}
	return func(work func()) error {
		_, err := b.Execute(func() (struct{}, error) { work(); return struct{}{}, nil })
		return err
	}, nil
}

// goStore keeps gobreaker's shared state, by its documentation.
type goStore struct{ c redis.UniversalClient }

// lockTTL outlives gobreaker's own limit on holding its lock.
const lockTTL = 10 * time.Second

var errLocked = errors.New("locked")

// Lock implements gobreaker.SharedDataStore.
func (s goStore) Lock(name string) error {
	got, err := s.c.SetNX(context.Background(), name, 1, lockTTL).Result()
	if err == nil && !got {
		err = errLocked
	}
	return err
}

// Unlock implements gobreaker.SharedDataStore.
func (s goStore) Unlock(name string) error { return s.c.Del(context.Background(), name).Err() }

// GetData implements gobreaker.SharedDataStore.
func (s goStore) GetData(name string) ([]byte, error) {
	b, err := s.c.Get(context.Background(), name).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return b, err
}

// SetData implements gobreaker.SharedDataStore.
func (s goStore) SetData(name string, data []byte) error {
	return s.c.Set(context.Background(), name, data, 0).Err()
}

// gobreakerLocal is the same library without sharing, for scale: it cannot know what
// other processes see.
func gobreakerLocal() arm {
	return arm{"gobreaker_memory", func(_ context.Context, name string, _ int) (run, error) {
		b := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{Name: name})
		call := func(work func()) error {
			_, err := b.Execute(func() (struct{}, error) { work(); return struct{}{}, nil })
			return err
		}
		return run{caller: func(int) (func(func()) error, error) { return call, nil },
			recorded: func(context.Context) (int, error) { return int(b.Counts().Requests), nil }, close: func() {}}, nil
	}}
}

func closer(c redis.UniversalClient) func() {
	return func() { _ = c.Close() } // nothing of it is used again
}
