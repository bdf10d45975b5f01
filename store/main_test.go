package store_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var ctx = context.Background()

// world is a test's store on a database and a clock of its own.
type world struct {
	*store.Store
	t     testing.TB
	db    *storetest.DB
	jobs  *storetest.Jobs
	clock *clock
	seen  sync.Map // payment id: store.Seen, as its job read it before the attempt
}

// clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db := storetest.New(t)
	w := &world{t: t, db: db, jobs: storetest.NewJobs(t, db), clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	w.Store = store.New(db.Pool, store.Options{Enqueuer: w.jobs, Now: w.clock.Now, Log: slog.New(slog.DiscardHandler)})
	return w
}

var (
	apiClient = store.Actor{Kind: "client", ID: "key-1", Name: "shop"}
	someone   = store.Actor{Kind: "user", ID: "9a9ee6b6-2a0e-4c8a-9d43-52d0ad90d9d1", Name: "Olena"}
)

const (
	keyLife  = 24 * time.Hour
	deadline = 7 * time.Second
	horizon  = 15 * time.Minute
)

// newPayment is a valid request with a key and order of its own.
func newPayment() store.NewPayment {
	ref := uuid.NewString()
	return store.NewPayment{ClientID: "key-1", IdempotencyKey: "k-" + ref, OrderRef: "o-" + ref, Provider: "atlas", Amount: 1000, Currency: "EUR"}
}

func (w *world) create(change ...func(*store.NewPayment)) store.Payment {
	w.t.Helper()
	n := newPayment()
	for _, c := range change {
		c(&n)
	}
	c, err := w.CreatePayment(ctx, n, apiClient)
	require.NoError(w.t, err)
	require.Equal(w.t, c.Payment, w.get(c.Payment.ID), "what is answered is what is stored")
	return c.Payment
}

func (w *world) get(id uuid.UUID) store.Payment {
	w.t.Helper()
	p, err := w.Payment(ctx, id)
	require.NoError(w.t, err)
	return p
}

func (w *world) tx(fn func(tx pgx.Tx) error) error {
	return w.InTx(ctx, func(_ context.Context, tx pgx.Tx) error { return fn(tx) })
}

func (w *world) begin(id uuid.UUID) store.Attempt {
	w.t.Helper()
	b := begin(id)
	c, err := w.Chargeable(ctx, id)
	require.NoError(w.t, err)
	b.Seen = c.Seen()
	w.seen.Store(id, b.Seen)
	a, _, err := w.BeginAttempt(ctx, b)
	require.NoError(w.t, err)
	return a
}

func begin(id uuid.UUID) store.BeginParams {
	return store.BeginParams{PaymentID: id, Body: []byte(`{"amount":1000}`), KeyLife: keyLife, Deadline: deadline, Worker: "w1"}
}

// finish writes an attempt's outcome; the lookup is due in a minute.
func (w *world) finish(a store.Attempt, c provider.Charged) store.Payment {
	w.t.Helper()
	f := store.FinishParams{AttemptID: a.ID, Charged: c, RetryAt: w.Now().Add(10 * time.Second), ReconcileAt: w.Now().Add(time.Minute)}
	if seen, ok := w.seen.Load(a.PaymentID); ok {
		f.Seen = seen.(store.Seen)
	}
	p := w.get(a.PaymentID)
	if w.FinishTogether(ctx, p.ID, f, callOf(p, c)) { // as the charge job does
		return w.get(p.ID)
	}
	err := w.tx(func(tx pgx.Tx) (err error) {
		p, err = w.FinishAttempt(ctx, tx, f)
		return err
	})
	require.NoError(w.t, err)
	return p
}

// charge makes one attempt with the given answer.
func (w *world) charge(id uuid.UUID, c provider.Charged) store.Payment {
	w.t.Helper()
	return w.finish(w.begin(id), c)
}

// object is the provider's view of p with the given outcome.
func object(p store.Payment, id string, o provider.Outcome) provider.Object {
	return provider.Object{ID: id, Reference: p.ID.String(), Status: string(o), Outcome: o, Money: p.Money(), Raw: []byte(`{}`)}
}

func answered(o provider.Outcome, obj *provider.Object) provider.Charged {
	c := provider.Charged{Object: obj}
	c.Outcome, c.Health, c.Next, c.Reason = o, provider.HealthOK, provider.NextNone, string(o)
	c.Exchange = provider.Exchange{WireSends: 1, HeaderWritten: true, Status: 200}
	return c
}

func timedOut() provider.Charged {
	c := answered(provider.Unknown, nil)
	c.Reason, c.Health, c.Next, c.Exchange.Status = "timeout_after_send", provider.HealthFail, provider.NextReconcile, 0
	return c
}

func notSent() provider.Charged {
	c := answered(provider.NotSent, nil)
	c.Reason, c.Health, c.Next, c.Exchange = "dial", provider.HealthFail, provider.NextRetry, provider.Exchange{}
	return c
}

func policy(w *world) store.LookupPolicy {
	return store.LookupPolicy{AbsentHorizon: horizon, OnAbsent: "fail", NextAt: w.Now().Add(5 * time.Minute), KeyLife: keyLife}
}

func (w *world) lookup(id uuid.UUID, l provider.LookedUp, change ...func(*store.LookupPolicy)) store.Payment {
	w.t.Helper()
	pol := policy(w)
	for _, c := range change {
		c(&pol)
	}
	var p store.Payment
	err := w.tx(func(tx pgx.Tx) (err error) {
		p, err = w.RecordLookup(ctx, tx, id, l, pol, store.System("reconcile"))
		return err
	})
	require.NoError(w.t, err)
	return p
}

func foundBy(objects ...provider.Object) provider.LookedUp {
	return provider.LookedUp{Verdict: provider.LookupFound, Way: provider.ByReference, Objects: objects, Health: provider.HealthOK}
}

func absentBy(way provider.Way) provider.LookedUp {
	return provider.LookedUp{Verdict: provider.LookupAbsent, Way: way, Health: provider.HealthOK, Reason: "not_found"}
}

// event is a provider event about an object.
func event(key string, o provider.Object, at time.Time) provider.Event {
	return provider.Event{Key: key, Type: "payment." + string(o.Outcome), Interesting: true, Object: o, OccurredAt: at}
}

func delivery(events ...provider.Event) store.Delivery {
	return store.Delivery{Provider: "atlas", Raw: []byte("body " + events[0].Key), Events: events,
		Verification: provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "1"}}
}

// receive stores a delivery and returns its first inbox row.
func (w *world) receive(events ...provider.Event) int64 {
	w.t.Helper()
	r, err := w.ReceiveWebhook(ctx, delivery(events...))
	require.NoError(w.t, err)
	return r.EventIDs[0]
}

// applyRow applies an inbox row whose body holds the given events.
func (w *world) applyRow(id int64, events ...provider.Event) string {
	w.t.Helper()
	var state string
	err := w.tx(func(tx pgx.Tx) (err error) {
		state, err = w.ApplyWebhook(ctx, tx, id, func([]byte) ([]provider.Event, error) { return events, nil })
		return err
	})
	require.NoError(w.t, err)
	return state
}

// hook delivers an event and applies it.
func (w *world) hook(e provider.Event) string {
	w.t.Helper()
	return w.applyRow(w.receive(e), e)
}

func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.db.Pool.QueryRow(ctx, query, args...).Scan(&n))
	return n
}

func (w *world) wallet() store.Wallet {
	w.t.Helper()
	wal, _, err := w.CreateWallet(ctx, "owner-"+uuid.NewString(), "EUR", apiClient)
	require.NoError(w.t, err)
	return wal
}

func (w *world) balance(id uuid.UUID) int64 {
	w.t.Helper()
	wal, err := w.Wallet(ctx, id)
	require.NoError(w.t, err)
	return wal.Balance
}
