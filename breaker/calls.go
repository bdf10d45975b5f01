package breaker

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxTrip is how many operations share a trip to Redis at most: its time there stays
// well under a millisecond.
const maxTrip = 256

// opKind tells operations apart for the counts the script's common case works with.
type opKind int

const (
	asks    opKind = iota // a permit
	good                  // an OK that was neither slow nor a probe
	neutral               // a Neutral of the same kind
	special               // any other report
)

// operation is one permit or report on its way to Redis.
type operation struct {
	kind  opKind
	epoch string // a report's; "" for a permit
	line  string // as calls_fast.lua describes it

	code    string
	retry   int64  // microseconds
	decided string // the circuit's epoch after it
	err     error
	done    chan struct{} // nil while it travels at once
}

func askFor(token string) *operation {
	return &operation{kind: asks, line: "P\t" + token + "\n"}
}

func tell(f finished) *operation {
	o := &operation{kind: special, epoch: f.epoch}
	if !f.slow && !f.probe {
		switch f.verdict {
		case OK:
			o.kind = good
		case Neutral:
			o.kind = neutral
		}
	}
	o.line = "R\t" + f.token + "\t" + f.epoch + "\t" + string(f.verdict) + "\t" + flag(f.slow) + "\t" + flag(f.probe) + "\t" + f.entry + "\n"
	return o
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// lineUp holds the operations of one circuit that came while a trip was under way.
type lineUp struct {
	mu      sync.Mutex
	waiting []*operation
	flying  bool
}

// perform carries out one operation: at once when no trip of this circuit is under way,
// with the next trip otherwise. So a lone caller waits for nobody, a crowd costs Redis
// little more than one call, and nobody makes more than one round trip. It returns an
// error when Redis did not answer in time; whether the operation was carried out is
// then unknown.
func (r *Redis) perform(ctx context.Context, e *shared, o *operation) error {
	q := &e.line
	q.mu.Lock()
	if q.flying {
		o.done = make(chan struct{})
		q.waiting = append(q.waiting, o)
		q.mu.Unlock()
		return r.wait(ctx, e, o)
	}
	q.flying = true
	q.mu.Unlock()
	r.fly(ctx, e, []*operation{o})
	if !q.idle() {
		go r.carryOn(e)
	}
	return o.err
}

// wait waits for an operation in line, as long as a trip may take. The caller's
// cancellation is not Redis's failure and ends nothing.
func (r *Redis) wait(ctx context.Context, e *shared, o *operation) error {
	timer := time.NewTimer(r.store.timeout)
	defer timer.Stop()
	select {
	case <-o.done:
		return o.err
	case <-timer.C:
		e.line.leave(o)
		r.lost(ctx, e, context.DeadlineExceeded)
		return context.DeadlineExceeded
	}
}

// carryOn makes trips until nobody waits.
func (r *Redis) carryOn(e *shared) {
	for {
		// Those the last trip answered come back within a moment: let them board.
		runtime.Gosched()
		batch := e.line.board()
		if len(batch) == 0 {
			return
		}
		r.fly(context.Background(), e, batch)
		for _, o := range batch {
			close(o.done)
		}
	}
}

// idle ends the flight if nobody waits.
func (q *lineUp) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying = len(q.waiting) > 0
	return !q.flying
}

// board takes the operations of the next trip; none ends the flight.
func (q *lineUp) board() []*operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting[:min(len(q.waiting), maxTrip):min(len(q.waiting), maxTrip)]
	q.waiting = q.waiting[len(batch):]
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.flying = len(batch) > 0
	return batch
}

// dismiss takes everybody out of the line.
func (q *lineUp) dismiss() []*operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	gone := q.waiting
	q.waiting = nil
	return gone
}

// leave takes an operation whose caller gave up out of the line: a permit nobody waits
// for must not hold a probe's slot.
func (q *lineUp) leave(o *operation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == o {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return
		}
	}
}

// fly makes one trip with a batch and fills its answers in.
func (r *Redis) fly(ctx context.Context, e *shared, batch []*operation) {
	err := r.trip(ctx, e, batch)
	if err == nil {
		return
	}
	r.lost(ctx, e, err)
	for _, o := range batch {
		o.err = err
	}
	// The others decide alone at once: one timeout is enough.
	for _, o := range e.line.dismiss() {
		o.err = err
		close(o.done)
	}
}

func (r *Redis) trip(ctx context.Context, e *shared, batch []*operation) error {
	seen, view := e.remembered()
	list, err := r.store.run(ctx, r.scripts.calls, e.keys, r.tripArgs(e, batch, seen, view))
	if err != nil {
		return err
	}
	f := fields{list: list}
	a := answer{now: f.int(1), fails: int(f.int(2)), epoch: f.str(3)}
	if a.full = len(list) > 4; a.full {
		f.readView(&a, 4)
	}
	if f.err != nil {
		return f.err
	}
	results, _ := list[0].([]any)
	if err := share(batch, results, seen); err != nil {
		return err
	}
	e.learn(a, r.opt.Now())
	r.back(ctx, e)
	return nil
}

// tripArgs are the arguments calls_fast.lua describes.
func (r *Redis) tripArgs(e *shared, batch []*operation, seen, view string) []any {
	var counts [special + 1]int
	var lines strings.Builder
	plain := true
	for _, o := range batch {
		lines.WriteString(o.line)
		counts[o.kind]++
		plain = plain && o.kind != special && (o.kind == asks || o.epoch == seen)
	}
	return r.args(e, strconv.FormatFloat(r.opt.Rand(), 'f', 9, 64), e.cap, e.lease, seen, view, e.window,
		lines.String(), flag(plain), counts[asks], counts[good], counts[neutral])
}

// share gives every operation its part of the answer.
func share(batch []*operation, results []any, seen string) error {
	if len(results) == 0 {
		for _, o := range batch {
			o.code, o.decided = counted, seen
			if o.kind == asks {
				o.code = admitted
			}
		}
		return nil
	}
	if len(results) != len(batch) {
		return errReply
	}
	for i, o := range batch {
		part := strings.Split(fmt.Sprint(results[i]), " ")
		if len(part) != 3 {
			return errReply
		}
		retry, err := strconv.ParseInt(part[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %q is no number", errReply, part[1])
		}
		o.code, o.retry, o.decided = part[0], retry, part[2]
	}
	return nil
}
