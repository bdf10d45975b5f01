package breaker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	barrier               // nothing: it tells when all before it have travelled
)

// operation is one permit or report on its way to Redis.
type operation struct {
	kind opKind
	of   finished // a permit has a token only

	code    string
	retry   int64  // microseconds
	decided string // the circuit's epoch after it
	err     error
	posted  bool          // nobody waits for it
	done    chan struct{} // told once, when it travelled with others and somebody waits
}

// spare keeps operations that are over.
var spare = sync.Pool{New: func() any { return &operation{done: make(chan struct{}, 1)} }}

func askFor(token string) *operation {
	o := spare.Get().(*operation)
	o.kind, o.of, o.err, o.posted = asks, finished{token: token}, nil, false
	return o
}

func tell(f finished) *operation {
	o := spare.Get().(*operation)
	o.kind, o.of, o.err, o.posted = special, f, nil, false
	if !f.slow && !f.probe {
		switch f.verdict {
		case OK:
			o.kind = good
		case Neutral:
			o.kind = neutral
		}
	}
	return o
}

// write adds the operation as calls_fast.lua reads it.
func (o *operation) write(b *strings.Builder) {
	if o.kind == asks {
		b.WriteString("P\t")
		b.WriteString(o.of.token)
		b.WriteByte('\n')
		return
	}
	b.WriteString("R\t")
	for _, field := range [...]string{o.of.token, o.of.epoch, string(o.of.verdict), flag(o.of.slow), flag(o.of.probe)} {
		b.WriteString(field)
		b.WriteByte('\t')
	}
	b.WriteString(o.of.entry)
	b.WriteByte('\n')
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
	due     bool      // a posted operation departs soon
	first   time.Time // when the longest-waiting posted operation came
}

// perform carries out one operation: at once when no trip of this circuit is under way,
// with the next trip otherwise. So a lone caller waits for nobody, a crowd costs Redis
// little more than one call, and nobody makes more than one round trip. The caller's
// cancellation is not Redis's failure and ends nothing. An error says that Redis did
// not answer in time; whether the operation was carried out is then unknown.
func (r *Redis) perform(ctx context.Context, e *shared, o *operation) error {
	q := &e.line
	q.mu.Lock()
	if q.flying {
		q.waiting = append(q.waiting, o)
		q.mu.Unlock()
		// Not for long: trips have a timeout, and one that fails dismisses the line.
		<-o.done
		return o.err
	}
	q.flying, q.waiting = true, append(q.waiting, o)
	q.mu.Unlock()
	// A crowd comes in a burst: let it board. Alone, this costs next to nothing.
	runtime.Gosched()
	for travelled := false; !travelled; {
		batch := e.boarding(q)
		if len(batch) == 0 {
			<-o.done // dismissed with the line, by a trip that failed
			break
		}
		travelled = slices.Contains(batch, o)
		r.fly(ctx, e, q, batch)
		r.deliver(ctx, e, slices.DeleteFunc(batch, func(other *operation) bool { return other == o }))
	}
	if q.land() {
		go r.carryOn(e, q)
	}
	return o.err
}

// linger is how long a posted operation waits for company.
const linger = 5 * time.Millisecond

// post sends a plain report of a calm circuit on its way without waiting for it: with the
// next trip that somebody waits for, or together with others when there is none for a
// while. They change nothing but counts, so they may be overtaken by everything except a
// report that does: that one flushes them first.
func (r *Redis) post(e *shared, o *operation) {
	o.posted = true
	q := &e.posted
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.first = time.Now()
	}
	q.waiting = append(q.waiting, o)
	if q.flying || q.due {
		return
	}
	q.due = true
	r.departIn(linger, e, q)
}

// departIn sends those who have waited long enough on their way after d.
func (r *Redis) departIn(d time.Duration, e *shared, q *lineUp) {
	time.AfterFunc(d, func() {
		q.mu.Lock()
		// Whoever came first may have travelled with a caller's trip.
		wait := linger - time.Since(q.first)
		early := len(q.waiting) > 0 && !q.flying && wait > 0
		q.due = early // the one timer goes on, or is over
		q.mu.Unlock()
		switch {
		case early:
			r.departIn(wait, e, q)
		case q.depart():
			r.carryOn(e, q)
		}
	})
}

// depart begins a flight for those who wait, if there is none.
func (q *lineUp) depart() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flying || len(q.waiting) == 0 {
		return false
	}
	q.flying = true
	return true
}

// flush waits until everything posted so far has travelled, or is on a trip that whatever
// the caller sends next comes after.
func (r *Redis) flush(e *shared) {
	q := &e.posted
	q.mu.Lock()
	if !q.flying && len(q.waiting) == 0 {
		q.mu.Unlock()
		return
	}
	o := newBarrier()
	q.waiting = append(q.waiting, o)
	q.mu.Unlock()
	if q.depart() {
		r.carryOn(e, q)
	}
	<-o.done
}

// settle waits until everything posted so far has travelled, for those who look at the
// circuit beside the line.
func (r *Redis) settle(e *shared) {
	r.flush(e)
	q := &e.line
	q.mu.Lock()
	if !q.flying {
		q.mu.Unlock()
		return
	}
	o := newBarrier()
	q.waiting = append(q.waiting, o)
	q.mu.Unlock()
	<-o.done
}

func newBarrier() *operation { return &operation{kind: barrier, done: make(chan struct{}, 1)} }

// carryOn goes on with a flight until nobody waits.
func (r *Redis) carryOn(e *shared, q *lineUp) {
	for {
		// Those the last trip answered come back within a moment: let them board.
		runtime.Gosched()
		batch := e.boarding(q)
		r.fly(context.Background(), e, q, batch)
		r.deliver(context.Background(), e, batch)
		if !q.land() {
			return
		}
	}
}

// deliver tells those who wait what became of their operations, and takes care of those
// nobody waits for.
func (r *Redis) deliver(ctx context.Context, e *shared, batch []*operation) {
	for _, o := range batch {
		if !o.posted {
			o.done <- struct{}{}
			continue
		}
		r.reported(ctx, e, o)
		spare.Put(o)
	}
}

// reported takes in what became of a report.
func (r *Redis) reported(ctx context.Context, e *shared, o *operation) {
	switch {
	case o.err != nil && o.posted:
		// What this process has counted alone by now came later: a success that was
		// overtaken must not end a row of failures that came after it.
	case o.err != nil:
		r.reportAlone(e, o.of)
	case o.code != counted:
		r.opt.Log.DebugContext(ctx, "breaker: report not counted", "circuit", e.key.String(),
			"why", o.code, "epoch", o.of.epoch, "now", o.decided, "verdict", o.of.verdict)
	}
}

// land ends the flight if nobody waits, and reports whether it has to go on.
func (q *lineUp) land() (goOn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying = len(q.waiting) > 0
	return q.flying
}

// boarding takes the operations of a line's next trip. A trip that callers wait for takes
// along what is posted: it costs Redis next to nothing more.
func (e *shared) boarding(q *lineUp) []*operation {
	batch := q.board(maxTrip, true)
	if q == &e.line && len(batch) > 0 && len(batch) < maxTrip {
		// Not while posted operations are under way: a barrier behind them would arrive first.
		batch = append(batch, e.posted.board(maxTrip-len(batch), false)...)
	}
	return batch
}

// board takes at most so many operations out of a line; none of one in flight, unless it is
// the flight's own.
func (q *lineUp) board(most int, own bool) []*operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flying && !own {
		return nil
	}
	n := min(len(q.waiting), most)
	batch := slices.Clone(q.waiting[:n])
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
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

// fly makes one trip with a batch from a line and fills its answers in.
func (r *Redis) fly(ctx context.Context, e *shared, q *lineUp, batch []*operation) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(o *operation) bool { return o.kind == barrier })
	if len(batch) == 0 {
		return
	}
	err := r.trip(ctx, e, batch)
	if err == nil {
		return
	}
	r.lost(ctx, e, err)
	for _, o := range batch {
		o.err = err
	}
	// The others decide alone at once: one timeout is enough.
	rest := q.dismiss()
	for _, o := range rest {
		o.err = err
	}
	r.deliver(ctx, e, rest)
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
		o.write(&lines)
		counts[o.kind]++
		plain = plain && o.kind != special && (o.kind == asks || o.of.epoch == seen)
	}
	return r.args(e, strconv.FormatFloat(r.opt.Rand(), 'f', 9, 64), e.cap, e.lease, seen, view, e.window,
		lines.String(), flag(plain), counts[asks], counts[good], counts[neutral])
}

// share gives every operation its part of the answer.
func share(batch []*operation, results []any, seen string) error {
	if len(results) == 0 {
		for _, o := range batch {
			o.code, o.retry, o.decided = counted, 0, seen
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
