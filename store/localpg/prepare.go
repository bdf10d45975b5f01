package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxSocketDir keeps the socket's path under the 103 bytes every system allows.
const maxSocketDir = 80

// prepare finds the binaries, makes the directories and runs initdb if needed.
func (s *Server) prepare(ctx context.Context) error {
	var err error
	if s.owner, err = findOwner(); err != nil {
		return err
	}
	if s.bin, err = find(s.log); err != nil {
		return err
	}
	if err = s.makeDir(); err != nil {
		return err
	}
	if err = s.initdb(ctx); err != nil {
		return err
	}
	return s.address()
}

// makeDir makes the server's directory, owned by whom the server runs as.
func (s *Server) makeDir() error {
	var err error
	s.dir = s.opts.Dir
	if s.dir == "" {
		removeOrphans(os.TempDir())
		s.temp = true
		s.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", tempPrefix, os.Getpid()))
	} else if s.dir, err = filepath.Abs(s.dir); err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	if err := s.owner.give(s.dir); err != nil {
		return err
	}
	return s.owner.reaches(s.dir)
}

// initdb makes the cluster unless Dir holds one. A password is set even when only
// the socket is used, so that a directory can be reopened with TCP.
func (s *Server) initdb(ctx context.Context) error {
	data, pwFile := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "password")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		pw, err := os.ReadFile(pwFile) //nolint:gosec // our own file
		if err != nil {
			return fmt.Errorf("localpg: %s was not made by this program: %w", s.dir, err)
		}
		s.password = strings.TrimSpace(string(pw))
		return nil
	}
	s.password = rand.Text()
	if err := os.WriteFile(pwFile, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	if err := s.owner.give(pwFile); err != nil {
		return err
	}
	args := []string{"-D", data, "-U", SuperUser, "--pwfile", pwFile, "-E", "UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=scram-sha-256"}
	if s.opts.Fast {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), args...) //nolint:gosec // the path comes from find, the arguments from us
	cmd.Dir, cmd.Env = s.dir, environment()
	cmd.SysProcAttr = s.owner.attributes(false)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("localpg: %s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}

// address chooses where the server listens; it stays the same over restarts.
func (s *Server) address() error {
	if s.opts.TCP {
		port, err := freePort()
		s.port = int(port)
		return err
	}
	// Trust on a socket is safe because only the owner (and root) may enter its directory.
	s.port = 5432
	if len(s.dir) <= maxSocketDir {
		s.socket = s.dir
		return nil
	}
	dir, err := os.MkdirTemp("/tmp", "fbpg")
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	s.socket, s.socketTemp = dir, true
	return s.owner.give(dir)
}

// freePort asks the system for a loopback port nobody listens on.
func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("localpg: no free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return uint32(port), l.Close() //nolint:gosec // a port fits
}

// ErrNoPostgres says what is missing when there is no PostgreSQL and none could be fetched.
var ErrNoPostgres = errors.New("localpg: no PostgreSQL server programs (initdb, postgres) found; " +
	"install them (Debian: apt-get install postgresql; macOS: brew install postgresql@17) or set DATABASE_URL")
