package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Parallel(3) // they wait for pauses and retries most of their time
	os.Exit(storetest.Main(m))
}

// bench is one test's surroundings: a database, providers in memory, circuits that
// can be opened by hand, and any number of processes.
type bench struct {
	t        *testing.T
	db       *storetest.DB
	store    *store.Store
	enqueuer *Enqueuer
	circuits *circuits
	registry *provider.Registry
	fakes    map[string]*fake
	settings []provider.Settings
}

// quick is a provider's pacing at a hundredth of its size.
func quick(name string) provider.Settings {
	ms := time.Millisecond
	return provider.Settings{
		Name: name, ConnectTimeout: 100 * ms, AnswerTimeout: 400 * ms, ChargeWorkers: 4, StatusWorkers: 4,
		RetryPauses:     []time.Duration{20 * ms, 30 * ms, 40 * ms, 50 * ms},
		ReconcilePauses: []time.Duration{60 * ms, 80 * ms, 100 * ms}, QuickReconcile: 30 * ms,
		AbsentHorizon: 150 * ms, SyncEvery: time.Hour, SyncOverlap: time.Minute, SyncPause: 300 * ms,
	}.WithDefaults()
}

// newBench prepares a bench for the given providers, with fakes of their names.
func newBench(t *testing.T, settings ...provider.Settings) *bench {
	t.Helper()
	b := &bench{t: t, db: storetest.New(t), circuits: newCircuits(), fakes: map[string]*fake{}, settings: settings}
	var adapters []provider.Adapter
	for _, s := range settings {
		f := newFake(s.Name)
		f.caps.IdempotencyKeys = !s.NoKeys
		if s.NoStatusAPI {
			f.caps.Ways = nil
		}
		b.fakes[s.Name] = f
		adapters = append(adapters, f)
	}
	b.registry = provider.NewRegistry(adapters...)
	var err error
	b.enqueuer, err = NewEnqueuer(b.db.Pool, quiet())
	require.NoError(t, err)
	b.store = store.New(b.db.Pool, store.Options{Enqueuer: b.enqueuer, Log: quiet()})
	return b
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// config returns a process's configuration; change may be nil.
func (b *bench) config(worker string, change func(*Config)) Config {
	c := Config{
		Store: b.store, Registry: b.registry, Providers: b.settings, Breaker: b.circuits,
		Worker: worker, SweepEvery: time.Hour, Log: quiet(),
	}
	if change != nil {
		change(&c)
	}
	return c
}

// start starts a process, stopped at the end of the test.
func (b *bench) start(worker string, change func(*Config)) *Runner {
	b.t.Helper()
	r, err := New(b.config(worker, change))
	require.NoError(b.t, err)
	require.NoError(b.t, r.Start(context.Background()))
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			b.t.Errorf("stop %s: %v", worker, err)
		}
	})
	return r
}

// pay creates a payment of 49.00 EUR at a provider, with its charge job.
func (b *bench) pay(providerName string, change func(*store.NewPayment)) store.Payment {
	b.t.Helper()
	n := store.NewPayment{
		ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: "ORD-" + uuid.NewString(), Provider: providerName,
		Amount: 4900, Currency: "EUR", Description: "Two chairs", CustomerName: "Ada Palmer", CustomerEmail: "ada@example.org",
	}
	if change != nil {
		change(&n)
	}
	created, err := b.store.CreatePayment(context.Background(), n, store.Actor{Kind: "client", ID: "test"})
	require.NoError(b.t, err)
	return created.Payment
}

// payment reads one.
func (b *bench) payment(id uuid.UUID) store.Payment {
	b.t.Helper()
	p, err := b.store.Payment(context.Background(), id)
	require.NoError(b.t, err)
	return p
}

// eventually polls until ok or fails the test with what the last poll said.
func (b *bench) eventually(what string, ok func() (bool, string)) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		done, now := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: still %s", what, now)
		}
		time.Sleep(20 * time.Millisecond) // each look is a query
	}
}

// becomes waits until a payment has the status.
func (b *bench) becomes(id uuid.UUID, want store.Status) store.Payment {
	b.t.Helper()
	var p store.Payment
	b.eventually(fmt.Sprintf("payment should become %s", want), func() (bool, string) {
		p = b.payment(id)
		return p.Status == want, fmt.Sprintf("%s (%s, next %s)", p.Status, p.StatusReason, p.NextCheckWhy)
	})
	return p
}

// idle waits until no job of the kind lives.
func (b *bench) idle(kind string) {
	b.t.Helper()
	b.eventually("no live "+kind+" job", func() (bool, string) {
		n := b.count(`SELECT count(*) FROM river_job WHERE kind = $1 AND finalized_at IS NULL`, kind)
		return n == 0, fmt.Sprintf("%d", n)
	})
}

// count runs a query that answers with one number.
func (b *bench) count(q string, args ...any) int {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.db.Pool.QueryRow(context.Background(), q, args...).Scan(&n))
	return n
}

// text runs a query that answers with one text, empty for no row.
func (b *bench) text(q string, args ...any) string {
	b.t.Helper()
	var s string
	err := b.db.Pool.QueryRow(context.Background(), q, args...).Scan(&s)
	if err != pgx.ErrNoRows {
		require.NoError(b.t, err)
	}
	return s
}

// exec runs a statement.
func (b *bench) exec(q string, args ...any) {
	b.t.Helper()
	b.db.Exec(b.t, q, args...)
}

// inTx runs fn in a transaction that commits.
func (b *bench) inTx(fn func(ctx context.Context, tx pgx.Tx) error) {
	b.t.Helper()
	require.NoError(b.t, b.store.InTx(context.Background(), fn))
}

// attempts returns seq and outcome of a payment's attempts, "1:unknown 2:…".
func (b *bench) attempts(id uuid.UUID) string {
	b.t.Helper()
	return b.text(`SELECT coalesce(string_agg(seq || ':' || coalesce(outcome, 'open'), ' ' ORDER BY seq), '')
		FROM attempts WHERE payment_id = $1`, id)
}

// ledger returns how many charges the provider made for a payment.
func (b *bench) ledger(p store.Payment) int {
	f := b.fakes[p.Provider]
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ledger[p.ID.String()])
}

// circuits is a breaker whose state is set by hand and that keeps every report.
type circuits struct {
	mu      sync.Mutex
	closed  map[breaker.Key]*breaker.Denied
	permits map[breaker.Key]int
	denials map[breaker.Key]int
	reports []report
	snaps   map[breaker.Key]breaker.Snapshot
	probing map[breaker.Key]bool // permits are half-open probes
}

type report struct {
	key     breaker.Key
	verdict breaker.Verdict
	class   string
	sample  string
}

func newCircuits() *circuits {
	return &circuits{
		closed: map[breaker.Key]*breaker.Denied{}, permits: map[breaker.Key]int{},
		denials: map[breaker.Key]int{}, snaps: map[breaker.Key]breaker.Snapshot{},
		probing: map[breaker.Key]bool{},
	}
}

// open denies every call of a circuit until shut.
func (c *circuits) open(name, class string, retryAfter time.Duration) {
	k := breaker.Key{Name: name, Class: class}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed[k] = &breaker.Denied{Key: k, Reason: "open", RetryAfter: retryAfter, Until: time.Now().Add(retryAfter)}
}

func (c *circuits) shut(name, class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.closed, breaker.Key{Name: name, Class: class})
}

// halfOpen makes every permit of a circuit a probe, or not.
func (c *circuits) halfOpen(name, class string, probing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing[breaker.Key{Name: name, Class: class}] = probing
}

func (c *circuits) denied(name, class string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denials[breaker.Key{Name: name, Class: class}]
}

// verdicts returns the reports of a circuit in order.
func (c *circuits) verdicts(name, class string) []breaker.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []breaker.Verdict
	for _, r := range c.reports {
		if r.key == (breaker.Key{Name: name, Class: class}) {
			out = append(out, r.verdict)
		}
	}
	return out
}

// about returns the reports of calls about one payment.
func (c *circuits) about(sample, class string) []breaker.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []breaker.Verdict
	for _, r := range c.reports {
		if r.sample == sample && r.key.Class == class {
			out = append(out, r.verdict)
		}
	}
	return out
}

func (c *circuits) Permit(_ context.Context, k breaker.Key) (breaker.Permit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.closed[k]; d != nil {
		c.denials[k]++
		return nil, d
	}
	c.permits[k]++
	return &permit{c: c, key: k, probe: c.probing[k]}, nil
}

func (c *circuits) Snapshot(_ context.Context, k breaker.Key) (breaker.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snaps[k], nil
}

func (c *circuits) Reset(context.Context, breaker.Key, string, string, string) (breaker.Snapshot, error) {
	return breaker.Snapshot{}, breaker.ErrEpoch
}

func (c *circuits) Degraded() time.Time { return time.Time{} }

type permit struct {
	c     *circuits
	key   breaker.Key
	probe bool
	once  sync.Once
}

func (p *permit) Report(_ context.Context, v breaker.Verdict, _ time.Duration, class, sample string) {
	p.once.Do(func() {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		p.c.reports = append(p.c.reports, report{p.key, v, class, sample})
	})
}

func (p *permit) Probe() bool { return p.probe }

var _ breaker.Breaker = (*circuits)(nil)
