package breaker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// store runs scripts, each in one round trip and within one timeout.
type store struct {
	client  redis.UniversalClient
	timeout time.Duration
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
	if err := s.client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Slice()
}

// onceCmd is a command no client repeats, whatever its settings: cluster clients send
// again after a cut connection even with retries off.
type onceCmd struct{ *redis.Cmd }

// NoRetry overrides the client's settings.
func (onceCmd) NoRetry() bool { return true }

// answer is what a script says of the circuit, and to a person's change.
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
		f.readView(&a, 5)
	}
	return a, f.err
}

// readView reads the rest of a circuit, from the i-th field on.
func (f *fields) readView(a *answer, i int) {
	a.state, a.since, a.til, a.reopens = State(f.str(i)), f.int(i+1), f.int(i+2), int(f.int(i+3))
	a.mode, a.modeTil, a.why = Mode(f.str(i+4)), f.int(i+5), f.str(i+6)
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
