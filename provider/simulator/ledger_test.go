package simulator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kept puts the ledger into a file.
func kept(path string) func(*Options) { return func(o *Options) { o.LedgerPath = path } }

func ledgerFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "ledger.jsonl")
}

func TestLedgerSurvivesRestart(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	b := start(t, kept(path))
	ok := b.charge("k1", one("p1", ""))
	declined := b.charge("k2", one("p2", "fault:decline"))
	broken := b.charge("k3", one("p3", "fault:error_500"))
	before, err := b.Charges()
	require.NoError(t, err)
	require.NoError(t, b.Close())

	b = start(t, kept(path))
	after, err := b.Charges()
	require.NoError(t, err)
	require.Equal(t, before, after)
	for key, want := range map[string]answer{"k1": ok, "k2": declined, "k3": broken} {
		tag := map[string]string{"k2": "fault:decline", "k3": "fault:error_500"}[key]
		got := b.charge(key, one("p"+key[1:], tag))
		require.Equal(t, want.status, got.status)
		require.Equal(t, want.body, got.body)
		require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
	}
	require.Equal(t, ok.object(t), b.found("/payments?idempotency_key=k1")[0])
	require.Equal(t, "idempotency_key_reused", b.charge("k1", one("p9", "")).problem(t).Code)
}

// A charge that was still undecided decides itself after a restart.
func TestDecisionSurvivesRestart(t *testing.T) {
	t.Parallel()
	path, in := ledgerFile(t), newInbox(t)
	b := start(t, kept(path), into(in), func(o *Options) { o.Faults.Timing.Async = time.Hour })
	b.charge("k1", one("p1", "fault:async_202"))
	in.wait(1)
	b.quiet()
	due := b.ledger("p1")[0].DecideAt
	require.NoError(t, b.Close())

	// What an hour would have done: the decision is due.
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	old, err := json.Marshal(due)
	require.NoError(t, err)
	now, err := json.Marshal(due.Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), string(old), string(now))), 0o600))

	b = start(t, kept(path), into(in))
	require.Eventually(t, func() bool { return b.ledger("p1")[0].Status == StatusSucceeded }, patience, glance)
	require.Equal(t, eventSucceeded, in.wait(2)[1].Type)
}

// A crash in mid-write leaves half a line. It was never answered to anyone; it is
// cut off and the ledger goes on.
func TestLedgerCutsTornLine(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]string{
		"half a record":       `{"at":"2026-03-01T00:00:00Z","charges":[{"id":"pay_torn","refer`,
		"no newline":          `{"at":"2026-03-01T00:00:00Z","charges":[{"id":"pay_torn","reference":"p9"}]}`,
		"half, then newline":  "{\"at\":\n",
		"zeroes of a journal": "\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := ledgerFile(t)
			b := start(t, kept(path))
			b.charge("k1", one("p1", ""))
			require.NoError(t, b.Close())
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(tail)
			require.NoError(t, err)
			require.NoError(t, f.Close())

			b = start(t, kept(path))
			require.Len(t, b.ledger("p1"), 1)
			require.Empty(t, b.ledger("p9"))
			b.charge("k2", one("p2", ""))
			require.NoError(t, b.Close())

			b = start(t, kept(path))
			all, err := b.Charges()
			require.NoError(t, err)
			require.Len(t, all, 2)
		})
	}
}

// A bad line with good ones after it is no crash's trace: refused, not skipped.
func TestLedgerRefusesCorruption(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	require.NoError(t, os.WriteFile(path, []byte("{}\n{oops\n{}\n"), 0o600))
	_, err := Start(t.Context(), Options{LedgerPath: path})
	require.ErrorContains(t, err, "line 2 is corrupt")

	require.NoError(t, os.WriteFile(path, []byte("{\"charges\":5}\n{}\n"), 0o600))
	_, err = Start(t.Context(), Options{LedgerPath: path})
	require.ErrorContains(t, err, "line 1")
}

func TestLedgerBelongsToOne(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	start(t, kept(path))
	_, err := Start(t.Context(), Options{LedgerPath: path})
	require.ErrorContains(t, err, "in use")
}

// Every line is one whole step, so that a crash between any two leaves a ledger
// that makes sense: a charge never without its stored answer and its event.
func TestLedgerLinesAreWholeSteps(t *testing.T) {
	t.Parallel()
	path, in := ledgerFile(t), newInbox(t)
	in.answer = func(int, received) int { return http.StatusServiceUnavailable }
	b := start(t, kept(path), into(in))
	b.charge("k1", one("p1", ""))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	require.True(t, lines.Scan())
	var e entry
	require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
	require.Len(t, e.Charges, 1)
	require.Equal(t, "k1", e.Answer.Key)
	require.Len(t, e.Events, 1)
}

// An answer whose line cannot be written is never given.
func TestLedgerBroken(t *testing.T) {
	t.Parallel()
	b := start(t, kept(ledgerFile(t)))
	b.charge("k1", one("p1", ""))
	b.book.log.settle(0, os.ErrClosed) // as a failed write does
	a := b.charge("k2", one("p2", ""))
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.Equal(t, http.StatusInternalServerError, b.charge("k1", one("p1", "")).status, "not even replayed")
	require.Equal(t, http.StatusInternalServerError, b.get("/payments?reference=p1").status)
	require.ErrorIs(t, b.Close(), os.ErrClosed)
	b.Server.close = func() error { return nil } // said already
}

func TestReset(t *testing.T) {
	t.Parallel()
	path, in := ledgerFile(t), newInbox(t)
	in.answer = func(int, received) int { return http.StatusInternalServerError }
	b := start(t, kept(path), into(in), faulty(map[Fault]float64{Decline: 1}))
	b.charge("k1", one("p1", ""))
	in.wait(1)
	require.NoError(t, b.Reset())
	require.Empty(t, b.ledger("p1"))
	require.Zero(t, b.Stats().Posts)
	require.Zero(t, b.Stats().Webhooks.Pending)
	require.Empty(t, b.Faults().Rates)
	require.Empty(t, b.charge("k1", one("p1", "")).header.Get("Idempotent-Replayed"))
	require.NoError(t, b.Close())

	b = start(t, kept(path))
	require.Len(t, b.ledger("p1"), 1, "the reset is part of the ledger")
}

// childEnv tells the test binary to be a simulator until it is killed.
const childEnv = "SIMULATOR_TEST_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
	}
	os.Exit(m.Run())
}

func child(path string) {
	s, err := Start(context.Background(), Options{
		LedgerPath: path, APIKey: "sk", WebhookSecrets: []string{"whsec_1"},
		WebhookURL: os.Getenv("SIMULATOR_TEST_WEBHOOK"),
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(s.URL())
	select {}
}

// kill -9 while charges pour in: whatever was answered is in the ledger, its key
// replays it, and its event still comes.
func TestKill9(t *testing.T) {
	t.Parallel()
	path, in := ledgerFile(t), newInbox(t)
	in.answer = func(int, received) int { return http.StatusServiceUnavailable } // nothing is acknowledged
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, "SIMULATOR_TEST_WEBHOOK="+in.url)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	answered := chargeUntilDead(t, strings.TrimSpace(line), func(n int) {
		if n == 100 {
			require.NoError(t, cmd.Process.Kill())
		}
	})
	require.Error(t, cmd.Wait())
	require.GreaterOrEqual(t, len(answered), 100)

	in.mu.Lock()
	in.answer = nil
	in.mu.Unlock()
	b := start(t, kept(path), into(in))
	for key, body := range answered {
		a := b.charge(key, one("p"+key, ""))
		require.Equal(t, "true", a.header.Get("Idempotent-Replayed"), key)
		require.Equal(t, body, string(a.body))
		require.Len(t, b.ledger("p"+key), 1)
	}
	b.quiet()
	told := map[string]bool{}
	for _, r := range in.all() {
		told[r.Data.Reference] = true
	}
	for key := range answered {
		require.True(t, told["p"+key], key)
	}
}

// chargeUntilDead sends charges from several clients until the server is gone, and
// returns the answers by key. each is called with the number answered so far.
func chargeUntilDead(t *testing.T, base string, each func(n int)) map[string]string {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	answered := map[string]string{}
	for worker := range 8 {
		wg.Go(func() {
			b := &bench{t: t, client: &http.Client{Transport: &http.Transport{}}}
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d", worker, i)
				body, err := json.Marshal(one("p"+key, ""))
				if err != nil {
					t.Error(err)
					return
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/payments", strings.NewReader(string(body)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer sk")
				req.Header.Set("Idempotency-Key", key)
				req.Header.Set("Content-Type", "application/json")
				a, err := b.do(req)
				if err != nil || a.err != nil {
					return // dead
				}
				mu.Lock()
				answered[key] = string(a.body)
				each(len(answered))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answered
}
