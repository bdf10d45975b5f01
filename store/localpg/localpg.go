// Package localpg runs a private PostgreSQL server on this machine: for the demo,
// and for tests. It uses the machine's own PostgreSQL when there is one and
// downloads one otherwise. The server is a child of this process and dies with
// it, even when this process is killed (on Linux).
package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// SuperUser is the role DSN connects as. It may create databases.
const SuperUser = "fusebox"

// Options of Start. The zero value is a temporary, durable server on a Unix socket.
type Options struct {
	// Dir keeps the server's files and is reused when it already holds a server's.
	// Empty: a temporary directory, removed by Stop.
	Dir string
	// Fast trades durability for speed (fsync and friends off): tests only.
	Fast bool
	// TCP listens on a free loopback port, with a random password, instead of on a
	// Unix socket in a private directory.
	TCP bool
	// MaxConnections of the server; default 200.
	MaxConnections int
	// Log gets what Start does; default discards.
	Log *slog.Logger
}

// Server is a running server.
type Server struct {
	opts       Options
	bin        string // directory of initdb and postgres
	dir        string
	temp       bool
	socket     string // directory of the Unix socket; empty with TCP
	socketTemp bool   // it is apart from dir, whose path is too long for a socket
	port       int
	password   string
	owner      *owner
	settings   []string // further ones of the server's own
	log        *slog.Logger

	mu   sync.Mutex
	proc *process // nil while stopped
}

// process is one run of the postgres binary. done closes when it has exited.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // why it exited; read after done
}

// Start makes the server's files if there are none and starts it. It returns when
// the server answers queries.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.MaxConnections == 0 {
		o.MaxConnections = 200
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, log: o.Log}
	if err := s.prepare(ctx); err != nil {
		s.removeTemp()
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		s.removeTemp()
		return nil, err
	}
	return s, nil
}

// DSN returns the connection string of a database of the server, as SuperUser.
func (s *Server) DSN(database string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database}
	q := url.Values{"sslmode": {"disable"}}
	if s.socket != "" {
		u.User = url.User(SuperUser)
		q.Set("host", s.socket)
		q.Set("port", strconv.Itoa(s.port))
	} else {
		u.User = url.UserPassword(SuperUser, s.password)
		u.Host = s.Addr()
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Stop shuts the server down (SIGINT: connections are cut, files are left clean),
// with force if that takes longer than 10 s, and removes a temporary directory.
func (s *Server) Stop() error {
	err := s.halt(syscall.SIGINT)
	s.removeTemp()
	return err
}

// Kill stops the server as a crash would (SIGQUIT) and keeps its files; Restart
// brings it back.
func (s *Server) Kill() error { return s.halt(syscall.SIGQUIT) }

// Restart crashes the server if it runs, and starts it again under the same DSN.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.run(ctx)
}

// PID returns the process id of the running server, 0 while it is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// run starts the postgres binary and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return errors.New("localpg: already running")
	}
	logFile, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.arguments()...) //nolint:gosec // the path comes from find, the arguments from us
	cmd.Dir, cmd.Env = s.dir, environment()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = s.owner.attributes(true)
	p, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("localpg: starting postgres: %w", err)
	}
	if err := s.await(ctx, p); err != nil {
		_ = signalAndWait(p, syscall.SIGQUIT)
		return fmt.Errorf("localpg: %w\n%s", err, tail(logFile.Name()))
	}
	s.proc = p
	s.log.Debug("local postgres is up", "bin", s.bin, "dir", s.dir)
	return nil
}

// spawn starts cmd from a thread that lives as long as the child does: the
// kernel sends the parent-death signal when the *thread* that forked it ends, and
// the Go runtime ends threads when it likes.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, <-started
}

// await polls until the server answers, exits, or ctx (at most 60 s) ends.
func (s *Server) await(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := ping(ctx, s.DSN("postgres"))
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("postgres exited: %v", p.err)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ping(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// arguments of the postgres binary.
func (s *Server) arguments() []string {
	set := []string{
		"max_connections=" + strconv.Itoa(s.opts.MaxConnections),
		"port=" + strconv.Itoa(s.port),
		"timezone=UTC",
		"log_min_messages=warning",
	}
	if s.socket != "" {
		set = append(set, "listen_addresses=", "unix_socket_directories="+s.socket)
	} else {
		set = append(set, "listen_addresses=127.0.0.1", "unix_socket_directories=")
	}
	if s.opts.Fast {
		set = append(set, "fsync=off", "full_page_writes=off", "synchronous_commit=off",
			"shared_buffers=128MB", "checkpoint_timeout=1h", "max_wal_size=2GB", "autovacuum=off")
	}
	args := []string{"-D", filepath.Join(s.dir, "data")}
	for _, v := range append(set, s.settings...) {
		args = append(args, "-c", v)
	}
	return args
}

// halt signals the server and waits until it has gone. Stopped already: nothing.
func (s *Server) halt(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	p := s.proc
	s.proc = nil
	return signalAndWait(p, sig)
}

// signalAndWait escalates from sig to SIGQUIT to SIGKILL, 10 s each.
func signalAndWait(p *process, sig syscall.Signal) error {
	for _, sg := range []syscall.Signal{sig, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := p.cmd.Process.Signal(sg); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("localpg: stopping postgres: %w", err)
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(10 * time.Second):
		}
	}
	return errors.New("localpg: postgres does not stop")
}

func (s *Server) removeTemp() {
	if s.temp {
		_ = os.RemoveAll(s.dir)
	}
	if s.socketTemp {
		_ = os.RemoveAll(s.socket)
	}
}

// environment is ours without what would steer a PostgreSQL program elsewhere.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "LANG") {
			env = append(env, kv)
		}
	}
	return append(env, "LC_ALL=C")
}

// tail returns the last part of a log, for error messages.
func tail(path string) string {
	f, err := os.Open(path) //nolint:gosec // our own log
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return string(bytes.TrimSpace(b))
}
