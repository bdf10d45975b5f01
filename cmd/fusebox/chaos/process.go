package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is one run of a program. It dies with us.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startChild starts cmd from a thread that lives as long as the child: the kernel sends
// the parent-death signal when the thread that forked ends.
func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = dieWithParent()
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, after the child
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its state
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// unit is a part of the system that runs as one process at a time.
type unit struct {
	name  string
	args  []string // the program first
	env   []string
	dir   string // of its log
	ready func(ctx context.Context) error
	died  func(u *unit, how string) // it ended and nobody had asked it to

	mu     sync.Mutex
	now    *child
	asked  bool // somebody ended it
	began  time.Time
	starts int
}

// start runs the program and waits until it is ready.
func (u *unit) start(ctx context.Context, more ...string) error {
	if err := u.launch(more); err != nil {
		return err
	}
	if u.ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := u.ready(ctx)
		if err == nil {
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %w\n%s", u.name, err, u.lastWords())
		}
	}
}

func (u *unit) launch(more []string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now != nil {
		return fmt.Errorf("%s runs already", u.name)
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if u.starts == 0 {
		mode |= os.O_TRUNC // an earlier run's
	}
	out, err := os.OpenFile(u.logPath(), mode, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	cmd := exec.Command(u.args[0], u.args[1:]...)
	cmd.Env = append(append([]string{}, u.env...), more...)
	cmd.Stdout, cmd.Stderr = out, out
	c, err := startChild(cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", u.name, err)
	}
	u.now, u.asked, u.began = c, false, time.Now()
	u.starts++
	go u.watch(c)
	return nil
}

// watch reports an end that nobody asked for.
func (u *unit) watch(c *child) {
	<-c.done
	u.mu.Lock()
	asked := u.asked || u.now != c
	if u.now == c {
		u.now = nil
	}
	u.mu.Unlock()
	if !asked && u.died != nil {
		u.died(u, c.cmd.ProcessState.String())
	}
}

// end signals the process and waits for its end.
func (u *unit) end(sig syscall.Signal, within time.Duration) error {
	u.mu.Lock()
	c := u.now
	u.asked, u.now = true, nil
	u.mu.Unlock()
	if c == nil {
		return nil
	}
	_ = c.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-c.done:
		return nil
	case <-time.After(within):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("%s did not end within %s of %s", u.name, within, sig)
}

func (u *unit) kill() error { return u.end(syscall.SIGKILL, time.Minute) }

// signal sends a signal that does not end the process.
func (u *unit) signal(sig syscall.Signal) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now == nil {
		return fmt.Errorf("%s does not run", u.name)
	}
	return u.now.cmd.Process.Signal(sig)
}

func (u *unit) logPath() string { return filepath.Join(u.dir, u.name+".log") }

// lastWords is the end of the log.
func (u *unit) lastWords() string {
	b, err := os.ReadFile(u.logPath())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-2000):]))
}

// crashes finds what a program writes when it breaks, in the log of all its runs.
func (u *unit) crashes() (out []string) {
	b, err := os.ReadFile(u.logPath())
	if err != nil {
		return []string{fmt.Sprintf("%s: no log: %v", u.name, err)}
	}
	for line := range strings.Lines(string(b)) {
		for _, sign := range []string{"panic:", "fatal error:", "DATA RACE", "goroutine stack exceeds"} {
			if strings.Contains(line, sign) {
				out = append(out, u.name+": "+strings.TrimSpace(line))
			}
		}
	}
	return out
}

// pause waits and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errPort: no port could be found.
var errPort = errors.New("chaos: no free port")
