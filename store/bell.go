package store

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
)

// bell sends the notifications of committed transactions, soon after and together.
// Inside a transaction NOTIFY would take a lock of the whole server until the commit
// is on disk, and every charge, webhook and lookup would commit one after another.
// What is lost if the process dies in between is a hint to look: consoles also look
// by themselves.
type bell struct {
	pool *pgxpool.Pool
	log  *slog.Logger

	mu    sync.Mutex
	dirty map[string]struct{}
	armed bool // a ring is on its way
}

const (
	ringAfter  = 25 * time.Millisecond // gathers the topics of a burst
	ringAgain  = time.Second           // after a ring that failed
	ringWithin = 5 * time.Second
)

// mark has the topics rung soon.
func (b *bell) mark(topics map[string]struct{}, in time.Duration) {
	if len(topics) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dirty == nil {
		b.dirty = map[string]struct{}{}
	}
	maps.Copy(b.dirty, topics)
	if !b.armed {
		b.armed = true
		time.AfterFunc(in, b.ring)
	}
}

// ring sends what is marked. Failing, it tries again until the pool is closed.
func (b *bell) ring() {
	b.mu.Lock()
	topics := b.dirty
	b.dirty, b.armed = nil, false
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), ringWithin)
	defer cancel()
	_, err := b.pool.Exec(ctx, `SELECT pg_notify($1, topic) FROM unnest($2::text[]) AS topic`, channel, slices.Sorted(maps.Keys(topics)))
	if err == nil || errors.Is(err, puddle.ErrClosedPool) {
		return
	}
	b.log.Debug("notifications delayed", "err", err)
	b.mark(topics, ringAgain)
}

// tracked is a transaction of InTx. It remembers the topics to ring after the commit.
type tracked struct {
	pgx.Tx
	topics map[string]struct{}
}

// Notify tells live consoles that a topic changed: payments, webhooks, providers,
// alerts, runs, wallets (pg_notify on channel "fusebox"). In a transaction of InTx they
// are told just after the commit, once however often it was called; in any other by
// Postgres at the commit.
func Notify(ctx context.Context, tx pgx.Tx, topic string) error {
	if t, ok := tx.(*tracked); ok {
		t.topics[topic] = struct{}{}
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, channel, topic)
	return wrap(err, "notify "+topic)
}
