package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs this package reads.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeReadOnly      = "25006" // also of a server that takes no writes
	codeText          = "22P02" // how orFail fails: its text is no number
)

const (
	txTries       = 4 // the first and three more
	detachedLimit = 10 * time.Second
	channel       = "fusebox" // of pg_notify
)

// Topics of Notify.
const (
	TopicPayments  = "payments"
	TopicWebhooks  = "webhooks"
	TopicProviders = "providers"
	TopicAlerts    = "alerts"
	TopicRuns      = "runs"
	TopicWallets   = "wallets"
	TopicBulks     = "bulks"
)

// InTx runs fn in a transaction and commits if it returns nil. On a serialization
// failure, deadlock or lock timeout (40001, 40P01, 55P03) everything is rolled back
// and fn runs again, up to 3 times more; fn must therefore not change anything
// outside tx. After any database error inside fn the transaction is dead (25P02):
// fn returns, or used a savepoint (tx.Begin). The rollback runs on a context that
// cannot be cancelled. Locks are taken in the order payment, attempt, wallet; fn
// never waits for a provider.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.again(ctx, func() error { return s.once(ctx, fn) })
}

// again does a transaction, and after contention does it again.
func (s *Store) again(ctx context.Context, once func() error) error {
	var err error
	for try := range txTries {
		if try > 0 {
			if waitErr := pause(ctx, try); waitErr != nil {
				return err
			}
		}
		if err = once(); !contention(err) {
			return err
		}
		s.log.DebugContext(ctx, "transaction retried", "try", try+1, "err", err)
	}
	return err
}

func (s *Store) once(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	raw, err := s.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("store: begin: %w", err)
	}
	tx := &tracked{Tx: raw, topics: map[string]struct{}{}}
	defer func() {
		// A no-op after a commit; on panic it still gives the connection back.
		ctx, cancel := Detached(ctx)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("store: commit: %w", err)
	}
	s.bell.mark(tx.topics, ringAfter)
	return nil
}

// contention reports whether err says that others were in the way and the same work
// may succeed when done again.
func contention(err error) bool {
	switch sqlState(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout:
		return true
	}
	return false
}

// IsContention reports whether err is contention that outlasted InTx's retries: the
// caller may ask its own caller to come back (503), never answer 4xx.
func IsContention(err error) bool { return contention(err) }

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// pause waits a growing, jittered moment before another try.
func pause(ctx context.Context, try int) error {
	d := time.Duration(10<<try) * time.Millisecond
	d += time.Duration(rand.Int64N(int64(d))) //nolint:gosec // jitter
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Detached returns a context for writing outcomes: not cancelled with ctx, with a
// timeout of its own (10 s).
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), detachedLimit)
}
