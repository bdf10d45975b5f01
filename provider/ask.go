package provider

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

// AskTries is how many requests one question may cost. Lookups are retried here and
// nowhere else; charges are retried by their job and never here.
const AskTries = 3

// askPause is the first pause between tries; each further one is twice as long, all
// with a quarter of jitter either way.
const askPause = 200 * time.Millisecond

// Ask makes a request that moves no money, with up to AskTries tries on connection
// trouble, 429 and 5xx. It returns the last exchange and the number of requests made.
// A Retry-After longer than the next pause ends it at once: a throttled provider is
// not asked again.
func (c *Caller) Ask(ctx context.Context, call Call) (Exchange, int) {
	pause := askPause
	for try := 1; ; try++ {
		ex := c.once(ctx, c.query, call, MaxAskBody)
		if try == AskTries || !worthAsking(ctx, ex, pause) {
			return ex, try
		}
		if err := c.opts.Sleep(ctx, jitter(pause)); err != nil {
			return ex, try
		}
		pause *= 2
	}
}

func worthAsking(ctx context.Context, ex Exchange, pause time.Duration) bool {
	switch {
	case ctx.Err() != nil || ex.Cancelled:
		return false
	case ex.Err != nil:
		return true
	case ex.Status == http.StatusTooManyRequests || ex.Status >= 500:
		return ParseRetryAfter(ex.RetryAfter, ex.DoneAt) <= pause
	}
	return false
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2)) //nolint:gosec // spreads load, guards no secret
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
