package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/cmd/fusebox/chaos"
	"fusebox/store/localpg"
	"fusebox/store/storetest"
)

// pair is a PostgreSQL primary and the standby that every commit waits for.
type pair struct {
	primary, standby *localpg.Server
	way              *chaos.Proxy // the clients' way to the primary
	dsn              string       // names both
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	var err error
	p.primary, err = localpg.Start(t.Context(), localpg.Options{TCP: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.primary.Stop() })
	p.standby, err = p.primary.Standby(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.standby.Stop() })
	p.way, err = chaos.NewProxy(p.primary.Addr())
	require.NoError(t, err)
	t.Cleanup(p.way.Close)
	p.dsn = strings.Replace(p.primary.PairDSN(p.standby, "postgres"), p.primary.Addr(), p.way.Addr, 1)
	return p
}

// TestPostgresStandbyPromotedMidRun loses the primary under load, killed or cut off, and
// promotes its synchronous standby. No process is restarted; what was acknowledged is
// there, what was not is once there after the client asked again, nobody is charged twice.
func TestPostgresStandbyPromotedMidRun(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *pair){
		"killed":   func(t *testing.T, p *pair) { require.NoError(t, p.primary.Kill()) },
		"vanished": func(t *testing.T, p *pair) { require.NoError(t, p.way.Silence()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			w := newWorld(t, place{db: storetest.NewOn(t, p.dsn)}, "steady")
			w.env = append(w.env, "FUSEBOX_LOG_LEVEL=warn")
			w.serve()
			w.work("FUSEBOX_WORKER=one")
			w.work("FUSEBOX_WORKER=two")
			person := w.reader()
			live := person.watch()
			till := w.buy("steady", 8)
			till.await(20, "payments before")
			require.Positive(t, live.events.Load())

			lose(t, p)
			till.awaitRefused(3)
			require.NoError(t, p.standby.Promote(t.Context()))
			w.db.Pool.Reset() // the test's own
			before := till.accepted()
			t.Logf("%d payments accepted, %d requests refused before the promotion", before, till.refused.Load())
			began, heard := time.Now(), listeners{}
			till.await(before+40, "payments after")
			t.Logf("40 more accepted %s after the promotion", time.Since(began).Round(100*time.Millisecond))
			w.eventually(time.Minute, "everyone listens to the new primary", func() bool { return heard.count(w) >= 3 })
			t.Logf("all listen %s after the promotion", time.Since(began).Round(100*time.Millisecond))
			seen := live.events.Load()
			w.eventually(time.Minute, "live updates", func() bool { return live.events.Load() > seen+2 })
			require.Contains(t, person.get("/payments"), "steady", "still signed in")
			w.settlesAll(till.stop())
			t.Logf("settled %s after the promotion", time.Since(began).Round(100*time.Millisecond))
			p.way.Close() // what cleans up would wait for the silent one
		})
	}
}

// TestPostgresStandbyAwayNothingIsAcknowledged: while commits wait for a standby that is
// away, a payment whose wait was broken off is seen on the primary. It is not acknowledged
// to a client that asks again; after a failover that lost it the client gets it made, once.
func TestPostgresStandbyAwayNothingIsAcknowledged(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	w := newWorld(t, place{db: storetest.NewOn(t, p.dsn)}, "steady")
	w.env = append(w.env, "FUSEBOX_LOG_LEVEL=warn")
	w.serve() // and no worker: one that waits for its commit would keep others from theirs
	require.NoError(t, p.standby.Kill())
	key := uuid.NewString()
	again := func() int {
		status, _ := w.postPayment(key, "order "+key, "steady")
		return status
	}
	refused := func() { require.NotEqual(t, 2, again()/100, "acknowledged, and on one machine only") }
	refused()
	w.eventually(time.Minute, "the payment is seen", func() bool {
		refused()
		return w.scalar(`SELECT count(*) FROM payments WHERE idempotency_key = $1`, key) == 1
	})
	refused()

	require.NoError(t, p.primary.Kill())
	require.NoError(t, p.standby.Restart(t.Context()))
	require.NoError(t, p.standby.Promote(t.Context()))
	w.db.Pool.Reset() // the test's own
	require.Zero(t, w.scalar(`SELECT count(*) FROM payments WHERE idempotency_key = $1`, key), "lost with the primary")
	w.eventually(time.Minute, "accepted", func() bool { return again()/100 == 2 })
	w.work()
	w.settlesAll([]uuid.UUID{w.onlyPayment("order " + key)})
}

// onlyPayment is the one payment of an order.
func (w *world) onlyPayment(order string) uuid.UUID {
	w.t.Helper()
	rows, err := w.db.Pool.Query(w.t.Context(), `SELECT id FROM payments WHERE order_ref = $1`, order)
	require.NoError(w.t, err)
	id, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[uuid.UUID])
	require.NoError(w.t, err)
	return id
}

// listeners are the sessions of a database that listen for notifications: those of each
// worker's River, and of each console's live updates. Postgres tells others' channels to
// nobody, so they are known by what a listening session says last, again and again.
type listeners map[int]int

// count looks once more, and returns how many were seen to listen every time of many.
func (l listeners) count(w *world) (n int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	rows, err := w.db.Pool.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database()
		AND (application_name = 'fusebox-live' OR application_name = 'fusebox-work' AND query ~ '^(LISTEN|-- ping)')`)
	require.NoError(w.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(w.t, err)
	for pid := range l {
		if !slices.Contains(list, pid) {
			delete(l, pid)
		}
	}
	for _, pid := range list {
		if l[pid]++; l[pid] >= 10 {
			n++
		}
	}
	return n
}

// till is a shop that sells without pause. Its rule is the API's: without a 2xx ask
// again with the same key.
type till struct {
	w       *world
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	refused atomic.Int64

	mu   sync.Mutex
	made map[string]string // key → payment
}

// buy begins to sell through the API, with that many customers at a time.
func (w *world) buy(name string, customers int) *till {
	ctx, cancel := context.WithCancel(w.t.Context())
	s := &till{w: w, cancel: cancel, made: map[string]string{}}
	for range customers {
		s.wg.Go(func() {
			for ctx.Err() == nil {
				s.sell(name)
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	w.t.Cleanup(func() { s.cancel(); s.wg.Wait() })
	return s
}

func (s *till) sell(name string) {
	key := uuid.NewString()
	for range 600 {
		status, body := s.w.postPayment(key, "order "+key, name)
		if status/100 == 2 {
			var p struct{ ID string }
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				s.w.t.Errorf("%d: %s", status, body)
				return
			}
			s.mu.Lock()
			s.made[key] = p.ID
			s.mu.Unlock()
			return
		}
		if status != http.StatusServiceUnavailable && status != http.StatusConflict && status != 0 {
			s.w.t.Errorf("refused with %d: %s", status, body)
		}
		s.refused.Add(1)
		time.Sleep(200 * time.Millisecond)
	}
	s.w.t.Errorf("payment %s was never accepted", key)
}

func (s *till) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.made)
}

func (s *till) await(n int, what string) {
	s.w.t.Helper()
	eventuallyIn(s.w.t, 2*time.Minute, func() string { return fmt.Sprintf("%d %s, %d refused", n, what, s.refused.Load()) },
		func() bool { return s.accepted() >= n })
}

func (s *till) awaitRefused(n int64) {
	s.w.t.Helper()
	s.w.eventually(time.Minute, "the loss is felt", func() bool { return s.refused.Load() >= n })
}

// stop ends the selling, once everything begun is accepted, and returns the payments.
func (s *till) stop() []uuid.UUID {
	s.w.t.Helper()
	s.cancel()
	s.wg.Wait()
	var out []uuid.UUID
	for _, id := range s.made {
		out = append(out, uuid.MustParse(id))
	}
	return out
}

// settlesAll checks that the books hold exactly these payments, and that each is paid and
// charged once.
func (w *world) settlesAll(list []uuid.UUID) {
	w.t.Helper()
	require.Equal(w.t, len(list), w.scalar(`SELECT count(*) FROM payments WHERE id = ANY($1)`, list), "what was acknowledged is there")
	require.Equal(w.t, len(list), w.scalar(`SELECT count(*) FROM payments`), "a repeated request makes no second payment")
	left := func() int { return w.scalar(`SELECT count(*) FROM payments WHERE status <> 'succeeded'`) }
	eventuallyIn(w.t, 3*time.Minute, func() string {
		return fmt.Sprintf("everything is settled: %v", w.rows(`SELECT id, status, status_reason FROM payments WHERE status <> 'succeeded' LIMIT 5`))
	}, func() bool { return left() == 0 })
	charged := 0
	for _, p := range w.providers {
		l, err := readLedgerURL(context.Background(), p.settings.LedgerURL)
		require.NoError(w.t, err)
		for ref, charges := range l.charges {
			require.Len(w.t, charges, 1, ref)
			charged++
		}
	}
	require.Equal(w.t, len(list), charged)
	w.clean()
}

// watching is an open stream of live updates.
type watching struct{ events atomic.Int64 }

// watch opens the stream that a browser's page holds, and opens it again like one.
func (r reader) watch() *watching {
	v := &watching{}
	client := &http.Client{Jar: r.client.Jar}
	ctx, cancel := context.WithCancel(r.w.t.Context())
	done := make(chan struct{})
	r.w.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.w.url+"/live", nil)
			if err != nil {
				return
			}
			if resp, err := client.Do(req); err == nil {
				v.read(resp)
			}
			sleep(ctx, time.Second)
		}
	}()
	return v
}

func (v *watching) read(resp *http.Response) {
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), `"payments"`) {
			v.events.Add(1)
		}
	}
}
