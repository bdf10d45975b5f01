package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/store"
	"fusebox/store/storetest"
	opcircuits "fusebox/web/circuits"
)

// shell runs commands of this program against books and a Redis of their own. Its
// environment is the process's, so its tests do not run in parallel.
type shell struct {
	t     *testing.T
	db    *storetest.DB
	redis *breakertest.Server
	cb    *breaker.Redis
	store *store.Store
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, db: storetest.New(t), redis: breakertest.Start(t)}
	s.store = store.New(s.db.Pool, store.Options{Enqueuer: storetest.NewJobs(t, s.db), Log: discard})
	for _, setting := range goodEnv("DATABASE_URL="+s.db.DSN, "REDIS_URL="+s.redis.URL(), "FUSEBOX_REDIS_TIMEOUT=2s", "FUSEBOX_LOG_LEVEL=error") {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	s.cb = breaker.NewRedis(s.redis.Client(), breaker.Options{Timeout: 2 * time.Second, Log: discard})
	return s
}

func (s *shell) run(args ...string) (string, error) {
	s.t.Helper()
	var out bytes.Buffer
	err := run(s.t.Context(), args, &out)
	return out.String(), err
}

func (s *shell) ok(args ...string) string {
	s.t.Helper()
	out, err := s.run(args...)
	require.NoError(s.t, err)
	return out
}

func (s *shell) state(class string) breaker.Snapshot {
	s.t.Helper()
	snap, err := s.cb.Snapshot(s.t.Context(), breaker.Key{Name: "atlas", Class: class})
	require.NoError(s.t, err)
	return snap
}

func (s *shell) lastAudit() store.AuditEntry {
	s.t.Helper()
	list, _, err := s.store.ListAudit(s.t.Context(), store.AuditFilter{Target: "circuit:atlas/charge"}, 0, 1)
	require.NoError(s.t, err)
	require.Len(s.t, list, 1)
	return list[0]
}

func TestBreakerCommandsOperateCircuits(t *testing.T) {
	s := newShell(t)
	out := s.ok("breaker", "list")
	require.Regexp(t, `(?m)^CIRCUIT +STATE +SINCE +WHY +NEXT PROBE +OVERRIDE +IN FLIGHT +FAILURES +EPOCH +VIEW$`, out)
	require.Regexp(t, `(?m)^atlas/charge +closed +- +- +- +- .* 0 +0 +shared$`, out)
	require.Regexp(t, `(?m)^birch/status +closed`, out)

	out = s.ok("breaker", "open", "--provider", "atlas", "--for", "2h", "--reason", "their maintenance")
	require.Contains(t, out, "atlas/charge is closed, epoch 0\n")
	require.Contains(t, out, "atlas/charge: closed → open (forced_open until ")
	snap := s.state("charge")
	require.Equal(t, breaker.ForcedOpen, snap.Mode)
	require.Regexp(t, `(?m)^atlas/charge +open .*forced_open +.*\(in 1h59m|2h0m`, s.ok("breaker", "list"))
	audit := s.lastAudit()
	require.Equal(t, "circuit.forced_open", audit.Action)
	require.Equal(t, "their maintenance", audit.Reason)
	require.Equal(t, "2h0m0s", audit.After["for"])
	require.True(t, strings.HasPrefix(audit.Actor, "system:cli:"))
	if u, err := user.Current(); err == nil {
		require.Equal(t, "system:cli:"+u.Username, audit.Actor)
	}

	// What the person saw is gone: nothing changes, and the error says who was first.
	_, err := s.run("breaker", "reset", "--provider", "atlas", "--epoch", "0", "--reason", "late")
	require.ErrorContains(t, err, "atlas/charge changed meanwhile: it is now open (forced_open until ")
	require.ErrorContains(t, err, "circuit.forced_open at ")
	require.ErrorContains(t, err, "nothing was changed")
	require.Equal(t, snap.Epoch, s.state("charge").Epoch)
	_, err = s.run("breaker", "probe", "--provider", "atlas", "--reason", "try")
	require.ErrorContains(t, err, "there is nothing to probe")

	due := time.Now().Add(time.Hour)
	for range 3 {
		s.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NextCheckAt, p.NextCheckWhy = store.Pending, &due, "circuit_open" })
	}
	out = s.ok("breaker", "reset", "--provider", "atlas", "--epoch", snap.Epoch, "--reason", "over")
	require.NotContains(t, out, "is open", "the epoch was given, so nothing is read out")
	require.Contains(t, out, "→ closed, epoch ")
	require.Contains(t, out, "brought forward: 3 waiting payments\n")

	s.ok("breaker", "close", "--provider", "atlas", "--reason", "r")
	require.Equal(t, breaker.ForcedClosed, s.state("charge").Mode)
	require.Contains(t, s.ok("breaker", "list"), "forced_closed until reset")
	s.ok("breaker", "metrics", "--provider", "atlas", "--class", "status", "--for", "15m", "--reason", "r")
	require.Equal(t, breaker.MetricsOnly, s.state("status").Mode)
}

func TestBreakerProbeFromTheShell(t *testing.T) {
	s := newShell(t)
	for range 5 {
		p, err := s.cb.Permit(t.Context(), breaker.Key{Name: "atlas", Class: "charge"})
		require.NoError(t, err)
		p.Report(t.Context(), breaker.Fail, time.Second, "timeout", "")
	}
	require.Equal(t, breaker.Open, s.state("charge").State)
	out := s.ok("breaker", "list")
	require.Regexp(t, `(?m)^atlas/charge +open .*consecutive_failures .*\(in \d+s\)`, out)
	var list struct{ Data []opcircuits.View }
	require.NoError(t, json.Unmarshal([]byte(s.ok("breaker", "list", "--json")), &list))
	require.Len(t, list.Data, 4)
	require.Equal(t, breaker.Open, list.Data[0].State)
	require.Equal(t, []string{"probe", "reset", "open", "close", "metrics"}, list.Data[0].Actions)
	out = s.ok("breaker", "probe", "--provider", "atlas", "--reason", "they say it works")
	require.Contains(t, out, "→ half_open, epoch ")
	require.Equal(t, breaker.HalfOpen, s.state("charge").State)
	require.Equal(t, "circuit.probe_once", s.lastAudit().Action)
}

func TestBreakerCommandsRefuse(t *testing.T) {
	s := newShell(t)
	for want, args := range map[string][]string{
		`"explode" is not one of list, probe, reset, open, close, metrics`: {"explode"},
		`--provider: "" is not one of atlas, birch`:                        {"open", "--for", "1h", "--reason", "r"},
		`--provider: "zeus"`:           {"reset", "--provider", "zeus", "--reason", "r"},
		`--class: "refund"`:            {"reset", "--provider", "atlas", "--class", "refund", "--reason", "r"},
		"reason: is required":          {"reset", "--provider", "atlas"},
		"for: is required":             {"open", "--provider", "atlas", "--reason", "r"},
		"for: must be 1m to 168h":      {"open", "--provider", "atlas", "--reason", "r", "--for", "5s"},
		"flag provided but not":        {"reset", "--provider", "atlas", "--reason", "r", "--for", "1h"},
		`"now" is not a flag`:          {"reset", "--provider", "atlas", "--reason", "r", "now"},
		"invalid value \"tomorrow\"":   {"open", "--provider", "atlas", "--reason", "r", "--for", "tomorrow"},
		"epoch: is required: the":      {"reset", "--provider", "atlas", "--reason", "r", "--epoch", " "},
		"it is now closed, epoch 0; n": {"reset", "--provider", "atlas", "--reason", "r", "--epoch", "4"},
	} {
		_, err := s.run(append([]string{"breaker"}, args...)...)
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, "0", s.state("charge").Epoch)
	require.Contains(t, s.ok("breaker"), "let an open circuit try one call now")

	s.redis.Stop()
	_, err := s.run("breaker", "reset", "--provider", "atlas", "--reason", "r")
	require.ErrorContains(t, err, "Redis cannot be reached")
	require.ErrorIs(t, err, breaker.ErrUnavailable)
	require.Contains(t, s.ok("breaker", "list"), "DEGRADED")
}

func TestAPIKeyScopesFromTheShell(t *testing.T) {
	s := newShell(t)
	require.Contains(t, s.ok("apikey", "add", "--name", "shop"), "for payments; shown once")
	require.Contains(t, s.ok("apikey", "add", "--name", "runbook", "--scope", "circuits, payments"), "for payments,circuits; shown once")
	require.Regexp(t, `(?m) runbook +fbk_\S+ +payments,circuits +`, s.ok("apikey", "list"))
	err := run(t.Context(), []string{"apikey", "add", "--name", "x", "--scope", "admin"}, io.Discard)
	require.ErrorContains(t, err, `"admin" is not payments, refunds or circuits`)
}
