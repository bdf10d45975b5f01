package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// togetherMost bounds how many calls share a transaction: what one of them loses when
	// it has to be done again stays small.
	togetherMost = 128
	// togetherSlow is how long a batch is waited for before another one is begun beside it,
	// togetherLanes at a time. One after another they are larger, and fewer commits serve
	// everybody; but one that hangs must not stop them all.
	togetherSlow  = 100 * time.Millisecond
	togetherLanes = 3
)

// together runs calls of one kind that come at the same time in one transaction, so that
// one commit serves all of them; no call returns before the commit that holds its work.
// It never waits for company: a call alone goes alone, and under load the next batch is
// what came while the ones before were being committed.
//
// Only the plain case is done together. run leaves out whatever is not plain, and after
// an error everything is: the caller then takes its own transaction, whose rules are the
// same. So one bad call costs the others a second try and never its own fate.
type together[In, Out any] struct {
	run func(ctx context.Context, in []In) (out []Out, did []bool, err error)

	mu      sync.Mutex
	waiting []*sharedCall[In, Out]
	lanes   int       // batches under way
	began   time.Time // the latest of them
}

type sharedCall[In, Out any] struct {
	in   In
	out  Out
	did  bool
	done chan struct{}
}

// do is one call. did is false if it has to be done alone, which is safe: either nothing
// of it was committed, or what was is there to be found. A ctx that ends takes back what
// waits; what has begun is waited for, for detachedLimit at most, so that nobody turns
// away from work that is then committed: a mark without anybody to send and settle it.
func (g *together[In, Out]) do(ctx context.Context, in In) (out Out, did bool) {
	c := &sharedCall[In, Out]{in: in, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	begin := g.lanes == 0 || g.lanes < togetherLanes && time.Since(g.began) > togetherSlow
	if begin {
		g.lanes, g.began = g.lanes+1, time.Now()
	}
	g.mu.Unlock()
	if begin {
		go g.work()
	}
	select {
	case <-c.done:
		return c.out, c.did
	case <-ctx.Done():
		if g.takeBack(c) {
			return out, false
		}
		<-c.done
		return c.out, c.did
	}
}

// takeBack reports whether the call still waited, and does no more.
func (g *together[In, Out]) takeBack(c *sharedCall[In, Out]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, c)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// work runs batches until nobody waits.
func (g *together[In, Out]) work() {
	for {
		calls := g.take()
		if calls == nil {
			return
		}
		in := make([]In, len(calls))
		for i, c := range calls {
			in[i] = c.in
		}
		// No caller's patience ends the work of the others.
		ctx, cancel := context.WithTimeout(context.Background(), detachedLimit)
		out, did, err := g.run(ctx, in)
		cancel()
		for i, c := range calls {
			if err == nil && did[i] {
				c.out, c.did = out[i], true
			}
			close(c.done)
		}
	}
}

func (g *together[In, Out]) take() []*sharedCall[In, Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), togetherMost)
	if n == 0 {
		g.lanes--
		g.waiting = nil
		return nil
	}
	g.began = time.Now()
	calls := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return calls
}

// settings are those of a batch's transaction. The planner is to reach every row by an
// index: plans of prepared statements outlive the size of the table they were made for,
// and one made while it was small would read all of it later. And a batch that has to
// wait for somebody in spite of SKIP LOCKED soon gives up, so that one call's trouble is
// not everybody's.
func settings(b *pgx.Batch) {
	b.Queue(`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('lock_timeout', '1s', true)`)
}
