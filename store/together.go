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
	// togetherTurn is the least that a batch is left alone before another one is begun beside
	// it, whatever it waits for: a slow disk, or something that hangs. Otherwise that is what
	// batches took lately, or half of it where somebody waits for the answer.
	togetherTurn = 4 * time.Millisecond
	// togetherSlow is the most.
	togetherSlow = 100 * time.Millisecond
	// togetherLinger is how long a call waits for company that is expected.
	togetherLinger = 2 * time.Millisecond
)

// together runs calls of one kind that come at the same time in one transaction, so that
// one commit serves all of them; no call returns before the commit that holds its work.
// A call that comes alone goes alone, at once. Under load the next batch is what came
// while the one before was at work; and since callers who were answered together come
// again together, it waits a moment for as many as there were just before.
//
// Only the plain case is done together. run leaves out whatever is not plain, and after
// an error everything is: the caller then takes its own transaction, whose rules are the
// same. So one bad call costs the others a second try and never its own fate.
type together[In, Out any] struct {
	run func(ctx context.Context, in []In) (out []Out, did []bool, err error)
	// eager: nobody waits for company while no batch is under way. More and smaller batches
	// take more of the processor, and who comes first is served sooner.
	eager bool
	// patient: nobody waits for the answer, so that fewer and larger batches are better.
	patient bool

	mu      sync.Mutex
	waiting []*sharedCall[In, Out]
	lanes   int           // batches under way
	began   time.Time     // the latest of them
	size    int           // how many calls it had
	usual   time.Duration // what batches take, the latest counting most
	timer   *time.Timer   // calls next when a batch has waited long enough
}

type sharedCall[In, Out any] struct {
	in   In
	out  Out
	did  bool
	came time.Time
	done chan struct{}
}

// do is one call. did is false if it has to be done alone, which is safe: either nothing
// of it was committed, or what was is there to be found. A ctx that ends takes back what
// waits; what has begun is waited for, for detachedLimit at most, so that nobody turns
// away from work that is then committed: a mark without anybody to send and settle it.
func (g *together[In, Out]) do(ctx context.Context, in In) (out Out, did bool) {
	c := &sharedCall[In, Out]{in: in, came: time.Now(), done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.next()
	g.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		if g.takeBack(c) {
			return out, false
		}
		<-c.done
	}
	return c.out, c.did
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

// next begins the batches whose time has come. The caller holds mu.
func (g *together[In, Out]) next() {
	for len(g.waiting) > 0 && g.lanes < togetherLanes {
		n := min(len(g.waiting), togetherMost)
		if wait := g.patience(n); wait > 0 {
			if g.timer == nil {
				g.timer = time.AfterFunc(wait, func() {
					g.mu.Lock()
					defer g.mu.Unlock()
					g.next()
				})
			} else {
				g.timer.Reset(wait)
			}
			return
		}
		calls := g.waiting[:n:n]
		if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
			g.waiting = nil
		}
		g.lanes, g.began, g.size = g.lanes+1, time.Now(), n
		go g.work(calls)
	}
}

// patience is how long the next batch, of n calls, waits yet: for the one before it, and
// for company.
func (g *together[In, Out]) patience(n int) (wait time.Duration) {
	if g.lanes > 0 {
		turn := g.usual / 2
		if g.patient {
			turn = g.usual
		}
		wait = min(max(turn, togetherTurn), togetherSlow) - time.Since(g.began)
	}
	if n < g.size && time.Since(g.began) < togetherSlow && (g.lanes > 0 || !g.eager) {
		wait = max(wait, togetherLinger-time.Since(g.waiting[0].came))
	}
	return wait
}

// work runs one batch.
func (g *together[In, Out]) work(calls []*sharedCall[In, Out]) {
	in := make([]In, len(calls))
	for i, c := range calls {
		in[i] = c.in
	}
	// No caller's patience ends the work of the others.
	ctx, cancel := context.WithTimeout(context.Background(), detachedLimit)
	began := time.Now()
	out, did, err := g.run(ctx, in)
	took := time.Since(began)
	cancel()
	for i, c := range calls {
		if err == nil && did[i] {
			c.out, c.did = out[i], true
		}
		close(c.done)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes, g.usual = g.lanes-1, g.usual+(took-g.usual)/8
	g.next()
}

// settings are those of a batch's transaction. The planner is to reach every row by an
// index: plans of prepared statements outlive the size of the table they were made for,
// and one made while it was small would read all of it later. It is to keep its plans: for
// a few rows it thinks one made for just these worth while, and making it takes longer than
// running it. And a batch that has to wait for somebody in spite of SKIP LOCKED soon gives
// up, so that one call's trouble is not everybody's.
func settings(b *pgx.Batch) {
	b.Queue(`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
		set_config('lock_timeout', '1s', true)`)
}
