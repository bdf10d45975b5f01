// Package breakertest gives tests a real Redis: a private redis-server on a loopback
// port, without persistence, that dies with the test process.
package breakertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// EnvURL names a Redis to use for Shared instead of a private one. Each test takes one
// of its databases for itself and empties it.
const EnvURL = "FUSEBOX_TEST_REDIS"

// databases a private server has; a test takes one.
const databases = 10000

// startTimeout bounds how long a server may take to answer on a busy machine.
const startTimeout = 20 * time.Second

// Server is a Redis for one test.
type Server struct {
	t    testing.TB
	addr string
	db   int
	url  string // of an external server; empty: ours
	dir  string // of a cluster node, which writes its nodes file; else temporary
	args []string
	// watches is what a sentinel watches, in its configuration's words; empty: no sentinel.
	watches string
	proc    *process
}

// URL returns the Redis URL of the test's own database.
func (s *Server) URL() string {
	if s.url != "" {
		return s.url
	}
	return fmt.Sprintf("redis://%s/%d", s.addr, s.db)
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.addr }

// Client returns a client with patient timeouts that repeats nothing; it closes with
// the test.
func (s *Server) Client() *redis.Client {
	s.t.Helper()
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		s.t.Fatalf("breakertest: %v", err)
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, true, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 5*time.Second, 5*time.Second, 5*time.Second
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Start runs a private server for one test, which may Stop, Start, Pause and Resume it.
// extra are further redis-server arguments.
func Start(t testing.TB, extra ...string) *Server {
	t.Helper()
	s := &Server{t: t, args: extra}
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

var (
	sharedOnce   sync.Once
	sharedServer *Server
	errShared    error
	nextDB       = make(chan int, 1)
)

// Shared returns a database of the test's own on a server that all tests of the
// binary share. It cannot be stopped.
func Shared(t testing.TB) *Server {
	t.Helper()
	if u := os.Getenv(EnvURL); u != "" {
		return external(t, u)
	}
	sharedOnce.Do(func() {
		s := &Server{t: t}
		if errShared = s.launch(); errShared == nil {
			sharedServer = s
			nextDB <- 0
		}
	})
	if errShared != nil {
		t.Fatal(errShared)
	}
	db := <-nextDB
	nextDB <- db + 1
	if db >= databases {
		t.Fatalf("breakertest: more than %d tests in one binary", databases)
	}
	return &Server{t: t, addr: sharedServer.addr, db: db}
}

// launch starts redis-server, trying other ports when one is taken.
func (s *Server) launch() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("breakertest: redis-server is not installed (Debian: apt-get install redis-server), and " + EnvURL + " is not set")
	}
	for range 10 {
		if s.addr == "" {
			// Below the ports the kernel gives to outgoing connections.
			s.addr = "127.0.0.1:" + strconv.Itoa(20000+rand.IntN(12000))
		}
		if err = s.run(path); err == nil {
			return nil
		}
		s.addr = ""
	}
	return fmt.Errorf("breakertest: %w", err)
}

func (s *Server) run(path string) error {
	dir, keep := s.dir, s.dir != ""
	if !keep {
		var err error
		if dir, err = os.MkdirTemp("", "breakertest-"); err != nil {
			return err
		}
	}
	_, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--databases", strconv.Itoa(databases), "--daemonize", "no", "--logfile", filepath.Join(dir, "log")}, s.args...)
	if s.watches != "" {
		var err error
		if args, err = s.sentinelArgs(dir, port); err != nil {
			return err
		}
	}
	proc, err := startProcess(exec.Command(path, args...))
	if err != nil {
		return err
	}
	s.proc = proc
	if err = s.await(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.proc.kill()
		err = fmt.Errorf("%w\n%s", err, log)
	}
	if keep {
		return err
	}
	// The server keeps its directory open and writes nothing to it.
	return errors.Join(err, os.RemoveAll(dir))
}

// await polls until our own server answers: the port could be another's.
func (s *Server) await() error {
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		info := c.InfoMap(ctx, "server")
		if pid := info.Item("Server", "process_id"); pid == strconv.Itoa(s.proc.pid()) {
			return nil
		} else if pid != "" {
			return fmt.Errorf("port %s belongs to process %s", s.addr, pid)
		}
		select {
		case <-s.proc.done:
			return errors.New("redis-server ended at once")
		case <-ctx.Done():
			return errors.New("redis-server does not answer")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop kills the server; its data is gone. Stopping twice does nothing.
func (s *Server) Stop() {
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
	}
}

// Restart starts a stopped server again, empty, on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		err = s.run(path)
	}
	if err != nil {
		s.t.Fatalf("breakertest: restart: %v", err)
	}
}

// Pause freezes the server: connections stay, nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.proc == nil {
		s.t.Fatal("breakertest: this server is not the test's own, or is stopped")
	}
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("breakertest: %v", err)
	}
}

// process is a child that dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startProcess starts cmd from a thread that lives as long as the child: the kernel
// sends the parent-death signal when the *thread* that forked ends.
func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, after the child
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the child, a frozen one too, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
