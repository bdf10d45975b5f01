package circuits_test

import (
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/web/circuits"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var (
	charge = breaker.Key{Name: "atlas", Class: "charge"}
	status = breaker.Key{Name: "atlas", Class: "status"}
	olena  = store.Actor{Kind: "user", ID: "9a9ee6b6-2a0e-4c8a-9d43-52d0ad90d9d1", Name: "Olena", RequestID: "r-1"}
)

// rig is real books and a real Redis.
type rig struct {
	t     *testing.T
	db    *storetest.DB
	jobs  *storetest.Jobs
	store *store.Store
	redis *breakertest.Server
	cb    *breaker.Redis
	circuits.Operations
}

// newRig uses a Redis of its own if the test stops it.
func newRig(t *testing.T, redis *breakertest.Server) *rig {
	t.Helper()
	if redis == nil {
		redis = breakertest.Shared(t)
	}
	r := &rig{t: t, db: storetest.New(t), redis: redis}
	r.jobs = storetest.NewJobs(t, r.db)
	log := slog.New(slog.DiscardHandler)
	r.store = store.New(r.db.Pool, store.Options{Enqueuer: r.jobs, Log: log})
	r.cb = breaker.NewRedis(redis.Client(), breaker.Options{
		Names: []string{"atlas"}, Timeout: 2 * time.Second, // a busy machine is no outage
		Settings: func(breaker.Key) breaker.Settings { return breaker.Settings{Failures: 3, OpenFor: time.Hour} }, Log: log,
	})
	r.Operations = circuits.Operations{Store: r.store, Breaker: r.cb, Log: log}
	return r
}

func (r *rig) snap(k breaker.Key) breaker.Snapshot {
	r.t.Helper()
	s, err := r.cb.Snapshot(r.t.Context(), k)
	require.NoError(r.t, err)
	return s
}

// trip opens a circuit as failures do.
func (r *rig) trip(k breaker.Key) breaker.Snapshot {
	r.t.Helper()
	for range 3 {
		p, err := r.cb.Permit(r.t.Context(), k)
		require.NoError(r.t, err)
		p.Report(r.t.Context(), breaker.Fail, time.Second, "timeout", "")
	}
	s := r.snap(k)
	require.Equal(r.t, breaker.Open, s.State)
	return s
}

// waiting makes n payments that sleep for the circuit.
func (r *rig) waiting(n int, st store.Status) []uuid.UUID {
	r.t.Helper()
	due := r.store.Now().Add(time.Hour)
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = r.db.SeedPayment(r.t, func(p *store.Payment) {
			p.Status, p.NextCheckAt, p.NextCheckWhy = st, &due, "circuit_open"
		}).ID
	}
	return ids
}

// awake counts the payments that no longer sleep for the circuit.
func (r *rig) awake() (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.Pool.QueryRow(r.t.Context(), `SELECT count(*) FROM payments WHERE next_check_why <> 'circuit_open'`).Scan(&n))
	return n
}

func (r *rig) audits() []store.AuditEntry {
	r.t.Helper()
	list, _, err := r.store.ListAudit(r.t.Context(), store.AuditFilter{Target: circuits.Target(charge)}, 0, 50)
	require.NoError(r.t, err)
	return list
}

func (r *rig) request(a circuits.Action, epoch string) circuits.Request {
	q := circuits.Request{Key: charge, Action: a, Epoch: epoch, ActionID: uuid.New(), By: olena, Reason: " they are working on it "}
	if a == circuits.ForcedOpen {
		q.For = time.Hour
	}
	return q
}

// together runs fn n times at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}
