package chaos

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Report is what a run did and found. Findings is everything wrong, one line each, from
// the other lists too: empty is the proof asked for.
type Report struct {
	Seed     uint64   `json:"seed"`
	For      string   `json:"for"`
	CPUs     int      `json:"cpus"`
	Replay   string   `json:"replay"`
	Schedule []Event  `json:"schedule"`
	Findings []string `json:"findings"`

	Operations      int            `json:"operations"`
	OperationsBy    map[string]int `json:"operations_by_kind"`
	Faults          int            `json:"faults"`
	FaultsBy        map[Fault]int  `json:"faults_by_kind"`
	AskedAgain      int            `json:"requests_repeated"`
	NeverAnswered   int            `json:"requests_never_answered"`
	RefusedBy       map[int]int    `json:"refusals_by_status"`
	SkippedFull     int            `json:"operations_skipped"` // no client was free
	EventsRepeated  int64          `json:"events_repeated"`
	EventsHeld      int64          `json:"events_held_back"`
	ProcessStarts   map[string]int `json:"process_starts"`
	SecondsToSettle float64        `json:"seconds_to_settle"`
	Unsettled       []string       `json:"unsettled"`
	IdleSamples     int            `json:"idle_transaction_samples"`
	IdleSeen        int            `json:"idle_transactions_seen"` // one by one: a busy machine; many after one statement: a finding
	JobsDiscarded   []string       `json:"jobs_discarded"`         // kinds of work the queue gave up on; the sweep trusts rows

	Invariants map[string]Check `json:"invariants"`
	Verify     map[string]any   `json:"verify"`
}

// Series is several runs, with seeds that follow each other.
type Series struct {
	Took       string        `json:"took"`
	Operations int           `json:"operations"`
	Faults     int           `json:"faults"`
	FaultsBy   map[Fault]int `json:"faults_by_kind"`
	Findings   []string      `json:"findings"`
	Runs       []Report      `json:"runs"`
}

// long enough that every fault should have come about once a run.
const long = 2 * time.Minute

// RunSeries makes runs one after another and goes on after one with findings.
func RunSeries(ctx context.Context, o Options, runs int) (Series, error) {
	began := time.Now()
	all := Series{FaultsBy: map[Fault]int{}, Findings: []string{}}
	for range runs {
		r, err := Run(ctx, o)
		if err != nil {
			return all, fmt.Errorf("seed %d: %w", o.Seed, err)
		}
		all.Runs = append(all.Runs, r)
		all.Operations += r.Operations
		all.Faults += r.Faults
		for f, n := range r.FaultsBy {
			all.FaultsBy[f] += n
		}
		for _, line := range r.Findings {
			all.Findings = append(all.Findings, fmt.Sprintf("seed %d: %s", o.Seed, line))
		}
		o.Seed++
	}
	for _, f := range Faults() {
		if o.For >= long && all.FaultsBy[f] < min(runs, 2) {
			all.Findings = append(all.Findings, fmt.Sprintf("%s happened %d times", f, all.FaultsBy[f]))
		}
	}
	all.Took = time.Since(began).Round(time.Second).String()
	return all, nil
}

// Check is one invariant: over how many rows it was checked, and where it is broken.
type Check struct {
	Checked int      `json:"checked"`
	Broken  []string `json:"broken"`
}

// Run starts the system, breaks it by the schedule of the seed, and audits what is left.
// An error means that the run itself did not work; what it found is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer w.close()
	r := Report{
		Seed: o.Seed, For: o.For.String(), Replay: fmt.Sprintf("fusebox chaos --for %s --seed %d --rate %g", o.For, o.Seed, o.Rate), CPUs: runtime.NumCPU(), Schedule: Schedule(o.Seed, o.lead(), o.For),
		FaultsBy: map[Fault]int{}, Unsettled: []string{}, Invariants: map[string]Check{}, Findings: []string{},
	}
	t, x := newTraffic(w), newWatch(w)
	if err := t.open(ctx); err != nil {
		return r, err
	}
	w.log.Info("everything runs", "seed", o.Seed, "for", o.For, "faults", len(r.Schedule))
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { x.run(watching) })
	w.storm(ctx, t, x, &r)
	err = w.settle(ctx, t, &r)
	unwatch()
	watcher.Wait()
	if err == nil {
		err = w.audit(ctx, t, &r)
	}
	r.IdleSamples, r.IdleSeen = x.samples, len(x.seen)
	w.sum(t, &r)
	return r, err
}

// storm is the time of traffic and faults.
func (w *world) storm(ctx context.Context, t *traffic, x *watch, r *Report) {
	busy, calm := context.WithTimeout(ctx, w.o.For)
	defer calm()
	var around sync.WaitGroup
	around.Go(func() { t.run(busy) })
	around.Go(func() { t.people(busy) })
	var mu sync.Mutex
	w.faults(busy, r.Schedule, x, func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		r.FaultsBy[e.Fault]++
		r.Faults++
	})
	around.Wait()
}

// settle ends all faults and waits until nothing is open, or names what is.
func (w *world) settle(ctx context.Context, t *traffic, r *Report) error {
	began := time.Now()
	w.log.Info("calm; waiting until everything is settled")
	if err := w.calm(ctx); err != nil {
		return err
	}
	deciding, end := context.WithCancel(ctx)
	var decider sync.WaitGroup
	decider.Go(func() { t.decideAll(deciding) })
	defer func() { end(); decider.Wait() }()
	told := time.Now()
	for {
		open, err := w.open(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err == nil && len(open) == 0:
			r.SecondsToSettle = time.Since(began).Seconds()
			return nil
		case time.Since(began) > w.o.Settle:
			r.SecondsToSettle = time.Since(began).Seconds()
			r.Unsettled = open
			w.explain(ctx)
			return err
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			w.log.Info("not settled yet", "open", len(open), "for_example", open[0])
		}
		pause(ctx, 250*time.Millisecond)
	}
}

// explain logs the timeline of one payment that is open, to see what it waits for.
func (w *world) explain(ctx context.Context) {
	lines, err := w.lines(ctx, `
		SELECT format('%s %s %s %s>%s %s %s', to_char(at, 'MI:SS.MS'), kind, source, from_status, to_status, reason, left(evidence::text, 200)) FROM (
			SELECT * FROM payment_events WHERE payment_id = (SELECT id FROM payments WHERE status NOT IN ('succeeded', 'failed') ORDER BY id LIMIT 1)
			ORDER BY id DESC LIMIT 30) e ORDER BY id`)
	for _, line := range lines {
		w.log.Info("open payment", "event", line)
	}
	if err != nil {
		w.log.Warn("open payment", "error", err)
	}
}

// open lists what is not final: payments, what is done to charges, and events that were
// received and not applied.
func (w *world) open(ctx context.Context) (list []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return w.lines(ctx, `
		SELECT format('payment %s at %s is %s (%s), review %s, next check %s (%s)', id, provider, status, status_reason, needs_review, next_check_at, next_check_why)
		FROM payments WHERE status NOT IN ('succeeded', 'failed')
		UNION ALL
		SELECT format('%s %s at %s is %s (%s), review %s, next check %s (%s)', kind, id, provider, status, status_reason, needs_review, next_check_at, next_check_why)
		FROM operations WHERE status NOT IN ('succeeded', 'failed')
		UNION ALL
		SELECT format('event %s of %s was received and not applied, %s tries', id, provider, tries) FROM webhook_events WHERE state = 'received'`)
}

// sum fills in the counts and gathers what is wrong.
func (w *world) sum(t *traffic, r *Report) {
	r.OperationsBy = t.client.counts()
	r.OperationsBy["webhook_deliveries"] = int(w.relay.delivered.Load())
	for _, n := range r.OperationsBy {
		r.Operations += n
	}
	r.AskedAgain, r.NeverAnswered, r.RefusedBy, r.SkippedFull = t.client.again, t.client.gave, t.client.codes, t.skipped
	r.EventsRepeated, r.EventsHeld = w.relay.repeated.Load(), w.relay.held.Load()
	r.ProcessStarts = map[string]int{"redis": w.redis.starts}
	for name, u := range w.units {
		r.ProcessStarts[name] = u.starts
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.finds("the run", w.findings)
	r.finds("a log", w.crashes())
	r.finds("not settled", r.Unsettled)
	for _, name := range slices.Sorted(maps.Keys(r.Invariants)) {
		r.finds(name, r.Invariants[name].Broken)
	}
	r.finds("verify", verified(r.Verify))
}

// finds adds what is wrong. A few lines of a kind say enough; all are in the kind's own list.
func (r *Report) finds(kind string, lines []string) {
	const enough = 20
	for i, line := range lines {
		if i == enough {
			r.Findings = append(r.Findings, fmt.Sprintf("%s: and %d more", kind, len(lines)-enough))
			return
		}
		r.Findings = append(r.Findings, kind+": "+line)
	}
}

// verified are the findings of the program's own audit.
func verified(report map[string]any) (out []string) {
	if report == nil {
		return nil
	}
	for _, list := range []string{"double_charged", "lost", "mismatched", "wallet_drift", "stuck", "unaudited", "refund_findings", "theirs_only", "refunds_theirs_only"} {
		lines, _ := report[list].([]any)
		for _, line := range lines {
			out = append(out, fmt.Sprintf("%s: %v", list, line))
		}
	}
	if n, _ := report["max_wire_sends_per_attempt"].(float64); n > 1 {
		out = append(out, fmt.Sprintf("an attempt was sent %v times", n))
	}
	return out
}
