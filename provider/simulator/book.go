package simulator

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors of the ledger.
var (
	errNoCharge = errors.New("simulator: no such charge")
	errDecided  = errors.New("simulator: the charge is already decided")
)

// entry is one line of the ledger file. Everything that belongs together stands
// in one line, so that a crash keeps all of it or nothing.
type entry struct {
	At      time.Time `json:"at"`
	Reset   bool      `json:"reset,omitempty"`   // forget everything before
	Charges []Charge  `json:"charges,omitempty"` // refunds among them
	Answer  *stored   `json:"answer,omitempty"`
	Events  []event   `json:"events,omitempty"`
	Acked   string    `json:"acked,omitempty"` // an event's id

	Disputes []Dispute `json:"disputes,omitempty"`
}

// book is the ledger: the state that replaying the journal's lines gives, and
// the keys whose first call is still running (which a crash forgets: nothing was
// booked for them).
type book struct {
	log *journal

	mu      sync.Mutex
	charges map[string]*Charge   // refunds among them
	ordered []*Charge            // charges by creation, then id
	refunds []*Charge            // the same of refunds
	index   map[string][]*Charge // by "reference R" and "key K"; refunds: see shelve
	answers map[string]*stored
	events  map[string]*event // not yet acknowledged
	told    []event           // of faces that keep them: the last keptEvents, oldest first
	running map[string]bool

	disputes []*Dispute // oldest first
}

// openBook opens the ledger at path; "" keeps it in memory.
func openBook(path string) (*book, error) {
	b := &book{}
	b.clear()
	log, err := openJournal(path, func(line []byte) error {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		b.apply(e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.log = log
	return b, nil
}

func (b *book) clear() {
	b.charges = map[string]*Charge{}
	b.ordered, b.refunds, b.disputes = nil, nil, nil
	b.index = map[string][]*Charge{}
	b.answers = map[string]*stored{}
	b.events = map[string]*event{}
	b.told = nil
	b.running = map[string]bool{}
}

// apply changes the state as a line says. The caller holds mu, or is alone.
func (b *book) apply(e entry) {
	if e.Reset {
		b.clear()
	}
	for _, c := range e.Charges {
		b.put(c)
	}
	for _, d := range e.Disputes {
		b.putDispute(d)
	}
	if e.Answer != nil {
		b.answers[e.Answer.Key] = e.Answer
	}
	for _, ev := range e.Events {
		if !ev.Unsent {
			b.events[ev.ID] = &ev
		}
		if faceOf(ev.Face).keepsEvents() {
			b.told = append(b.told, ev)
		}
	}
	if extra := len(b.told) - keptEvents; extra > keptEvents/4 { // seldom, since it copies
		b.told = slices.Clone(b.told[extra:])
	}
	delete(b.events, e.Acked)
}

// put inserts or replaces a charge or refund.
func (b *book) put(c Charge) {
	if old, ok := b.charges[c.ID]; ok {
		*old = c
	} else {
		b.charges[c.ID] = &c
		b.shelve(&c)
	}
	if parent := b.charges[c.Of]; parent != nil {
		parent.Refunded = b.given(c.Of, func(r *Charge) bool { return r.Status == StatusSucceeded })
	}
}

// shelve puts something new in its place, keeping the lists in order.
func (b *book) shelve(p *Charge) {
	list, kind := &b.ordered, ""
	if p.refund() {
		list, kind = &b.refunds, "refund "
		b.index["refunds of "+p.Of] = append(b.index["refunds of "+p.Of], p)
	}
	at, _ := slices.BinarySearchFunc(*list, p, byCreation)
	*list = slices.Insert(*list, at, p)
	b.index[kind+"reference "+p.Reference] = append(b.index[kind+"reference "+p.Reference], p)
	if p.Key != "" {
		b.index[kind+"key "+p.Key] = append(b.index[kind+"key "+p.Key], p)
	}
}

func byCreation(a, c *Charge) int {
	if n := a.CreatedAt.Compare(c.CreatedAt); n != 0 {
		return n
	}
	return strings.Compare(a.ID, c.ID)
}

// write takes an entry drafted from the state as it is, applies it and returns once it
// is on disk. If draft fails nothing changes.
func (b *book) write(draft func() (entry, error)) (entry, error) {
	e, line, err := b.record(draft)
	if err != nil {
		return e, err
	}
	return e, b.log.wait(line)
}

// record is write without the wait.
func (b *book) record(draft func() (entry, error)) (entry, uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := draft()
	if err != nil {
		return entry{}, 0, err
	}
	var line []byte
	if b.log.keeps() {
		if line, err = json.Marshal(e); err != nil {
			return entry{}, 0, err
		}
	}
	b.apply(e)
	return e, b.log.append(line), nil
}

// keptEvents is how many events can be asked for.
const keptEvents = 20_000

// kept returns the events that can be asked for, oldest first.
func (b *book) kept() ([]event, error) {
	b.mu.Lock()
	list := slices.Clone(b.told)
	b.mu.Unlock()
	return list, b.log.barrier()
}

// claimed is what became of an idempotency key.
type claimed struct {
	answer  *stored // to replay
	running bool    // the first call is still at work
	reused  bool    // other parameters under the same key
}

// claim takes a key for an execution, which ends with release. It is taken only
// if the result is the zero claimed. Answers older than life are forgotten.
func (b *book) claim(key, hash string, now time.Time, life time.Duration) claimed {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.answers[key]; ok && now.Sub(a.At) < life {
		if a.Hash != hash {
			return claimed{reused: true}
		}
		return claimed{answer: a}
	}
	if b.running[key] {
		return claimed{running: true}
	}
	b.running[key] = true
	return claimed{}
}

// release gives a key back; an answer stored meanwhile stays.
func (b *book) release(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, key)
}

// byReference returns copies of a reference's charges, oldest first.
func (b *book) byReference(ref string) ([]Charge, error) { return b.indexed("reference " + ref) }

// byKey returns copies of the charges made under a key, oldest first.
func (b *book) byKey(key string) ([]Charge, error) { return b.indexed("key " + key) }

func (b *book) indexed(entry string) ([]Charge, error) {
	b.mu.Lock()
	found := copies(b.index[entry])
	b.mu.Unlock()
	return found, b.log.barrier()
}

// span is a stretch of the ledger: created in [From, To), after a charge. Zero
// fields are no bound.
type span struct {
	from, to time.Time
	after    *Charge // its CreatedAt and ID
	limit    int
	refunds  bool // of the refunds, not the charges
}

// between returns copies of a stretch's charges that keep accepts, oldest first.
func (b *book) between(sp span, keep func(Charge) bool) ([]Charge, error) {
	b.mu.Lock()
	list := b.ordered
	if sp.refunds {
		list = b.refunds
	}
	first, _ := slices.BinarySearchFunc(list, sp.from, func(c *Charge, t time.Time) int { return c.CreatedAt.Compare(t) })
	if sp.after != nil {
		at, found := slices.BinarySearchFunc(list, sp.after, byCreation)
		if found {
			at++
		}
		first = max(first, at)
	}
	var out []Charge
	for _, c := range list[first:] {
		if !sp.to.IsZero() && !c.CreatedAt.Before(sp.to) || sp.limit > 0 && len(out) == sp.limit {
			break
		}
		if keep == nil || keep(*c) {
			out = append(out, *c)
		}
	}
	b.mu.Unlock()
	return out, b.log.barrier()
}

// copies makes values that no longer change; the caller holds mu.
func copies(list []*Charge) []Charge {
	out := make([]Charge, len(list))
	for i, c := range list {
		out[i] = *c
	}
	return out
}

// get returns a copy of one charge.
func (b *book) get(id string) (Charge, error) { return b.copyOf(id, false) }

// copyOf returns a copy of one charge or refund.
func (b *book) copyOf(id string, refund bool) (Charge, error) {
	b.mu.Lock()
	c, ok := b.charges[id]
	if !ok || c.refund() != refund {
		b.mu.Unlock()
		return Charge{}, errNoCharge
	}
	found := *c
	b.mu.Unlock()
	return found, b.log.barrier()
}

// open returns the events still to be acknowledged and the charges still to be
// decided: the work a restart takes up again.
func (b *book) open() (events []event, undecided []Charge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ev := range b.events {
		events = append(events, *ev)
	}
	slices.SortFunc(events, func(x, y event) int { return x.Due.Compare(y.Due) })
	for _, list := range [][]*Charge{b.ordered, b.refunds} {
		for _, c := range list {
			if !c.final() && c.Decide != "" {
				undecided = append(undecided, *c)
			}
		}
	}
	return events, undecided
}

// acked records that an event was acknowledged. It does not wait for the disk:
// forgetting it in a crash costs a repeated delivery, which is allowed.
func (b *book) acked(id string, now time.Time) {
	_, _, _ = b.record(func() (entry, error) { // cannot fail: nothing in it depends on the state
		return entry{At: now, Acked: id}, nil
	})
}

// undelivered counts the events not yet acknowledged.
func (b *book) undelivered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events)
}

// reset forgets everything, in a line of its own.
func (b *book) reset(now time.Time) error {
	_, err := b.write(func() (entry, error) { return entry{At: now, Reset: true}, nil })
	return err
}
