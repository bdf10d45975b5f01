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
	// togetherLanes is how many such transactions of one kind a process has under way.
	togetherLanes = 4
	// togetherSlow is how long a batch may take before another one is begun beside it,
	// whatever it waits for: one that hangs must not stop them all.
	togetherSlow = 100 * time.Millisecond
)

// together runs calls of one kind that come at the same time in one transaction, so that
// one commit serves all of them; no call returns before the commit that holds its work.
// It never waits for company: a call alone goes alone, and under load the next batch is
// what came while the one before was at work. Batches of a kind take turns at that, so that
// they are large and few; while one waits for the disk to commit it, the next is at work.
//
// Only the plain case is done together. run leaves out whatever is not plain, and after
// an error everything is: the caller then takes its own transaction, whose rules are the
// same. So one bad call costs the others a second try and never its own fate.
type together[In, Out any] struct {
	run func(ctx context.Context, in []In) (out []Out, did []bool, err error)

	mu      sync.Mutex
	waiting []*sharedCall[In, Out]
	lanes   int       // batches under way
	working int       // those of them that do not wait for their commit
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
	g.next()
	g.mu.Unlock()
	slow := time.NewTicker(togetherSlow)
	defer slow.Stop()
	for {
		select {
		case <-c.done:
			return c.out, c.did
		case <-slow.C: // nobody else may come to see that the one before hangs
			g.mu.Lock()
			g.next()
			g.mu.Unlock()
		case <-ctx.Done():
			if g.takeBack(c) {
				return out, false
			}
			<-c.done
			return c.out, c.did
		}
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

// next begins a batch if there is something to do and it is its turn. The caller holds mu.
func (g *together[In, Out]) next() {
	turn := g.working == 0 || time.Since(g.began) >= togetherSlow
	if n := min(len(g.waiting), togetherMost); n > 0 && turn && g.lanes < togetherLanes {
		calls := g.waiting[:n:n]
		if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
			g.waiting = nil
		}
		g.lanes, g.working, g.began = g.lanes+1, g.working+1, time.Now()
		go g.work(calls)
	}
}

// work runs one batch.
func (g *together[In, Out]) work(calls []*sharedCall[In, Out]) {
	in := make([]In, len(calls))
	for i, c := range calls {
		in[i] = c.in
	}
	pass := sync.OnceFunc(func() { // the turn to the next one
		g.mu.Lock()
		defer g.mu.Unlock()
		g.working--
		g.next()
	})
	// No caller's patience ends the work of the others.
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), committing{}, pass), detachedLimit)
	out, did, err := g.run(ctx, in)
	cancel()
	for i, c := range calls {
		if err == nil && did[i] {
			c.out, c.did = out[i], true
		}
		close(c.done)
	}
	pass()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes--
	g.next()
}

// committing is the key of a context's function that is called when its transaction has
// nothing left to do but to commit.
type committing struct{}

// settings are those of a batch's transaction. The planner is to reach every row by an
// index: plans of prepared statements outlive the size of the table they were made for,
// and one made while it was small would read all of it later. And a batch that has to
// wait for somebody in spite of SKIP LOCKED soon gives up, so that one call's trouble is
// not everybody's.
func settings(b *pgx.Batch) {
	b.Queue(`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), set_config('lock_timeout', '1s', true)`)
}
