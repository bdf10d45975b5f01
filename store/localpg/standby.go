package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// standbyName is how a standby names itself to its primary.
const standbyName = "standby"

// Standby makes a streaming standby of a server started with TCP, in a temporary
// directory of its own. For the copy of the files the server is stopped and started
// again; from then on it acknowledges no commit that the standby has not written to
// its disk (synchronous_standby_names). Standby returns when the two follow each other.
// Stop stops the standby alone.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	if !s.opts.TCP {
		return nil, errors.New("localpg: a standby needs a primary that listens on TCP")
	}
	sb := &Server{opts: s.opts, log: s.log, bin: s.bin, owner: s.owner, password: s.password}
	sb.opts.Dir = ""
	if err := sb.makeDir(); err != nil {
		return nil, err
	}
	if err := s.startStandby(ctx, sb); err != nil {
		_ = sb.Stop()
		return nil, err
	}
	return sb, nil
}

func (s *Server) startStandby(ctx context.Context, sb *Server) error {
	if err := sb.address(); err != nil {
		return err
	}
	if err := s.copyTo(ctx, sb); err != nil {
		return err
	}
	s.settings = append(s.settings, "synchronous_standby_names="+standbyName, "wal_keep_size=256MB")
	if err := s.run(ctx); err != nil {
		return err
	}
	sb.settings = []string{fmt.Sprintf("primary_conninfo=host=127.0.0.1 port=%d user=%s password=%s application_name=%s",
		s.port, SuperUser, s.password, standbyName)}
	if err := sb.run(ctx); err != nil {
		return err
	}
	return s.AwaitStandby(ctx)
}

// copyTo copies the files of the stopped server. pg_basebackup would spare the stop, but
// it is not among the programs that a download brings.
func (s *Server) copyTo(ctx context.Context, sb *Server) error {
	if err := s.halt(syscall.SIGINT); err != nil {
		return err
	}
	to := filepath.Join(sb.dir, "data")
	cmd := exec.CommandContext(ctx, "cp", "-Rp", filepath.Join(s.dir, "data"), to) //nolint:gosec // our own directories
	cmd.SysProcAttr = s.owner.attributes(false)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("localpg: copying for a standby: %w\n%s", err, out)
	}
	signal := filepath.Join(to, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return s.owner.give(signal)
}

// AwaitStandby waits, for a minute at most, until the standby follows and commits wait
// for it.
func (s *Server) AwaitStandby(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var n int
		err := s.ask(ctx, `SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'`, &n)
		if err == nil && n > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("localpg: no standby follows: %w", errors.Join(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Promote makes a standby a server that takes writes. It waits, for a minute at most,
// until it does.
func (s *Server) Promote(ctx context.Context) error {
	var did bool
	if err := s.ask(ctx, `SELECT pg_promote(true, 60)`, &did); err != nil {
		return fmt.Errorf("localpg: promote: %w", err)
	}
	if !did {
		return errors.New("localpg: the standby did not become a primary in time")
	}
	return nil
}

// ask runs a question with one answer on a connection of its own.
func (s *Server) ask(ctx context.Context, question string, answer any) error {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return c.QueryRow(ctx, question).Scan(answer)
}

// Addr returns host:port of a server that listens on TCP.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PairDSN returns the connection string that names the server and its standby: whoever
// connects gets the one that takes writes.
func (s *Server) PairDSN(standby *Server, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(SuperUser, s.password), Path: "/" + database,
		Host: s.Addr() + "," + standby.Addr(), RawQuery: "sslmode=disable&target_session_attrs=read-write"}
	return u.String()
}
