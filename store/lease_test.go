package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

// operators are people with a place in the books, as a lease needs one.
func (w *world) operators(names ...string) []store.Actor {
	w.t.Helper()
	var out []store.Actor
	for _, name := range names {
		id := uuid.Must(uuid.NewV7())
		w.db.Exec(w.t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1, $2, $3, 'operator', 'none', $4)`,
			id, id.String()+"@example.org", name, w.Now())
		out = append(out, store.Actor{Kind: "user", ID: id.String(), Name: name})
	}
	return out
}

func TestALeaseIsOnePersonsAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, people := w.unknown(), w.operators("Olena", "Marc")
	olena, marc := people[0], people[1]
	first := uuid.New()
	got, err := w.Take(ctx, first, p.ID, olena)
	require.NoError(t, err)
	require.Equal(t, "Olena", got.Name)
	require.True(t, got.Until.Equal(w.Now().Add(store.LeaseFor)))

	_, err = w.Take(ctx, uuid.New(), p.ID, marc)
	var held *store.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "Olena", held.Lease.Name)
	_, err = w.Resolve(ctx, resolveBy(p, store.Failed, marc))
	require.ErrorAs(t, err, &held, "whoever decides has to take it over first")
	require.Equal(t, store.Unknown, w.get(p.ID).Status)
	require.ErrorAs(t, w.Release(ctx, uuid.New(), p.ID, marc), &held)

	w.clock.add(4 * time.Minute)
	_, err = w.ReconcileNow(ctx, uuid.New(), p.ID, p.Version, olena) // at work: it begins anew
	require.NoError(t, err)
	l, live, err := w.LeaseOf(ctx, p.ID)
	require.NoError(t, err)
	require.True(t, live)
	require.True(t, l.Until.Equal(w.Now().Add(store.LeaseFor)))

	_, err = w.TakeOver(ctx, uuid.New(), p.ID, uuid.New(), marc)
	require.ErrorAs(t, err, &held, "another holder than the one that was shown")
	over, err := w.TakeOver(ctx, uuid.New(), p.ID, uuid.MustParse(olena.ID), marc)
	require.NoError(t, err)
	require.Equal(t, "Marc", over.Name)
	_, err = w.Take(ctx, first, p.ID, olena) // the first form, once more: nothing happens
	require.NoError(t, err)
	l, _, _ = w.LeaseOf(ctx, p.ID)
	require.Equal(t, "Marc", l.Name)

	_, err = w.Resolve(ctx, resolveBy(w.get(p.ID), store.Failed, marc))
	require.NoError(t, err)
	require.Zero(t, w.count(`SELECT count(*) FROM leases`), "what is answered is nobody's")
	_, err = w.Take(ctx, uuid.New(), p.ID, marc)
	require.ErrorIs(t, err, store.ErrNotAllowed)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.take'`))
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.takeover' AND before->>'holder' = 'Olena'`))
}

func resolveBy(p store.Payment, to store.Status, by store.Actor) store.ResolveParams {
	r := resolve(p, to)
	r.By = by
	return r
}

func TestALeaseNeverHoldsBackEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, olena := w.unknown(), w.operators("Olena")[0]
	_, err := w.Take(ctx, uuid.New(), p.ID, olena)
	require.NoError(t, err)
	w.hook(event("evt_1", object(p, "pay_1", provider.Succeeded), w.Now()))
	require.Equal(t, store.Succeeded, w.get(p.ID).Status)
	_, err = w.Take(ctx, uuid.New(), p.ID, store.System("charge"))
	require.ErrorIs(t, err, store.ErrNotAllowed)
}

func TestTenOperatorsTakeTenPayments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 11 { // one more than people
		w.unknown()
	}
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprint("Operator ", i)
	}
	people := w.operators(names...)
	got := make([]uuid.UUID, len(people))
	var wg sync.WaitGroup
	for i, by := range people {
		wg.Go(func() {
			var err error
			got[i], err = w.TakeNext(ctx, uuid.New(), "", by)
			require.NoError(t, err)
		})
	}
	wg.Wait()
	different := map[uuid.UUID]bool{}
	for _, id := range got {
		different[id] = true
	}
	require.Len(t, different, 10)
	action := uuid.New()
	last, err := w.TakeNext(ctx, action, "", people[0])
	require.NoError(t, err)
	require.NotContains(t, got, last)
	again, err := w.TakeNext(ctx, action, "", people[0])
	require.NoError(t, err)
	require.Equal(t, last, again, "a double click takes one")
	_, err = w.TakeNext(ctx, uuid.New(), "", people[0])
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, 11, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.take'`))
}

// Whatever people do in whatever order, at most one of them holds a payment, a live
// lease changes hands only by taking over from the one who holds it, and time frees it.
func TestLeaseProperty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.operators("A", "B", "C")
	rapid.Check(t, func(rt *rapid.T) {
		p := w.unknown()
		holder, until := -1, w.Now()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			who := rapid.IntRange(0, len(people)-1).Draw(rt, "who")
			live := holder >= 0 && until.After(w.Now())
			free := !live || holder == who
			var err error
			switch rapid.SampledFrom([]string{"take", "over", "release", "wait", "renew"}).Draw(rt, "step") {
			case "take":
				if _, err = w.Take(ctx, uuid.New(), p.ID, people[who]); free {
					holder, until = who, w.Now().Add(store.LeaseFor)
				}
			case "over":
				from := rapid.IntRange(0, len(people)-1).Draw(rt, "from")
				free = free || holder == from
				if _, err = w.TakeOver(ctx, uuid.New(), p.ID, uuid.MustParse(people[from].ID), people[who]); free {
					holder, until = who, w.Now().Add(store.LeaseFor)
				}
			case "release":
				if err = w.Release(ctx, uuid.New(), p.ID, people[who]); live && free {
					holder = -1
				}
			case "renew":
				if err, free = w.Renew(ctx, p.ID, people[who]), true; live && holder == who {
					until = w.Now().Add(store.LeaseFor)
				}
			case "wait":
				w.clock.add(time.Duration(rapid.IntRange(1, 11).Draw(rt, "minutes")) * time.Minute)
				free = true
			}
			if (err == nil) != free {
				rt.Fatalf("free %v: %v", free, err)
			}
			l, ok, err := w.LeaseOf(ctx, p.ID)
			if err != nil {
				rt.Fatal(err)
			}
			if want := holder >= 0 && until.After(w.Now()); ok != want || (ok && (l.Name != people[holder].Name || !l.Until.Equal(until))) {
				rt.Fatalf("want %d until %s, have %v %+v", holder, until, ok, l)
			}
		}
	})
}

func TestTheWorkQueueIsInOrderOfUrgency(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	at := func(d time.Duration) *time.Time { v := storetest.Epoch.Add(d); return &v }
	seed := func(name string, amount int64, currency string, since time.Duration, review ...string) store.Payment {
		return r.db.SeedPayment(t, func(p *store.Payment) {
			p.OrderRef, p.Amount, p.Currency, p.UnknownSince = name, amount, currency, at(since)
			p.NeedsReview = append([]string{}, review...)
		})
	}
	seed("49 euros, young", 4900, "EUR", 2*time.Hour)
	mine := seed("49 euros, old", 4900, "EUR", time.Minute)
	seed("5000 yen", 5000, "JPY", time.Minute)
	seed("50 dinars", 50_000, "KWD", time.Minute, store.ReviewContradiction)
	seed("1 euro, aged", 100, "EUR", 0, store.ReviewAged)
	r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Status = "fine", store.Succeeded })
	me := uuid.Must(uuid.NewV7())
	r.db.Exec(t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1, 'o@example.org', 'Olena', 'operator', 'none', now())`, me)
	r.db.Exec(t, `INSERT INTO leases VALUES ($1, $2, 'Olena', $3, $4)`, "payment:"+mine.ID.String(), me, r.Now(), r.Now().Add(time.Minute))

	orders := func(f store.AnswerFilter) []string {
		list, total, err := r.WorkQueue(ctx, f, 10)
		require.NoError(t, err)
		require.Len(t, list, total)
		var out []string
		for _, w := range list {
			out = append(out, w.Payment.OrderRef)
			require.Equal(t, w.Payment.ID == mine.ID, w.Lease != nil)
		}
		return out
	}
	require.Equal(t, []string{"1 euro, aged", "5000 yen", "50 dinars", "49 euros, old", "49 euros, young"}, orders(store.AnswerFilter{}))
	require.Equal(t, []string{"1 euro, aged"}, orders(store.AnswerFilter{Aged: true}))
	require.Equal(t, []string{"50 dinars"}, orders(store.AnswerFilter{Reason: store.ReviewContradiction}))
	require.Equal(t, []string{"49 euros, old"}, orders(store.AnswerFilter{Lease: store.LeaseMine, Me: me}))
	require.Len(t, orders(store.AnswerFilter{Lease: store.LeaseNone, Reason: "unknown"}), 4)
	require.Empty(t, orders(store.AnswerFilter{Provider: "elsewhere"}))
}

func TestTheQueueSizesAmountsByISODecimals(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	for _, code := range []string{"EUR", "JPY", "KWD", "CLF", "UYW", "UYI", "ISK", "TND", "HUF", "XOF", "MRU"} {
		exp, ok := provider.Exponent(code)
		require.True(t, ok)
		want := int64(1)
		for range 4 - exp {
			want *= 10
		}
		var got int64
		require.NoError(t, r.db.Pool.QueryRow(context.Background(), `SELECT major_size(1, $1)`, code).Scan(&got))
		require.Equal(t, want, got, code)
	}
}

// The order of urgency is an index of its own: the queue is not sorted, however large.
func TestTheWorkQueueIsReadInItsOrder(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	r.db.Exec(t, `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency, status, created_at, updated_at)
		SELECT gen_random_uuid(), 'test', n::text, '', 'o' || n, 'atlas', n, 'EUR', CASE WHEN n % 10 = 0 THEN 'unknown' ELSE 'succeeded' END, now(), now()
		FROM generate_series(1, 20000) n`)
	r.db.Exec(t, `ANALYZE payments`)
	rows, err := r.db.Pool.Query(ctx, `EXPLAIN SELECT id FROM payments WHERE (status = 'unknown' OR needs_review <> '{}')
		ORDER BY (needs_review @> '{aged}') DESC, major_size(amount, currency) DESC, coalesce(unknown_since, created_at), id LIMIT 200`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.Contains(t, plan, "payments_answer")
	require.NotContains(t, plan, "Sort")
}
