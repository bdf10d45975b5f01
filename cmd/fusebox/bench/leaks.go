package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"fusebox/breaker"
)

const (
	leakThreshold = 10
	leakProcesses = 8
	// LeakWorker is the hidden command a process of the leak count runs.
	LeakWorker = "leak-worker"
)

// leaked is what one process did.
type leaked struct {
	Asked  []int64 `json:"asked"`  // Unix µs when each call that was made asked for leave
	Denied int64   `json:"denied"` // Unix µs when it was first told that the circuit is open; 0: never
}

// leaks counts the calls real processes make to a provider that is dead.
func (r *BreakerReport) leaks(ctx context.Context, url string) (err error) {
	r.LeakThreshold, r.LeakWorkers = leakThreshold, leakProcesses
	if r.LeakedTotal, r.LeakedAfterOpen, err = leak(ctx, url, "ours", 3*time.Second); err != nil {
		return err
	}
	// gobreaker waits half a second whenever its lock is taken.
	r.LeakedGobreaker, r.LeakedGobreakerOpen, err = leak(ctx, url, "gobreaker", 10*time.Second)
	return err
}

// leak lets processes loose together for d. total is what arrived at the provider.
func leak(ctx context.Context, url, arm string, d time.Duration) (total, afterOpen int, err error) {
	dead, calls, err := deadProvider()
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = dead.Close() }()
	name := "leak" + strconv.FormatInt(time.Now().UnixNano(), 36)
	var procs []*leakProcess
	defer func() {
		for _, p := range procs {
			p.end()
		}
	}()
	for i := range leakProcesses {
		p, err := startLeak(ctx, "--arm", arm, "--redis", url, "--provider", "http://"+dead.Addr().String(), "--name", name,
			"--worker", "w"+strconv.Itoa(i), "--for", d.String())
		if err != nil {
			return 0, 0, err
		}
		procs = append(procs, p)
	}
	for _, p := range procs { // all are ready: now together
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return 0, 0, err
		}
	}
	opened, asked := int64(0), []int64{}
	for _, p := range procs {
		l, err := p.result()
		if err != nil {
			return 0, 0, err
		}
		asked = append(asked, l.Asked...)
		if l.Denied > 0 && (opened == 0 || l.Denied < opened) {
			opened = l.Denied
		}
	}
	if opened == 0 {
		return 0, 0, fmt.Errorf("%s: the circuit did not open within %s", arm, d)
	}
	if arm == "ours" {
		if opened, err = openedAt(ctx, url, name, opened); err != nil {
			return 0, 0, err
		}
	}
	for _, at := range asked {
		if at > opened {
			afterOpen++
		}
	}
	return int(calls.Load()), afterOpen, nil
}

// openedAt is when the circuit became open by its own event, on the clock of Redis,
// which runs on this machine: earlier than anybody could be told.
func openedAt(ctx context.Context, url, name string, told int64) (int64, error) {
	c, err := client(url, 2)
	if err != nil {
		return 0, err
	}
	defer closer(c)()
	b := breaker.NewRedis(c, breaker.Options{Prefix: prefix, Timeout: patience, Names: []string{name}})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, _, err := b.Next(ctx, "")
	if err != nil {
		return 0, fmt.Errorf("the event of the opening: %w", err)
	}
	for _, e := range events {
		if e.To == breaker.Open {
			return min(told, e.At.UnixMicro()), nil
		}
	}
	return 0, errors.New("there is no event of the opening")
}

// deadProvider takes requests and cuts them off without an answer, counting them.
func deadProvider() (net.Listener, *atomic.Int64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	calls := new(atomic.Int64)
	srv := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler) // the documented way to cut a connection
	})}
	go func() { _ = srv.Serve(l) }() // ends with the listener
	return l, calls, nil
}

// leakProcess is one worker process.
type leakProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startLeak(ctx context.Context, args ...string) (*leakProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"bench", LeakWorker}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a worker process: %w", err)
	}
	p := &leakProcess{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		p.end()
		return nil, fmt.Errorf("a worker process did not start: %q", line)
	}
	return p, nil
}

func (p *leakProcess) result() (leaked, error) {
	var l leaked
	if err := json.NewDecoder(p.out).Decode(&l); err != nil {
		return l, fmt.Errorf("a worker process: %w", err)
	}
	return l, p.cmd.Wait()
}

func (p *leakProcess) end() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may just have ended
		_ = p.cmd.Wait()
	}
}

// LeakOptions of one worker process.
type LeakOptions struct {
	Arm, RedisURL, Provider, Name, Worker string
	For                                   time.Duration
}

// RunLeakWorker calls the provider through a breaker until the time is over, beginning
// when a line arrives on in, and tells on out what it did.
func RunLeakWorker(ctx context.Context, o LeakOptions, in io.Reader, out io.Writer) error {
	call, err := o.caller(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("%s: waiting for the start: %w", LeakWorker, err)
	}
	l := leaked{Asked: []int64{}}
	for end := time.Now().Add(o.For); time.Now().Before(end) && ctx.Err() == nil; {
		asked := time.Now().UnixMicro()
		made, open := call()
		switch {
		case made:
			l.Asked = append(l.Asked, asked)
		case open:
			if l.Denied == 0 {
				l.Denied = time.Now().UnixMicro()
			}
			time.Sleep(time.Millisecond)
		}
	}
	return json.NewEncoder(out).Encode(l)
}

// caller returns a function that tries one call: was it made, or denied because open.
func (o LeakOptions) caller(ctx context.Context) (func() (made, open bool), error) {
	c, err := client(o.RedisURL, 2)
	if err != nil {
		return nil, err
	}
	httpClient := &http.Client{Timeout: patience}
	charge := func() error {
		resp, err := httpClient.Post(o.Provider+"/payments", "application/json", nil)
		if err == nil {
			err = errors.New("answered " + resp.Status)
			_ = resp.Body.Close()
		}
		return err
	}
	if o.Arm == "gobreaker" {
		settings := gobreaker.Settings{Name: prefix + o.Name, Timeout: time.Hour,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= leakThreshold }}
		b, err := gobreaker.NewDistributedCircuitBreaker[struct{}](goStore{c}, settings)
		if err != nil {
			return nil, fmt.Errorf("gobreaker: %w", err)
		}
		return func() (made, open bool) {
			_, err := b.Execute(func() (struct{}, error) { made = true; return struct{}{}, charge() })
			return made, errors.Is(err, gobreaker.ErrOpenState)
		}, nil
	}
	settings := breaker.Recommended(patience)
	settings.Failures, settings.OpenFor, settings.OpenMax = leakThreshold, time.Hour, time.Hour
	b := breaker.NewRedis(c, breaker.Options{Prefix: prefix, Worker: o.Worker, Timeout: patience,
		Settings: func(breaker.Key) breaker.Settings { return settings }})
	key := breaker.Key{Name: o.Name, Class: "charge"}
	return func() (made, open bool) {
		err := breaker.Do(ctx, b, key, func(context.Context) error { made = true; return charge() }, nil)
		var d *breaker.Denied
		return made, errors.As(err, &d) && d.Reason == breaker.DeniedOpen
	}, nil
}

// Bind declares the options as flags.
func (o *LeakOptions) Bind(fs *flag.FlagSet) {
	fs.StringVar(&o.Arm, "arm", "ours", "ours or gobreaker")
	fs.StringVar(&o.RedisURL, "redis", "", "Redis `URL`")
	fs.StringVar(&o.Provider, "provider", "", "base `URL` of the provider")
	fs.StringVar(&o.Name, "name", "", "`name` of the circuit")
	fs.StringVar(&o.Worker, "worker", "", "`name` of this worker")
	fs.DurationVar(&o.For, "for", 3*time.Second, "how long")
}
