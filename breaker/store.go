package breaker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// store runs scripts, each in one round trip and within one timeout.
type store struct {
	client   redis.UniversalClient
	timeout  time.Duration
	choice   Pipelining
	pipeline *redis.AutoPipeliner // nil: the client has none
	busy     *atomic.Int64        // calls under way
	crowded  *atomic.Int64        // calls that still use the pipeline after a crowd
}

// crowd is from how many calls under way on they share a pipeline. Measured on
// loopback: at one caller the pipeline costs a third, from about four on it wins.
const crowd = 4

// crowdMemory is how many calls after a crowd still use the pipeline.
const crowdMemory = 64

func newStore(client redis.UniversalClient, opt Options) store {
	s := store{client: client, timeout: opt.Timeout, choice: opt.Pipelining, busy: new(atomic.Int64), crowded: new(atomic.Int64)}
	c, ok := client.(interface {
		AsyncAutoPipeline() (*redis.AutoPipeliner, error)
	})
	if !ok || opt.Pipelining == PipelineNever {
		return s
	}
	p, err := c.AsyncAutoPipeline()
	if err != nil {
		opt.Log.Warn("breaker: no pipelining", "error", err)
		return s
	}
	s.pipeline = p
	return s
}

// run executes a script. The caller's cancellation is not Redis's failure: only our
// own timeout ends the wait.
func (s store) run(ctx context.Context, sc script, keys []string, args []any) ([]any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	out, err := s.eval(ctx, "evalsha", sc.sha, keys, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		// Redis restarted or flushed its scripts: send the source, once.
		out, err = s.eval(ctx, "eval", sc.source, keys, args)
	}
	return out, err
}

func (s store) eval(ctx context.Context, command, what string, keys []string, args []any) ([]any, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, command, what, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := onceCmd{redis.NewCmd(ctx, append(all, args...)...)}
	cmd.SetFirstKeyPos(3)
	defer s.busy.Add(-1)
	if s.pipelined(s.busy.Add(1)) {
		// The pipeline ignores contexts once a command is queued, so the wait has the
		// deadline; after it the command must not be touched.
		if err := s.pipeline.Submit(ctx, cmd).WaitContext(ctx); err != nil {
			return nil, err
		}
	} else if err := s.client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Slice()
}

// pipelined decides how one call travels, with n under way. Callers return in bursts, so
// a crowd is remembered for a while: else the first of each burst would go alone.
func (s store) pipelined(n int64) bool {
	switch {
	case s.pipeline == nil || s.choice == PipelineNever:
		return false
	case s.choice == PipelineAlways:
		return true
	case n >= crowd:
		if s.crowded.Load() != crowdMemory {
			s.crowded.Store(crowdMemory)
		}
		return true
	}
	return s.crowded.Load() > 0 && s.crowded.Add(-1) >= 0
}

// onceCmd is a command no client repeats, whatever its settings: cluster clients send
// again after a cut connection even with retries off.
type onceCmd struct{ *redis.Cmd }

// NoRetry overrides the client's settings.
func (onceCmd) NoRetry() bool { return true }

// answer is what permit, report and operate say.
type answer struct {
	code       string
	retry, now int64
	fails      int
	epoch      string
	full       bool // the fields below are filled: the epoch was new to the asker
	state      State
	since, til int64
	reopens    int
	mode       Mode
	modeTil    int64
	why        string
}

func (a answer) view() view {
	return view{epoch: a.epoch, state: a.state, since: a.since, til: a.til, fails: a.fails,
		reopens: a.reopens, mode: a.mode, modeTil: a.modeTil, why: a.why}
}

var errReply = errors.New("breaker: unexpected reply")

// fields reads an array of strings and integers.
type fields struct {
	list []any
	err  error
}

func (f *fields) str(i int) string {
	if i >= len(f.list) {
		f.err = errReply
		return ""
	}
	return fmt.Sprint(f.list[i])
}

func (f *fields) int(i int) int64 {
	v := f.str(i)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%w: %q is no number", errReply, v)
	}
	return n
}

func parseAnswer(list []any) (answer, error) {
	f := fields{list: list}
	a := answer{code: f.str(0), retry: f.int(1), fails: int(f.int(2)), now: f.int(3), epoch: f.str(4)}
	if a.full = len(list) > 5; a.full {
		a.state, a.since, a.til, a.reopens = State(f.str(5)), f.int(6), f.int(7), int(f.int(8))
		a.mode, a.modeTil, a.why = Mode(f.str(9)), f.int(10), f.str(11)
	}
	return a, f.err
}

// call runs a script that gives an answer, and keeps the books about Redis's health.
func (r *Redis) call(ctx context.Context, e *shared, sc script, args []any) (answer, error) {
	list, err := r.store.run(ctx, sc, e.keys, args)
	var a answer
	if err == nil {
		a, err = parseAnswer(list)
	}
	if err != nil {
		r.lost(ctx, e, err)
		return a, err
	}
	e.learn(a, r.opt.Now())
	r.back(ctx, e)
	return a, nil
}

// parseCounts reads "a b c d ..." written by report.lua.
func parseCounts(s string) []int {
	var out []int
	for _, f := range strings.Fields(s) {
		n, _ := strconv.Atoi(f)
		out = append(out, n)
	}
	return out
}
