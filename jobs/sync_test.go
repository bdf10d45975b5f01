package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// pages scripts a list of n pages with one stranger each, and remembers the queries.
type pages struct {
	mu      sync.Mutex
	total   int
	fail    func(call int) error
	calls   int
	cursors []string
}

func (p *pages) list(q provider.ListQuery) (provider.Page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.fail != nil {
		if err := p.fail(p.calls); err != nil {
			return provider.Page{Health: provider.HealthFail}, err
		}
	}
	p.cursors = append(p.cursors, q.Cursor)
	at := 0
	if q.Cursor != "" {
		if _, err := fmt.Sscanf(q.Cursor, "c%d", &at); err != nil {
			return provider.Page{}, err
		}
	}
	page := provider.Page{Health: provider.HealthOK, Objects: []provider.Object{{
		ID: fmt.Sprintf("pay_stranger_%d", at), Status: "succeeded", Outcome: provider.Succeeded,
		Money: provider.Money{Amount: 100, Currency: "EUR"}, CreatedAt: q.From.Add(time.Second), Raw: []byte(`{}`),
	}}}
	if at+1 < p.total {
		page.Next = fmt.Sprintf("c%d", at+1)
	}
	return page, nil
}

func (p *pages) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.cursors...)
}

func (b *bench) runState(name string) string {
	return b.text(`SELECT state FROM reconciliation_runs WHERE provider = $1 ORDER BY started_at DESC LIMIT 1`, name)
}

func (b *bench) runComplete(name string) {
	b.t.Helper()
	b.eventually("run complete", func() (bool, string) { s := b.runState(name); return s == "complete", s })
}

// The sync runs at start, pages to the end, and lists objects we never made without
// inventing payments for them.
func TestASyncPagesToTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	p := &pages{total: 3}
	b.fakes["atlas"].list = p.list
	b.start("w1", nil)
	b.runComplete("atlas")
	require.Equal(t, []string{"", "c1", "c2"}, p.seen())
	require.Equal(t, 3, b.count(`SELECT theirs_only FROM reconciliation_runs`))
	require.Equal(t, 0, b.count(`SELECT count(*) FROM payments`))
	require.Equal(t, 3, b.count(`SELECT count(*) FROM call_outcomes WHERE class = 'status' AND outcome = 'page'`))
}

// Sync is evidence like any other: it settles an unknown payment.
func TestASyncSettlesAnUnknownPayment(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.ReconcilePauses = []time.Duration{time.Hour}
	b := newBench(t, s)
	f := b.fakes["atlas"].on(cut)
	f.list = func(provider.ListQuery) (provider.Page, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		page := provider.Page{Health: provider.HealthOK}
		for _, objects := range f.ledger {
			page.Objects = append(page.Objects, objects...)
		}
		return page, nil
	}
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Unknown)
	b.idle(kindSync) // the one at start
	b.inTx(func(ctx context.Context, tx pgxTx) error { return b.enqueuer.Sync(ctx, tx, "atlas", "user:u1") })
	p = b.becomes(p.ID, store.Succeeded)
	require.Equal(t, 1, b.ledger(p))
	_, lookups, _ := f.counts()
	require.Zero(t, lookups)
}

// Ten exceptions pause the run; afterwards the same cursor goes on.
func TestASyncPausesAfterTenExceptionsAndResumesAtItsCursor(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.SyncPause = 2 * time.Second
	b := newBench(t, s)
	p := &pages{total: 3, fail: func(call int) error {
		if call > 1 && call <= 11 {
			return errors.New("http_503")
		}
		return nil
	}}
	b.fakes["atlas"].list = p.list
	b.start("w1", nil)
	b.eventually("paused", func() (bool, string) { s := b.runState("atlas"); return s == runPaused, s })
	_, _, calls := b.fakes["atlas"].counts()
	require.Equal(t, 11, calls)
	require.Equal(t, []string{""}, p.seen())
	b.runComplete("atlas")
	require.Equal(t, []string{"", "c1", "c2"}, p.seen(), "no page twice, none skipped")
	require.Equal(t, 1, b.count(`SELECT count(*) FROM reconciliation_runs`))
}

// An open circuit snoozes the sync: no call, no exception.
func TestASyncWaitsForAnOpenCircuit(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.circuits.open("atlas", classStatus, 50*time.Millisecond)
	p := &pages{total: 1}
	b.fakes["atlas"].list = p.list
	b.start("w1", nil)
	b.eventually("denied", func() (bool, string) {
		n := b.circuits.denied("atlas", classStatus)
		return n >= 2, fmt.Sprint(n)
	})
	require.Empty(t, p.seen())
	require.Equal(t, 0, b.count(`SELECT exceptions FROM reconciliation_runs`))
	b.circuits.shut("atlas", classStatus)
	b.runComplete("atlas")
}
