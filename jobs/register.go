package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"fusebox/provider"
)

const (
	// defaultWorkers works sweeps, webhooks and alerts: database work, no providers.
	defaultWorkers = 32
	// queueRate is the number of jobs per second one process may start per queue. River
	// fetches at most once per cooldown, so the cooldown follows from the worker limit. It
	// is several times what a process gets done: a worker that is free waits for the next
	// fetch, and that must be little beside what a job takes.
	queueRate = 8000
	// hardStop is how long a stop waits for outcomes to be written after the calls in
	// flight were cancelled: store.Detached allows 10 s.
	hardStop = 12 * time.Second
)

// lane is one provider as the workers see it.
type lane struct {
	settings provider.Settings
	adapter  provider.Adapter
	charges  backlog
	lookups  backlog

	chargeSlots, lookupSlots slots
}

// asks reports whether the provider can be asked about a charge at all.
func (l *lane) asks() bool {
	return !l.settings.NoStatusAPI && l.adapter.Capabilities().CanAsk()
}

// keys reports whether the provider honours idempotency keys.
func (l *lane) keys() bool {
	return !l.settings.NoKeys && l.adapter.Capabilities().IdempotencyKeys
}

// keyLife is how long the provider remembers a key; 0 without keys.
func (l *lane) keyLife() time.Duration {
	if !l.keys() {
		return 0
	}
	return l.settings.KeyLife
}

// Runner works the queues of one process.
type Runner struct {
	cfg    Config
	lanes  map[string]*lane
	client *river.Client[pgx.Tx]

	stopping   context.Context // ends, with cause provider.ErrShutdown, when calls in flight have to stop
	stopNow    context.CancelCauseFunc
	background sync.WaitGroup
	stopWatch  context.CancelFunc
	waking     context.Context // of what a closing brings back; ends with Stop
	stopWaking context.CancelFunc
}

// New returns a runner; Start starts it. It refuses settings that CheckBudgets refuses.
func New(cfg Config) (*Runner, error) {
	cfg = cfg.withDefaults()
	if cfg.Store == nil || cfg.Registry == nil || cfg.Breaker == nil {
		return nil, errors.New("jobs: Config needs a Store, a Registry and a Breaker")
	}
	budgets, err := CheckBudgets(cfg.Providers, cfg.Registry)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	if err := checkSinks(cfg.Sinks); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	r := &Runner{cfg: cfg, lanes: make(map[string]*lane, len(cfg.Providers))}
	r.stopping, r.stopNow = context.WithCancelCause(context.Background())
	r.waking, r.stopWaking = context.WithCancel(context.Background())
	for _, s := range cfg.Providers {
		adapter, _ := cfg.Registry.Get(s.Name) // CheckBudgets refused unknown names
		r.lanes[s.Name] = &lane{settings: s, adapter: adapter}
	}
	for _, name := range cfg.Only {
		if _, ok := r.lanes[name]; !ok {
			return nil, fmt.Errorf("jobs: Only names %q, which is not configured", name)
		}
	}
	if r.client, err = river.NewClient(riverpgxv5.New(cfg.Store.Pool()), r.riverConfig(budgets)); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return r, nil
}

// riverConfig registers every kind and every periodic job in every process, whatever
// Only says: any process may become River's leader, and a leader discards stuck jobs
// of kinds it does not know and forgets periodic jobs it was not told of. Only the
// queues differ.
func (r *Runner) riverConfig(budgets []Budget) *river.Config {
	longest, rescue := time.Minute, time.Minute+rescueSlack
	for i, b := range budgets {
		if i == 0 || b.JobTimeout > longest {
			longest, rescue = b.JobTimeout, b.RescueAfter
		}
	}
	return &river.Config{
		Logger:               r.cfg.Log,
		Queues:               r.queues(),
		Workers:              r.workers(),
		PeriodicJobs:         r.periodic(),
		JobTimeout:           longest,
		RescueStuckJobsAfter: rescue,
		RetryPolicy:          retryPolicy{},
		Middleware:           []rivertype.Middleware{&jobLog{log: r.cfg.Log}},
		FetchCooldown:        cooldown(defaultWorkers),
		FetchPollInterval:    500 * time.Millisecond,
	}
}

// queues returns the bulkheads this process works, and the default queue always.
func (r *Runner) queues() map[string]river.QueueConfig {
	queues := map[string]river.QueueConfig{river.QueueDefault: queue(defaultWorkers, 500*time.Millisecond)}
	for name, l := range r.lanes {
		if len(r.cfg.Only) > 0 && !slices.Contains(r.cfg.Only, name) {
			continue
		}
		queues[chargeQueue(name)] = queue(l.settings.ChargeWorkers, 250*time.Millisecond)
		queues[statusQueue(name)] = queue(l.settings.StatusWorkers, 500*time.Millisecond)
	}
	return queues
}

func queue(workers int, poll time.Duration) river.QueueConfig {
	return river.QueueConfig{MaxWorkers: workers, FetchCooldown: cooldown(workers), FetchPollInterval: poll}
}

// cooldown lets a queue start queueRate jobs per second at any worker limit.
func cooldown(workers int) time.Duration {
	c := time.Duration(workers) * time.Second / queueRate
	return min(max(c, 5*time.Millisecond), 100*time.Millisecond)
}

func (r *Runner) workers() *river.Workers {
	w := river.NewWorkers()
	river.AddWorker(w, &chargeWorker{r: r})
	river.AddWorker(w, &reconcileWorker{r: r})
	river.AddWorker(w, &operationWorker{r: r})
	river.AddWorker(w, &operationLookupWorker{r: r})
	river.AddWorker(w, &syncWorker{r: r})
	river.AddWorker(w, &sweepWorker{r: r})
	river.AddWorker(w, &webhookWorker{r: r})
	river.AddWorker(w, newAlertWorker(r))
	river.AddWorker(w, &bulkWorker{r: r})
	return w
}

// periodic lists what the leader inserts by the clock. RunOnStart: the enqueuer keeps
// its schedule in memory only, so a new leader would otherwise wait a whole period.
func (r *Runner) periodic() []*river.PeriodicJob {
	jobs := []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(r.cfg.SweepEvery),
		func() (river.JobArgs, *river.InsertOpts) { return sweepArgs{}, nil },
		&river.PeriodicJobOpts{ID: kindSweep, RunOnStart: true})}
	for _, s := range r.cfg.Providers {
		if !r.lanes[s.Name].adapter.Capabilities().Listing {
			continue
		}
		args := syncArgs{Provider: s.Name, TriggeredBy: "schedule"}
		jobs = append(jobs, river.NewPeriodicJob(river.PeriodicInterval(s.SyncEvery),
			func() (river.JobArgs, *river.InsertOpts) { return args, nil },
			&river.PeriodicJobOpts{ID: kindSync + "_" + s.Name, RunOnStart: true}))
	}
	return jobs
}

// Start begins working. ctx cancelled with a cause other than nil stops at once; use Stop.
func (r *Runner) Start(ctx context.Context) error {
	// A cancelled ctx must reach the calls as our own shutdown, before River's own
	// cancellation does.
	context.AfterFunc(ctx, func() { r.stopNow(provider.ErrShutdown) })
	if err := r.client.Start(ctx); err != nil {
		return fmt.Errorf("jobs: start: %w", err)
	}
	if r.cfg.Events != nil {
		watch, cancel := context.WithCancel(ctx)
		r.stopWatch = cancel
		r.background.Go(func() { r.watchCircuits(watch) })
	}
	return nil
}

// Stop lets running jobs finish until ctx ends, then cancels them with
// provider.ErrShutdown and waits, for a bounded time, until their outcomes are
// written: a sent call ends unknown, an unsent one pending. It returns nil if
// everything was written.
func (r *Runner) Stop(ctx context.Context) error {
	if r.stopWatch != nil {
		r.stopWatch()
	}
	r.stopWaking()
	err := r.client.Stop(ctx)
	if err != nil {
		r.stopNow(provider.ErrShutdown)
		hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), hardStop)
		defer cancel()
		if err = r.client.StopAndCancel(hard); err != nil {
			err = fmt.Errorf("jobs: outcomes were not all written in time, the sweep will find them: %w", err)
		}
	}
	r.background.Wait()
	return err
}

// retryPolicy is the pause after a job's own error (the database was away, a bug):
// growing with the square of the tries, up to a minute. Provider trouble is never an error here.
type retryPolicy struct{}

// NextRetry implements river.ClientRetryPolicy.
func (retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	tries := max(len(job.Errors)+1, 1)
	return time.Now().Add(jitter(min(time.Duration(tries*tries)*time.Second, time.Minute)))
}
