package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// faults carries out the schedule, each fault beside the others, and returns when the
// last one has been healed.
func (w *world) faults(ctx context.Context, schedule []Event, x *watch, done func(Event)) {
	began, locks := time.Now(), newLocks()
	var wg sync.WaitGroup
	for _, e := range schedule {
		if !pause(ctx, e.At-time.Since(began)) {
			break
		}
		wg.Go(func() {
			// On a slow machine a fault may last longer than was planned: the next one of the
			// same thing waits for it.
			defer locks.take(e)()
			w.log.Info("fault", "at", time.Since(began).Round(time.Millisecond), "what", e.String())
			x.explains(e.Fault, true)
			defer x.explains(e.Fault, false)
			// A fault that began is healed, also when the run is cut short.
			if err := w.apply(context.WithoutCancel(ctx), e); err != nil {
				w.finds("the fault %s: %v", e, err)
				return
			}
			done(e)
		})
	}
	wg.Wait()
}

// locks are on what faults take.
type locks struct {
	held  map[Fault]func(string) []string
	mu    sync.Mutex
	names map[string]*sync.Mutex
}

func newLocks() *locks {
	l := &locks{held: map[Fault]func(string) []string{}, names: map[string]*sync.Mutex{}}
	for _, s := range specs() {
		l.held[s.fault] = s.held
	}
	return l
}

// take waits until all of what a fault takes is free, in one order for everybody, and
// returns how to give it back.
func (l *locks) take(e Event) (give func()) {
	names := slices.Sorted(slices.Values(l.held[e.Fault](e.Target)))
	taken := make([]*sync.Mutex, len(names))
	for i, name := range names {
		l.mu.Lock()
		if l.names[name] == nil {
			l.names[name] = &sync.Mutex{}
		}
		taken[i] = l.names[name]
		l.mu.Unlock()
		taken[i].Lock()
	}
	return func() {
		for _, m := range taken {
			m.Unlock()
		}
	}
}

// stopWithin is what a process may take to end when asked: its own grace and some.
const stopWithin = 20 * time.Second

func (w *world) apply(ctx context.Context, e Event) error {
	switch e.Fault {
	case KillServe, KillWork, KillSim:
		return w.replace(ctx, w.units[e.Target], syscall.SIGKILL, e.For)
	case StopServe, StopWork, StopSim:
		return w.replace(ctx, w.units[e.Target], syscall.SIGTERM, e.For)
	case FreezeWork:
		return freeze(ctx, w.units[e.Target], e.For)
	case ClockAhead:
		return w.clockAhead(ctx, w.units[e.Target], e.For)
	case Rolling:
		return w.roll(ctx)
	case PostgresRestart:
		return w.pg.Restart(ctx)
	case RedisStop:
		return w.redisStop(ctx, e.For)
	case RedisEmpty:
		w.redis.forget()
		return w.replace(ctx, w.redis.unit, syscall.SIGKILL, 0)
	case RedisHang:
		return freeze(ctx, w.redis.unit, e.For)
	case Webhooks:
		w.relay.storm.Store(true)
		pause(ctx, e.For)
		w.relay.storm.Store(false)
		return nil
	default:
		return w.disturbs(ctx, e)
	}
}

// disturbs does what happens on a wire.
func (w *world) disturbs(ctx context.Context, e Event) error {
	kind, what, _ := strings.Cut(string(e.Fault), "_")
	name := kind + ":" + e.Target
	do := map[string]func() error{
		"cut": func() error { return w.mesh.cut(name) },
		"latency": func() error {
			return w.both(name, "latency", map[string]int64{"latency": e.Strength / 2, "jitter": e.Strength / 4})
		},
		"bandwidth": func() error { return w.both(name, "bandwidth", map[string]int64{"rate": e.Strength}) },
		"reset": func() error {
			return w.mesh.disturb(name, "reset_peer", "downstream", map[string]int64{"timeout": e.Strength})
		},
		"truncate": func() error {
			return w.mesh.disturb(name, "limit_data", "downstream", map[string]int64{"bytes": e.Strength})
		},
		"half_open": func() error { return w.both(name, "timeout", map[string]int64{"timeout": 0}) },
	}[what]
	if do == nil {
		return fmt.Errorf("chaos: no way to do %s", e.Fault)
	}
	err := do()
	pause(ctx, e.For)
	return errors.Join(err, w.mesh.calm(ctx, name))
}

// both disturbs a wire in both directions.
func (w *world) both(name, kind string, attributes map[string]int64) error {
	return errors.Join(w.mesh.disturb(name, kind, "upstream", attributes), w.mesh.disturb(name, kind, "downstream", attributes))
}

// replace ends a process and starts it again after a while.
func (w *world) replace(ctx context.Context, u *unit, sig syscall.Signal, down time.Duration, env ...string) error {
	err := u.end(sig, stopWithin)
	pause(ctx, down)
	return errors.Join(err, u.start(ctx, env...))
}

func freeze(ctx context.Context, u *unit, long time.Duration) error {
	if err := u.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, long)
	return u.signal(syscall.SIGCONT)
}

// clockAhead runs a worker on a clock that is ten minutes ahead.
func (w *world) clockAhead(ctx context.Context, u *unit, long time.Duration) error {
	if err := w.replace(ctx, u, syscall.SIGTERM, 0, "FUSEBOX_CLOCK_OFFSET=10m"); err != nil {
		return err
	}
	pause(ctx, long)
	return w.replace(ctx, u, syscall.SIGTERM, 0)
}

// redisStop is an orderly stop: it comes back with what it knew.
func (w *world) redisStop(ctx context.Context, down time.Duration) error {
	err := w.redis.stopKeeping(ctx)
	pause(ctx, down)
	err = errors.Join(err, w.redis.start(ctx))
	w.redis.forget()
	return err
}

// roll is a deployment: the new version's migration runs while the old version serves,
// then one process after another is stopped and started. The program is the same before
// and after, and its own migrations are all in place, so the new version's part is played
// by a column and an index on the two busiest tables, made under a short lock timeout as
// a careful migration is.
func (w *world) roll(ctx context.Context) error {
	if _, err := w.command(ctx, "migrate", "up"); err != nil {
		return err
	}
	if err := w.nextVersion(ctx); err != nil {
		return err
	}
	for _, name := range slices.Concat(prefixed("sim-", providers), works, serves) {
		if err := w.replace(ctx, w.units[name], syscall.SIGTERM, 0); err != nil {
			return err
		}
	}
	return nil
}

// nextVersion makes the changes of a version that does not exist.
func (w *world) nextVersion(ctx context.Context) error {
	w.rolled++
	for _, statement := range []string{
		`ALTER TABLE payments ADD COLUMN IF NOT EXISTS chaos_%d text NOT NULL DEFAULT ''`,
		`ALTER TABLE attempts ADD COLUMN IF NOT EXISTS chaos_%d bigint`,
		`CREATE INDEX CONCURRENTLY IF NOT EXISTS chaos_payments_%d ON payments (updated_at)`,
	} {
		if err := w.migrates(ctx, fmt.Sprintf(statement, w.rolled)); err != nil {
			return fmt.Errorf("the next version's migration: %w", err)
		}
	}
	return nil
}

// migrates runs one statement, again when it did not get its lock in a second, or lost
// its connection.
func (w *world) migrates(ctx context.Context, statement string) (err error) {
	for range 20 {
		if err = w.migratesOnce(ctx, statement); err == nil {
			return nil
		}
		pause(ctx, 200*time.Millisecond)
	}
	return err
}

func (w *world) migratesOnce(ctx context.Context, statement string) error {
	c, err := pgx.Connect(ctx, w.pg.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	if !strings.Contains(statement, "CONCURRENTLY") { // which waits for others, and nobody for it
		if _, err := c.Exec(ctx, `SET lock_timeout = '1s'`); err != nil {
			return err
		}
	}
	_, err = c.Exec(ctx, statement)
	return err
}

// calm ends whatever still disturbs, so that everything can settle.
func (w *world) calm(ctx context.Context) error {
	var errs []error
	for _, s := range w.sims {
		errs = append(errs, s.heal(ctx))
	}
	return errors.Join(errs...)
}

// crashes finds what broke in the logs of all processes.
func (w *world) crashes() (out []string) {
	for _, u := range w.units {
		out = append(out, u.crashes()...)
	}
	slices.Sort(out)
	return out
}
