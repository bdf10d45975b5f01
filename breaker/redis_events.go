package breaker

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// localEvents keeps the transitions made while Redis was gone until they are read,
// and the names whose streams are read.
type localEvents struct {
	mu     sync.Mutex
	names  []string
	events []numbered
	last   int64
}

type numbered struct {
	n int64
	e Event
}

// keptLocal is how many local events wait to be read at most.
const keptLocal = 1000

// localPart is the name under which a position keeps the local number.
const localPart = "~local"

func (l *localEvents) know(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.names, name) {
		l.names = append(l.names, name)
	}
}

// add numbers an event by its time, so that a position outlives the process.
func (l *localEvents) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last+1, e.At.UnixMicro())
	l.events = append(l.events, numbered{l.last, e})
	if len(l.events) > keptLocal {
		l.events = l.events[1:]
	}
}

func (l *localEvents) after(n int64) (out []Event, last int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last = n
	for _, e := range l.events {
		if e.n > n {
			out, last = append(out, e.e), e.n
		}
	}
	return out, last
}

func (l *localEvents) known() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

// Next blocks until events after the given position are there, or ctx ends; then it
// returns ctx's error. The position covers the streams of all names; "" is the oldest
// event still kept. An event can come again (after a position was lost, a failover, or
// restored keys): consumers de-duplicate on Key and Epoch. Trouble with Redis is waited
// out.
func (r *Redis) Next(ctx context.Context, after string) ([]Event, string, error) {
	pos, err := url.ParseQuery(after)
	if err != nil {
		pos = url.Values{} // not ours: begin at the oldest
	}
	for round := 0; ; round++ {
		events := r.poll(ctx, pos, round%40 == 0)
		if len(events) > 0 {
			return events, pos.Encode(), nil
		}
		timer := time.NewTimer(r.opt.jittered(r.opt.Poll))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, after, ctx.Err()
		case <-timer.C:
		}
	}
}

// poll reads each stream once, without blocking a connection, and moves pos on.
func (r *Redis) poll(ctx context.Context, pos url.Values, check bool) []Event {
	n, _ := strconv.ParseInt(pos.Get(localPart), 10, 64)
	events, last := r.locals.after(n)
	if last > 0 {
		pos.Set(localPart, strconv.FormatInt(last, 10))
	}
	ctx, cancel := context.WithTimeout(ctx, max(r.opt.Timeout, time.Second))
	defer cancel()
	for _, name := range r.locals.known() {
		stream := r.opt.Prefix + "{" + name + "}:events"
		if check {
			r.rewind(ctx, stream, name, pos)
		}
		from := pos.Get(name)
		if from == "" {
			from = "0"
		}
		// One stream at a time, as they may lie on different nodes of a cluster.
		found, err := r.store.client.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, from}, Count: 100, Block: -1}).Result()
		if err != nil {
			continue // nothing new, or Redis is away: Degraded tells
		}
		for _, m := range found[0].Messages {
			events = append(events, parseEvent(name, m))
			pos.Set(name, m.ID)
		}
	}
	return events
}

// rewind begins a stream again that was lost and started anew behind our position:
// the server that made it had a slower clock.
func (r *Redis) rewind(ctx context.Context, stream, name string, pos url.Values) {
	at := pos.Get(name)
	if at == "" {
		return
	}
	newest, err := r.store.client.XRevRangeN(ctx, stream, "+", "-", 1).Result()
	if err == nil && len(newest) == 1 && earlierID(newest[0].ID, at) {
		pos.Del(name)
	}
}

// earlierID compares stream ids "ms-seq".
func earlierID(a, b string) bool {
	am, as, _ := strings.Cut(a, "-")
	bm, bs, _ := strings.Cut(b, "-")
	if am != bm {
		return older(am, bm)
	}
	return older(as, bs)
}

func parseEvent(name string, m redis.XMessage) Event {
	get := func(f string) string { s, _ := m.Values[f].(string); return s }
	at, _ := strconv.ParseInt(get("at"), 10, 64)
	o := occurrence{kind: get("kind"), epoch: get("epoch"), reason: get("reason"), actor: get("actor"),
		note: get("note"), from: State(get("from")), to: State(get("to")), settings: get("settings"), at: at}
	if run := get("run"); run != "" {
		o.run = strings.Split(run, "\n")
	}
	return o.event(Key{Name: name, Class: get("class")})
}
