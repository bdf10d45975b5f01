package breaker

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a breaker shared by all processes that use the same Redis.
type Redis struct {
	opt     Options
	store   store
	scripts scripts
	tokens  tokens
	entries sync.Map // Key → *shared
	locals  localEvents
}

var (
	_ Breaker  = (*Redis)(nil)
	_ Operator = (*Redis)(nil)
)

// NewRedis returns a breaker on client, which stays the caller's to close. Make the
// client with NewClient: one that repeats commands would count calls twice, and one
// with long timeouts would hold callers up.
func NewRedis(client redis.UniversalClient, opt Options) *Redis {
	opt = opt.withDefaults()
	warnClient(client, opt.Log)
	r := &Redis{opt: opt, store: store{client, opt.Timeout}, scripts: newScripts(luaHead), tokens: newTokens(opt.Worker)}
	for _, name := range opt.Names {
		r.locals.know(name)
	}
	return r
}

// shared is what this process knows of one circuit.
type shared struct {
	key     Key
	set     Settings
	encoded string
	keys    []string
	cap     string // MaxInFlight and LeaseTTL as the script reads them
	lease   string
	window  string // rate window, seconds

	seen   atomic.Pointer[view] // the shared circuit as last seen
	fails  atomic.Int64         // its failures in a row as last seen
	offset atomic.Int64         // server's clock minus ours, microseconds

	line   lineUp // permits and reports whose callers wait
	posted lineUp // reports nobody waits for

	since atomic.Int64 // deciding alone since, Unix nanoseconds; 0: Redis is there
	retry atomic.Int64 // next try of Redis, Unix nanoseconds

	mu    sync.Mutex
	alone *local // the circuit while deciding alone
}

func (r *Redis) circuit(k Key) *shared {
	if e, ok := r.entries.Load(k); ok {
		return e.(*shared)
	}
	s := r.opt.settings(k)
	tag := r.opt.Prefix + "{" + k.Name + "}:"
	e := &shared{key: k, set: s, encoded: s.encode(), cap: strconv.Itoa(s.MaxInFlight),
		lease:  strconv.FormatInt(s.LeaseTTL.Microseconds(), 10),
		window: strconv.Itoa(int(s.RateWindow / time.Second))}
	for _, part := range []string{":state", ":buckets", ":probes", ":leases", ":failures"} {
		e.keys = append(e.keys, tag+k.Class+part)
	}
	e.keys = append(e.keys, tag+"events")
	v := unseen()
	e.seen.Store(&v)
	actual, _ := r.entries.LoadOrStore(k, e)
	r.locals.know(k.Name)
	return actual.(*shared)
}

// args begins the arguments of a script call.
func (r *Redis) args(e *shared, rnd string, more ...any) []any {
	return append([]any{e.key.Class, e.encoded, r.opt.Worker, rnd}, more...)
}

// Permit implements Breaker.
func (r *Redis) Permit(ctx context.Context, k Key) (Permit, error) {
	e, token := r.circuit(k), r.tokens.next()
	if !r.reachable(e) {
		return r.permitAlone(e, token)
	}
	o := askFor(token)
	defer spare.Put(o)
	if err := r.perform(ctx, e, o); err != nil {
		return r.permitAlone(e, token)
	}
	if o.code != admitted && o.code != admittedProbe {
		return nil, denied(k, o.code, o.retry, r.opt.Now())
	}
	return &redisPermit{r: r, e: e, token: token, epoch: o.decided, probe: o.code == admittedProbe}, nil
}

// redisPermit is a permit given by the shared circuit.
type redisPermit struct {
	r     *Redis
	e     *shared
	token string
	epoch string
	probe bool
	done  atomic.Bool
}

// Probe implements Permit.
func (p *redisPermit) Probe() bool { return p.probe }

// Report implements Permit. The caller's cancellation does not stop it.
func (p *redisPermit) Report(ctx context.Context, v Verdict, latency time.Duration, errClass, sample string) {
	if !p.done.CompareAndSwap(false, true) {
		return
	}
	r, e := p.r, p.e
	f := finished{token: p.token, epoch: p.epoch, verdict: v, slow: e.set.isSlow(latency),
		entry: entry(errClass, sample), probe: p.probe, worker: r.opt.Worker, rnd: r.opt.Rand()}
	if !r.reachable(e) {
		r.reportAlone(e, f)
		return
	}
	o := tell(f)
	plain := o.kind == good || o.kind == neutral
	if plain && e.fails.Load() == 0 && e.set.MaxInFlight == 0 && !r.opt.await {
		r.post(e, o)
		return
	}
	r.flush(e)
	defer spare.Put(o)
	_ = r.perform(ctx, e, o) // reported reads it
	r.reported(ctx, e, o)
}

// remembered is the epoch this process knows and the view it would restore. The view
// is empty while there is nothing to restore.
func (e *shared) remembered() (epoch, packed string) {
	v := *e.seen.Load()
	v.fails = int(e.fails.Load())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alone != nil {
		if own := e.alone.memory(); own.epoch != v.epoch || own.fails > v.fails {
			return v.epoch, own.pack()
		}
	}
	if v.epoch == "0" && v.fails == 0 {
		return v.epoch, ""
	}
	return v.epoch, v.pack()
}

// learn takes in what Redis said about the circuit. Answers may arrive out of order.
func (e *shared) learn(a answer, now time.Time) {
	e.offset.Store(a.now - now.UnixMicro())
	for {
		seen := e.seen.Load()
		if a.epoch == seen.epoch {
			e.fails.Store(int64(a.fails))
			return
		}
		if older(a.epoch, seen.epoch) {
			return
		}
		v := a.view()
		if e.seen.CompareAndSwap(seen, &v) {
			e.fails.Store(int64(a.fails))
			return
		}
	}
}
