// Package jobs runs Fusebox's background work on River: charges, lookups, syncs,
// sweeps, webhook application and alerts, each provider in queues of its own.
package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

var errUnbuilt = errors.New("jobs: not built yet")

// Points of a charge where a test may kill the process, see Config.At.
const (
	PointBeforeMark  = "before_mark"
	PointAfterMark   = "after_mark"
	PointAfterSend   = "after_send"   // request written, answer not read
	PointAfterAnswer = "after_answer" // answer read, outcome not committed
	PointAfterCommit = "after_commit" // outcome committed, job not returned
)

// EventSource delivers breaker transitions; breaker.Redis implements it. Next blocks
// until events after the given position are there, or ctx ends.
type EventSource interface {
	Next(ctx context.Context, after string) (events []breaker.Event, position string, err error)
}

// AlertSink is a place alerts are posted to.
type AlertSink struct {
	Name string // unique, for the delivery log
	Kind string // generic | slack
	URL  string
}

// Config of a Runner.
type Config struct {
	Store     *store.Store
	Registry  *provider.Registry
	Providers []provider.Settings
	Breaker   breaker.Breaker
	Events    EventSource // may be nil
	Sinks     []AlertSink
	Only      []string // limit the bulkheads this process works; empty: all, and the default queue always
	Worker    string   // name of this process in attempts and evidence, e.g. host:pid
	// SweepEvery, UnknownAged: zero means 1 min, 15 min.
	SweepEvery  time.Duration
	UnknownAged time.Duration
	CallsKept   time.Duration // call_outcomes older than this are pruned (default 14 days)
	Log         *slog.Logger
	Now         func() time.Time
	// At is called at the Point… constants with the payment id; tests kill the process there.
	At func(point, paymentID string)
}

// Enqueuer implements store.Enqueuer with an insert-only River client.
type Enqueuer struct{}

// NewEnqueuer returns an enqueuer on pool.
func NewEnqueuer(pool *pgxpool.Pool, log *slog.Logger) (*Enqueuer, error) { return nil, errUnbuilt }

// Runner works the queues of one process.
type Runner struct{}

// New returns a runner; Start starts it.
func New(cfg Config) (*Runner, error) { return nil, errUnbuilt }

// Start begins working. ctx cancelled with a cause other than nil stops at once; use Stop.
func (r *Runner) Start(ctx context.Context) error { return errUnbuilt }

// Stop lets running jobs finish until ctx ends, then cancels them with ErrShutdown.
func (r *Runner) Stop(ctx context.Context) error { return errUnbuilt }

// Budget is what one provider can cost, printed at start.
type Budget struct {
	Provider          string
	Workers           int
	HangSeconds       float64 // workers × whole-answer deadline: worker seconds one hang can hold
	RequestsPerCharge int     // worst case HTTP requests one charge can cause
	RequestsPerLookup int
}

// CheckBudgets refuses settings in which connect < answer deadline < job timeout < rescue
// does not hold, naming the setting, and returns what to print.
func CheckBudgets(ps []provider.Settings, reg *provider.Registry) ([]Budget, error) {
	return nil, errUnbuilt
}
