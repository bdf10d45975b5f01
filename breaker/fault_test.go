package breaker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
)

// These tests take a real Redis away and give it back, with the real clock and the
// client and timeouts of production.

// patience bounds every wait; the machine may be busy.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// lockedBuffer is a log that goroutines share.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func productionClient(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	c, err := NewClient(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// faulty is a private Redis with one worker on it.
func faulty(t *testing.T, s Settings) (*breakertest.Server, *Redis, *lockedBuffer) {
	t.Helper()
	server := breakertest.Start(t)
	log := &lockedBuffer{}
	return server, worker(t, server, "w0", s, log), log
}

func worker(t *testing.T, server *breakertest.Server, name string, s Settings, log *lockedBuffer) *Redis {
	t.Helper()
	return NewRedis(productionClient(t, server.URL()), Options{Worker: name, Recheck: 20 * time.Millisecond,
		Timeout: 250 * time.Millisecond, // a busy test machine must not look like an outage
		Poll:    5 * time.Millisecond, Settings: func(Key) Settings { return s },
		Log: slog.New(slog.NewTextHandler(log, nil))})
}

// once makes a call that ends with v, and tells why it was denied.
func once(t *testing.T, b Breaker, v Verdict) *Denied {
	t.Helper()
	p, err := b.Permit(context.Background(), charge)
	if d := (*Denied)(nil); errors.As(err, &d) {
		return d
	}
	require.NoError(t, err)
	report(p, v)
	return nil
}

func state(t *testing.T, b Breaker) Snapshot {
	t.Helper()
	s, err := b.Snapshot(context.Background(), charge)
	require.NoError(t, err)
	return s
}

func TestB06_RedisStopsCallsGoOnDegradedShowsAndHeals(t *testing.T) {
	t.Parallel()
	server, b, log := faulty(t, Settings{OpenFor: time.Hour})
	require.Nil(t, once(t, b, OK))
	require.True(t, b.Degraded().IsZero())
	before := time.Now()
	server.Stop()
	for range 20 {
		require.Nil(t, once(t, b, OK), "charging goes on")
	}
	require.WithinRange(t, b.Degraded(), before, time.Now())
	require.True(t, state(t, b).Degraded)
	server.Restart()
	eventually(t, "healed, though nobody calls", func() bool { return b.Degraded().IsZero() })
	require.False(t, state(t, b).Degraded)
	require.Contains(t, log.String(), "deciding alone")
	require.Contains(t, log.String(), "answers again")
}

func TestB06_RememberedOpenStaysOpenWithoutRedis(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{OpenFor: time.Hour})
	for range 5 {
		_ = once(t, b, Fail)
	}
	require.Equal(t, Open, state(t, b).State)
	server.Stop()
	for range 10 {
		require.Equal(t, DeniedOpen, once(t, b, OK).Reason)
	}
	s := state(t, b)
	require.True(t, s.Degraded)
	require.Equal(t, Open, s.State)
}

func TestB06_FailuresCountOnWithoutRedis(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{OpenFor: time.Hour})
	for range 3 {
		_ = once(t, b, Fail)
	}
	server.Stop()
	require.Nil(t, once(t, b, Fail))
	require.Nil(t, once(t, b, Fail))
	require.Equal(t, DeniedOpen, once(t, b, OK).Reason, "three shared failures and two of our own")
}

func TestB06_RedisHangsCostsOneTimeout(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{})
	require.Nil(t, once(t, b, OK))
	server.Pause()
	began := time.Now()
	b.looksOnce()
	for range 100 {
		require.Nil(t, once(t, b, OK))
	}
	require.Less(t, time.Since(began), 5*time.Second, "one timeout of 250 ms, not a hundred")
	require.False(t, b.Degraded().IsZero())
	server.Resume()
}

func TestB06_RedisRestartsEmptyWhileOpen(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{OpenFor: time.Hour})
	for range 5 {
		_ = once(t, b, Fail)
	}
	was := state(t, b)
	server.Stop()
	require.NotNil(t, once(t, b, OK))
	server.Restart()
	eventually(t, "the shared circuit is used again", func() bool {
		require.Equal(t, DeniedOpen, once(t, b, OK).Reason, "at no moment admitted")
		return b.Degraded().IsZero()
	})
	fresh := worker(t, server, "w1", Settings{}, &lockedBuffer{})
	require.Equal(t, was.Epoch, state(t, fresh).Epoch, "every process sees it restored")
	require.Equal(t, Open, state(t, fresh).State)
}

func TestB06_WhatOneProcessDecidedAloneIsRestoredWhenKeysAreLost(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{OpenFor: time.Hour})
	require.Nil(t, once(t, b, OK))
	server.Stop()
	for range 5 {
		_ = once(t, b, Fail)
	}
	require.Equal(t, Open, state(t, b).State)
	server.Restart()
	eventually(t, "back", func() bool {
		require.NotNil(t, once(t, b, OK))
		return b.Degraded().IsZero()
	})
	require.Equal(t, Open, state(t, worker(t, server, "w1", Settings{}, &lockedBuffer{})).State)
	events, _, err := b.Next(context.Background(), "")
	require.NoError(t, err)
	require.True(t, events[0].Local, "the opening without Redis is told")
	require.Equal(t, ReasonConsecutive, events[0].Reason)
}

func TestB06_SharedTruthWinsOverWhatOneProcessDecidedAlone(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{OpenFor: time.Hour})
	require.Nil(t, once(t, b, Fail))
	server.Pause()
	for range 5 {
		_ = once(t, b, Fail)
	}
	require.Equal(t, Open, state(t, b).State)
	server.Resume()
	eventually(t, "the shared circuit, closed for the others, counts again", func() bool {
		s := state(t, b)
		return !s.Degraded && s.State == Closed
	})
}

func TestRedisAbsentFromTheStart(t *testing.T) {
	t.Parallel()
	server := breakertest.Start(t)
	server.Stop()
	b := worker(t, server, "w0", Settings{OpenFor: time.Hour}, &lockedBuffer{})
	for range 5 {
		require.Nil(t, once(t, b, Fail))
	}
	require.NotNil(t, once(t, b, OK))
	_, err := b.Reset(context.Background(), charge, "0", "ana", "why")
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestStoreErrorNeverReplacesTheResult(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{})
	errCall := errors.New("their answer")
	for _, want := range []error{nil, errCall} {
		err := Do(context.Background(), b, charge, func(context.Context) error {
			server.Stop() // Redis dies while the call is under way
			return want
		}, nil)
		require.Equal(t, want, err)
		server.Restart()
	}
	// And Redis may answer nonsense.
	require.NoError(t, productionClient(t, server.URL()).Set(context.Background(), b.circuit(charge).keys[0], "junk", 0).Err())
	require.NoError(t, Do(context.Background(), b, charge, func(context.Context) error { return nil }, nil))
}

func TestScriptsLostAreSentAgainInTheSameCall(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{})
	c := productionClient(t, server.URL())
	for range 3 {
		require.NoError(t, c.ScriptFlush(context.Background()).Err())
		require.Nil(t, once(t, b, Fail))
	}
	require.True(t, b.Degraded().IsZero())
	require.Equal(t, 3, state(t, b).Consecutive)
}

func TestOneRoundTripEach(t *testing.T) {
	t.Parallel()
	server, b, _ := faulty(t, Settings{MaxInFlight: 10, Rate: 0.5, RampFor: time.Second})
	_ = once(t, b, OK)
	for range 50 {
		_ = once(t, b, OK)
	}
	stats, err := server.Client().Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	require.Contains(t, stats, "cmdstat_evalsha:calls=102,", "51 permits, 51 reports")
	require.Contains(t, stats, "cmdstat_eval:calls=1,", "the source was sent once")
}

// A process takes the probe and is killed; the slot is back
// at the lease's end.
func TestBugProbeWhoseProcessIsKilledGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	settings := Settings{Failures: 1, OpenFor: 10 * time.Millisecond, ProbeTTL: time.Second, Quorum: 1}
	server, b, _ := faulty(t, settings)
	_ = once(t, b, Fail)
	child := exec.Command(os.Args[0], "-test.run=^TestHelperHoldsAProbe$", "-test.v")
	child.Env = append(os.Environ(), "BREAKER_HOLD_PROBE="+server.URL())
	require.NoError(t, child.Start())
	var held Snapshot
	eventually(t, "the other process probes", func() bool {
		held = state(t, b)
		return held.ProbesHeld == 1
	})
	require.Contains(t, held.Probes[0].Token, "victim#")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Equal(t, DeniedProbing, once(t, b, OK).Reason)
	eventually(t, "the lease ends", func() bool { return once(t, b, OK) == nil })
	require.Equal(t, Closed, state(t, b).State)
}

// TestHelperHoldsAProbe is the process that gets killed; by itself it does nothing.
func TestHelperHoldsAProbe(t *testing.T) {
	url := os.Getenv("BREAKER_HOLD_PROBE")
	if url == "" {
		return
	}
	b := NewRedis(productionClient(t, url), Options{Worker: "victim", Timeout: patience,
		Settings: func(Key) Settings { return Settings{ProbeTTL: time.Second} }})
	eventually(t, "a probe", func() bool {
		p, err := b.Permit(context.Background(), charge)
		return err == nil && p.Probe()
	})
	select {} // until killed
}

// Eight workers with connections of their own against a dead third party.
func TestLeakedCallsAreBoundedAndNoneFollowsTheOpening(t *testing.T) {
	t.Parallel()
	const threshold, workers = 10, 8
	server := breakertest.Start(t)
	var calls, afterOpen, opened atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		b := NewRedis(server.Client(), Options{Worker: "w" + strconv.Itoa(i), Timeout: patience,
			Settings: func(Key) Settings { return Settings{Failures: threshold, OpenFor: time.Hour} }})
		wg.Go(func() {
			for {
				wasOpen := opened.Load() > 0
				p, err := b.Permit(context.Background(), charge)
				if err != nil {
					opened.Add(1)
					return
				}
				calls.Add(1)
				if wasOpen {
					afterOpen.Add(1)
				}
				report(p, Fail)
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, calls.Load(), int64(threshold))
	require.LessOrEqual(t, calls.Load(), int64(threshold+workers-1))
	require.Zero(t, afterOpen.Load())
}

// looksOnce has it look for a lost Redis once, and then not again during the test.
func (r *Redis) looksOnce() {
	r.flush(r.circuit(charge)) // what is under way reads the options
	r.opt.Recheck = time.Hour
}
