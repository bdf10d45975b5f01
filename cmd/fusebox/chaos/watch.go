package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// idle is how long a transaction of ours may do nothing. A provider's answer takes up to
// 1.5 s here, so one that is open across a call stands out.
const idle = time.Second

// often is from how many transactions on, idle after the same statement, it is a finding.
// A call of a provider inside a transaction would hold dozens in every fault of a
// provider's; one by one a process is only kept waiting by a busy machine.
const often = 3

// every is the pause between two looks.
const every = 200 * time.Millisecond

// watch looks for transactions that wait for something outside the database. A process
// that is frozen, or whose wire to Postgres is disturbed, explains one.
type watch struct {
	w *world

	mu        sync.Mutex
	explained map[string]int       // by what is disturbed now
	until     map[string]time.Time // an explanation holds a little longer
	samples   int
	seen      map[string]bool
	after     map[string]int // by statement
}

func newWatch(w *world) *watch {
	return &watch{w: w, explained: map[string]int{}, until: map[string]time.Time{}, seen: map[string]bool{}, after: map[string]int{}}
}

// explains notes that a fault is on, which may leave transactions idle.
func (x *watch) explains(f Fault, on bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if on {
		x.explained[string(f)]++
		return
	}
	x.explained[string(f)]--
	x.until[string(f)] = time.Now().Add(3 * time.Second)
}

// stalls are the faults that stop a process, or its way to Postgres, in mid-transaction.
var stalls = []Fault{FreezeWork, PostgresRestart, PostgresCut, PostgresLatency, PostgresHalfOpen, KillServe, KillWork}

func (x *watch) excused() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Now().Before(x.until["busy"]) {
		return true
	}
	for _, f := range stalls {
		if x.explained[string(f)] > 0 || time.Now().Before(x.until[string(f)]) {
			return true
		}
	}
	return false
}

// run samples until ctx ends.
func (x *watch) run(ctx context.Context) {
	suspects := map[string]bool{} // idle in the sample before
	last := time.Now()
	for pause(ctx, every) {
		found, err := x.sample(ctx)
		// A machine that keeps this loop waiting keeps the others waiting too, between two
		// statements of a transaction.
		if time.Since(last) > 2*every {
			x.mu.Lock()
			x.until["busy"] = time.Now().Add(2 * idle)
			x.mu.Unlock()
		}
		last = time.Now()
		if err != nil || x.excused() {
			suspects = map[string]bool{}
			continue
		}
		x.mu.Lock()
		x.samples++
		x.mu.Unlock()
		again := map[string]bool{}
		for key, t := range found {
			if suspects[key] && !x.seen[key] {
				x.seen[key] = true
				x.notes(t)
			}
			again[key] = true
		}
		suspects = again
	}
}

// notes counts a transaction that was seen idle twice.
func (x *watch) notes(t idling) {
	x.w.log.Warn("a transaction was open and idle", "what", t.line)
	x.mu.Lock()
	x.after[t.statement]++
	n := x.after[t.statement]
	x.mu.Unlock()
	if n == often {
		x.w.finds("%d transactions were open and idle after the same statement, the last: %s", n, t.line)
	}
}

// idling is a transaction that does nothing.
type idling struct{ statement, line string }

// sample returns the transactions that have been idle too long, by process and start.
func (x *watch) sample(ctx context.Context) (map[string]idling, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	rows, err := x.w.pool.Query(ctx, `
		SELECT pid::text || ' ' || xact_start::text, application_name, extract(epoch FROM now() - state_change)::float8, left(query, 200)
		FROM pg_stat_activity WHERE application_name LIKE 'fusebox-%' AND state LIKE 'idle in transaction%'
		AND state_change < clock_timestamp() - $1::interval`, idle.String())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]idling{}
	for rows.Next() {
		var key, name, query string
		var seconds float64
		if err := rows.Scan(&key, &name, &seconds, &query); err != nil {
			return nil, err
		}
		out[key] = idling{query, fmt.Sprintf("%s, %.1f s after %q", name, seconds, query)}
	}
	return out, rows.Err()
}
