package simulator

import (
	"maps"
	"strings"
	"sync"
)

// Stats counts what happened on the wire since the start or the last reset. It is
// kept in memory only.
type Stats struct {
	Posts       int            `json:"posts"`        // charge and refund requests whose body arrived whole, answered or not
	ByKey       map[string]int `json:"by_key"`       // the same per idempotency key: wire sends
	ByReference map[string]int `json:"by_reference"` // the same per payment reference
	Lookups     int            `json:"lookups"`      // GETs
	Faults      map[Fault]int  `json:"faults"`       // how often each fault happened
	Webhooks    WebhookStats   `json:"webhooks"`
}

// WebhookStats counts deliveries.
type WebhookStats struct {
	Sent    int `json:"sent"`    // deliveries tried, duplicates and failures included
	Acked   int `json:"acked"`   // events acknowledged with a 2xx
	Pending int `json:"pending"` // events still to be acknowledged
}

// tally gathers Stats.
type tally struct {
	mu       sync.Mutex
	stats    Stats
	executed map[string]int    // executing requests per reference
	orderRef map[string]string // order reference by reference and by key, see sentWith
	asked    map[string]int    // lookups per subject
}

func newTally() *tally {
	t := &tally{}
	t.clear()
	return t
}

func (t *tally) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats = Stats{ByKey: map[string]int{}, ByReference: map[string]int{}, Faults: map[Fault]int{}}
	t.executed = map[string]int{}
	t.orderRef = map[string]string{}
	t.asked = map[string]int{}
}

// post counts an arrived charge or refund request.
func (t *tally) post(key string, r chargeRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Posts++
	if key != "" {
		t.stats.ByKey[key]++
		t.sentWith("key ", key, r.OrderRef)
	}
	if r.Reference != "" {
		t.stats.ByReference[r.Reference]++
		t.sentWith("reference ", r.Reference, r.OrderRef)
	}
}

// sentWith keeps the order reference last sent with a reference or key, if it chooses faults:
// others are not asked for. The caller holds mu.
func (t *tally) sentWith(kind, who, orderRef string) {
	if picks := strings.Contains(orderRef, pickWord); picks {
		t.orderRef[kind+who] = orderRef
	} else if len(t.orderRef) > 0 {
		delete(t.orderRef, kind+who)
	}
}

// orderOf returns the order reference last sent with "reference R" or "key K", if it chooses
// faults.
func (t *tally) orderOf(who string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.orderRef[who]
}

// execution counts a request that gets as far as executing, and returns its
// number among the reference's own.
func (t *tally) execution(reference string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.executed[reference]++
	return t.executed[reference]
}

// lookup counts a question and returns its number among those about the same.
func (t *tally) lookup(about string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Lookups++
	t.asked[about]++
	return t.asked[about]
}

func (t *tally) fault(name Fault) {
	if name == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Faults[name]++
}

func (t *tally) sent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Webhooks.Sent++
}

func (t *tally) acked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Webhooks.Acked++
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.tally.mu.Lock()
	out := s.tally.stats
	out.ByKey = maps.Clone(out.ByKey)
	out.ByReference = maps.Clone(out.ByReference)
	out.Faults = maps.Clone(out.Faults)
	s.tally.mu.Unlock()
	out.Webhooks.Pending = s.book.undelivered()
	return out
}
