package jobs

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/gateway"
	"fusebox/provider/simulator"
	"fusebox/store"
	"fusebox/store/storetest"
)

// wired is a bench whose provider is the simulator over HTTP through the real adapter.
type wired struct {
	*bench
	sim *simulator.Server
}

func newWired(t *testing.T, opts simulator.Options, change func(*provider.Settings)) *wired {
	t.Helper()
	opts.Name = "atlas"
	sim, err := simulator.Start(context.Background(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = sim.Close() })
	s := quick("atlas")
	s.Kind, s.BaseURL, s.APIKey, s.WebhookSecrets = gateway.Kind, sim.URL(), sim.APIKey(), sim.WebhookSecrets()
	if s.NoKeys, s.NoStatusAPI = opts.NoKeys, opts.NoStatusAPI; s.NoKeys {
		s.KeyLife = 0
	}
	if change != nil {
		change(&s)
	}
	return &wired{bench: httpBench(t, s), sim: sim}
}

// httpBench is a bench whose one provider is reached over HTTP.
func httpBench(t *testing.T, s provider.Settings) *bench {
	t.Helper()
	a, err := gateway.New(s, gateway.Options{})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	b := &bench{t: t, db: storetest.New(t), circuits: newCircuits(), settings: []provider.Settings{s}, registry: provider.NewRegistry(a)}
	b.enqueuer, err = NewEnqueuer(b.db.Pool, quiet())
	require.NoError(t, err)
	b.store = store.New(b.db.Pool, store.Options{Enqueuer: b.enqueuer, Log: quiet()})
	return b
}

// charged returns how many succeeded charges the simulator's ledger holds for p.
func (w *wired) charged(p store.Payment) int {
	w.t.Helper()
	all, err := w.sim.Charges()
	require.NoError(w.t, err)
	n := 0
	for _, c := range all {
		if c.Reference == p.ID.String() && c.Status == "succeeded" {
			n++
		}
	}
	return n
}

// Every way an answer can be lost after the money moved ends as succeeded, with one
// charge in the provider's own ledger.
func TestLostAnswersOverTheWire(t *testing.T) {
	t.Parallel()
	w := newWired(t, simulator.Options{}, nil)
	w.start("w1", nil)
	for _, fault := range []simulator.Fault{
		simulator.ChargedThenSilent, simulator.ChargedThenCut, simulator.ChargedThenReset, simulator.ChargedThen502,
		simulator.ChargedThenTruncated, simulator.Drip, simulator.Error500Charged, simulator.ChargedThenHTML,
		simulator.ChargedThenRedirect, simulator.AmountMisreported,
	} {
		t.Run(string(fault), func(t *testing.T) {
			p := w.pay("atlas", func(n *store.NewPayment) { n.OrderRef = "fault:" + string(fault) })
			w.bench.t = t
			got := w.becomes(p.ID, store.Succeeded)
			require.True(t, got.UnknownSeen)
			require.Equal(t, 1, w.charged(p))
			require.Equal(t, 1, w.count(`SELECT max(wire_sends) FROM attempts WHERE payment_id = $1`, p.ID))
		})
	}
}

// A provider that refuses connections: nothing leaves, nothing is lost.
func TestARefusingProviderOverTheWire(t *testing.T) {
	t.Parallel()
	w := newWired(t, simulator.Options{Faults: simulator.Faults{Outage: simulator.OutageRefuse}}, nil)
	w.start("w1", nil)
	p := w.pay("atlas", nil)
	w.eventually("tried", func() (bool, string) {
		n := w.count(`SELECT count(*) FROM attempts WHERE outcome = 'not_sent'`)
		return n >= 2, w.attempts(p.ID)
	})
	require.Equal(t, store.Pending, w.payment(p.ID).Status)
	require.NoError(t, w.sim.SetOutage(simulator.OutageNone, 0))
	got := w.becomes(p.ID, store.Succeeded)
	require.False(t, got.UnknownSeen)
	require.Equal(t, 1, w.charged(p))
}

func TestAProviderWithoutKeysOverTheWire(t *testing.T) {
	t.Parallel()
	w := newWired(t, simulator.Options{NoKeys: true}, nil)
	w.start("w1", nil)
	p := w.pay("atlas", func(n *store.NewPayment) { n.OrderRef = "fault:throttle_429" })
	w.becomes(p.ID, store.Succeeded)
	require.Equal(t, 1, w.charged(p))
	p = w.pay("atlas", func(n *store.NewPayment) { n.OrderRef = "fault:charged_then_cut" })
	w.becomes(p.ID, store.Succeeded)
	require.Equal(t, 1, w.charged(p))
}

// requests counts what reaches a provider that answers 503 to everything.
type requests struct {
	mu    sync.Mutex
	posts int
	gets  int
}

func (r *requests) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Method == http.MethodPost {
		r.posts++
	} else {
		r.gets++
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (r *requests) seen() (posts, gets int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posts, r.gets
}

// The worst case printed at start is held: with the provider down, one operation
// causes one charge request, and each lookup no more than its budget.
func TestWorstCaseRequestsHoldWithTheProviderDown(t *testing.T) {
	t.Parallel()
	down := &requests{}
	srv := httptest.NewServer(down)
	t.Cleanup(srv.Close)
	s := quick("atlas")
	s.Kind, s.BaseURL, s.APIKey, s.WebhookSecrets = gateway.Kind, srv.URL, "key", []string{"whsec_0123456789abcdef"}
	s.AnswerTimeout = 2 * time.Second
	s.SyncEvery = time.Hour
	s.ReconcilePauses = []time.Duration{300 * time.Millisecond, time.Hour}
	s.QuickReconcile = 50 * time.Millisecond
	b := httpBench(t, s)
	budgets, err := CheckBudgets(b.settings, b.registry)
	require.NoError(t, err)
	b.circuits.open("atlas", classStatus, 100*time.Millisecond) // keeps the sync at start away
	r := b.start("w1", nil)
	p := b.pay("atlas", nil)
	b.becomes(p.ID, store.Unknown)
	b.exec(`DELETE FROM river_job WHERE kind = 'sync'`)
	b.circuits.shut("atlas", classStatus)
	b.eventually("one lookup done", func() (bool, string) { p = b.payment(p.ID); return p.Lookups >= 1, "none" })
	b.stopNow(r, 5*time.Second)
	posts, gets := down.seen()
	require.Equal(t, 1, posts)
	require.LessOrEqual(t, posts, budgets[0].RequestsPerCharge)
	require.Positive(t, gets)
	require.LessOrEqual(t, gets, budgets[0].RequestsPerLookup*p.Lookups)
}
