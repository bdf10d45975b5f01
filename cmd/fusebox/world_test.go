package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker/breakertest"
	"fusebox/cmd/fusebox/chaos"
	"fusebox/jobs"
	"fusebox/provider/simulator"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/web/browsertest"
)

var discard = slog.New(slog.DiscardHandler)

// binary is this program, built once with the race detector and with failpoints.
var binary struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	storetest.Parallel(2) // they wait for other processes most of their time
	code := storetest.Main(m)
	browsertest.Stop()
	if binary.path != "" {
		_ = os.RemoveAll(filepath.Dir(binary.path))
	}
	os.Exit(code)
}

func builtBinary(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		dir, err := os.MkdirTemp("", "fusebox-bin-")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "fusebox")
		out, err := exec.Command("go", "build", "-race", "-tags", "failpoint", "-o", binary.path, ".").CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, binary.err)
	return binary.path
}

// world is one test's surroundings: real Postgres and Redis, simulated providers on
// their own listeners, and processes of the real binary.
type world struct {
	t         *testing.T
	db        *storetest.DB
	redis     *breakertest.Server
	store     *store.Store
	providers []*demoProvider
	env       []string
	url       string // of the first serve process
	apiKey    string
}

// place is where a world's stores are, for tests that break them.
type place struct {
	db    *storetest.DB
	redis *breakertest.Server
}

func newWorld(t *testing.T, at place, names ...string) *world {
	t.Helper()
	if at.db == nil {
		at.db = storetest.New(t)
	}
	if at.redis == nil {
		at.redis = breakertest.Start(t)
	}
	w := &world{t: t, db: at.db, redis: at.redis}
	enq, err := jobs.NewEnqueuer(w.db.Pool, discard)
	require.NoError(t, err)
	w.store = store.New(w.db.Pool, store.Options{Enqueuer: enq, Log: discard})
	w.url = "http://" + freeAddress(t)
	w.startProviders(names)
	w.configure()
	_, w.apiKey, err = w.store.CreateAPIKey(t.Context(), "test", commandLine)
	require.NoError(t, err)
	return w
}

func (w *world) startProviders(names []string) {
	for _, name := range names {
		p := &demoProvider{name: name, faults: timed(simulator.Healthy()), noKeys: name == "nokeys", noStatusAPI: name == "nostatus"}
		require.NoError(w.t, p.start(context.Background(), w.t.TempDir(), w.url+"/webhooks/"+name, 1, discard))
		w.t.Cleanup(func() { _ = p.sim.Close() })
		w.providers = append(w.providers, p)
	}
}

func (w *world) configure() {
	var names []string
	for _, p := range w.providers {
		names = append(names, p.name)
		w.env = append(w.env, providerEnv(p)...)
	}
	w.env = append(w.env,
		"PATH="+os.Getenv("PATH"), "HOME="+w.t.TempDir(), "TMPDIR="+os.TempDir(),
		"DATABASE_URL="+w.db.DSN, "REDIS_URL="+w.redis.URL(),
		"FUSEBOX_PROVIDERS="+strings.Join(names, ","), "FUSEBOX_LISTEN="+strings.TrimPrefix(w.url, "http://"),
		"FUSEBOX_SWEEP_EVERY=1s", "FUSEBOX_CIRCUIT_OPEN_FOR=2s", "FUSEBOX_DB_CONNS=16", "FUSEBOX_STOP_GRACE=3s",
		"FUSEBOX_REDIS_TIMEOUT=500ms", // a busy test machine is no outage of Redis
	)
}

// providerEnv is a provider's configuration as a person would write it.
func providerEnv(p *demoProvider) []string {
	s := p.settings
	prefix := providerPrefix(p.name)
	list := func(ds []time.Duration) string {
		var out []string
		for _, d := range ds {
			out = append(out, d.String())
		}
		return strings.Join(out, ",")
	}
	return []string{
		prefix + "BASE_URL=" + s.BaseURL, prefix + "API_KEY=" + s.APIKey,
		prefix + "WEBHOOK_SECRETS=" + strings.Join(s.WebhookSecrets, ","), prefix + "LEDGER_URL=" + s.LedgerURL,
		fmt.Sprintf("%sNO_KEYS=%t", prefix, s.NoKeys), fmt.Sprintf("%sNO_STATUS_API=%t", prefix, s.NoStatusAPI),
		prefix + "CONNECT_TIMEOUT=" + s.ConnectTimeout.String(), prefix + "ANSWER_TIMEOUT=" + s.AnswerTimeout.String(),
		prefix + "ABSENT_HORIZON=3s", prefix + "ON_ABSENT=" + s.OnAbsent,
		prefix + "RETRY_PAUSES=" + list(s.RetryPauses), prefix + "RECONCILE_PAUSES=1s",
		prefix + "QUICK_RECONCILE=500ms", prefix + "SYNC_EVERY=1h",
	}
}

func (w *world) provider(name string) *demoProvider {
	for _, p := range w.providers {
		if p.name == name {
			return p
		}
	}
	w.t.Fatalf("no provider %s", name)
	return nil
}

func (w *world) setFaults(name string, change func(simulator.Faults) simulator.Faults) {
	w.t.Helper()
	sim := w.provider(name).sim
	require.NoError(w.t, sim.SetFaults(change(sim.Faults())))
}

// process is a running fusebox process. Its log is shown when the test fails.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
	err  error
}

// start runs the binary; it is killed at the end of the test at the latest, and ends with
// a test process that is killed.
func (w *world) start(extraEnv []string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(builtBinary(w.t), args...)
	p.cmd.Env = append(append([]string{}, w.env...), extraEnv...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	done, err := chaos.StartChild(p.cmd)
	require.NoError(w.t, err)
	go func() {
		defer close(p.done)
		<-done
		if !p.cmd.ProcessState.Success() {
			p.err = &exec.ExitError{ProcessState: p.cmd.ProcessState}
		}
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", strings.Join(args, " "), p.log.String())
		}
		require.NotContains(w.t, p.log.String(), "DATA RACE")
	})
	return p
}

// serve starts a console and API process and waits until it answers.
func (w *world) serve(extraEnv ...string) *process {
	w.t.Helper()
	p := w.start(extraEnv, "serve")
	w.eventually(20*time.Second, "serve answers", func() bool {
		resp, err := http.Get(w.url + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

func (w *world) work(extraEnv ...string) *process { return w.start(extraEnv, "work") }

// exited waits for the end of the process.
func (p *process) exited(within time.Duration) error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(within):
		p.t.Fatalf("process did not end within %s", within)
		return nil
	}
}

// killed asserts that the process died by SIGKILL.
func (p *process) killed(within time.Duration) {
	p.t.Helper()
	var ee *exec.ExitError
	require.ErrorAs(p.t, p.exited(within), &ee)
	status, ok := ee.Sys().(syscall.WaitStatus)
	require.True(p.t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "ended by %v", ee)
}

// pay stores a payment the way the API does; the order reference may pick a fault.
func (w *world) pay(name, orderRef string) store.Payment {
	w.t.Helper()
	c, err := w.store.CreatePayment(w.t.Context(), store.NewPayment{
		ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: orderRef, Provider: name, Amount: 4900, Currency: "EUR",
	}, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	return c.Payment
}

func (w *world) payment(id uuid.UUID) store.Payment {
	w.t.Helper()
	p, err := w.store.Payment(context.Background(), id)
	require.NoError(w.t, err)
	return p
}

// settled waits until the payment is final.
func (w *world) settled(id uuid.UUID, within time.Duration) store.Payment {
	w.t.Helper()
	var p store.Payment
	eventuallyIn(w.t, within, func() string { return fmt.Sprintf("payment %s is final, it is %s (%s)", id, p.Status, p.StatusReason) }, func() bool {
		p = w.payment(id)
		return p.Status.Final()
	})
	return p
}

// charges counts the successful charges in the provider's own ledger.
func (w *world) charges(name string, id uuid.UUID) int {
	w.t.Helper()
	l, err := readLedgerURL(context.Background(), w.provider(name).settings.LedgerURL)
	require.NoError(w.t, err)
	return len(l.charges[id.String()])
}

// clean audits the books with the real command.
func (w *world) clean() {
	w.t.Helper()
	p := w.start(nil, "verify")
	require.NoError(w.t, p.exited(time.Minute), p.log.String())
}

// eventually polls until ok, or fails with what was waited for.
func (w *world) eventually(within time.Duration, what string, ok func() bool) {
	w.t.Helper()
	eventually(w.t, within, what, ok)
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	eventuallyIn(t, within, func() string { return what }, ok)
}

// eventuallyIn is eventually with a description made when it is needed. It waits for a
// minute at least: processes with the race detector start slowly on a busy machine.
func eventuallyIn(t *testing.T, within time.Duration, what func() string, ok func() bool) {
	t.Helper()
	within = max(within, time.Minute)
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	return ln.Addr().String()
}

// lockedBuffer is a process's log, read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
