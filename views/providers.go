package views

import (
	"context"
	"net/url"
	"sort"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// ProvidersView is the provider page.
type ProvidersView struct {
	Live  components.LiveRegion
	Cards []ProviderCard
}

// ProviderCard is one provider with its circuits.
type ProviderCard struct {
	Name         string
	Paused       bool
	PausedReason string
	PausedAt     *time.Time
	LastWebhook  *time.Time
	Synced       *time.Time
	KeyLife      time.Duration // 0: the provider ignores idempotency keys
	NoStatusAPI  bool
	Circuits     []CircuitView
	MayAct       bool // the reader's role may reset and resume
}

// CircuitView is one circuit and its bulkhead.
type CircuitView struct {
	Provider, Class string
	State           string // closed, open, half_open, unreadable
	Epoch           string
	Since           time.Time
	OpenUntil       time.Time
	Consecutive     int
	Threshold       int
	OpenReason      string
	Evidence        *EvidenceView // of the last opening; nil: none is known
	Probes          []LeaseView
	Mode            string // an operator's override, or ""
	ModeUntil       time.Time
	Local           bool // read from this process only: Redis is gone

	Rate      string
	RateLow   bool
	Calls     int
	P95       string
	Ready     int // jobs
	Running   int
	Snoozed   int
	Oldest    *time.Time
	Limit     int // workers per process
	Processes int

	Errors  []ErrorRow
	History []TransitionRow
}

// EvidenceView is why a circuit opened.
type EvidenceView struct {
	At       time.Time
	Reason   string
	Failures int
	Classes  []ClassCount
	Workers  int
	Samples  []string // payment ids
	Actor    string
	Reopened int // failed probes since
}

// ClassCount is how often a kind of error was seen.
type ClassCount struct {
	Class string
	Count int
}

// LeaseView is a probe under way.
type LeaseView struct {
	Worker string
	Until  time.Time
}

// ErrorRow is one failed call.
type ErrorRow struct {
	At        time.Time
	Class     string
	Worker    string
	PaymentID string
}

// TransitionRow is one change of state.
type TransitionRow struct {
	ID       int64
	At       time.Time
	From, To string
	Reason   string
	Actor    string
}

// attention reports whether the card deserves a look first.
func (p ProviderCard) attention() bool {
	if p.Paused {
		return true
	}
	for _, c := range p.Circuits {
		if c.State != "closed" {
			return true
		}
	}
	return false
}

// traits says in words what this provider can and cannot do.
func (p ProviderCard) traits(ctx context.Context) string {
	keys := T(ctx, "providers.no_keys")
	if p.KeyLife > 0 {
		keys = T(ctx, "providers.key_life", "Span", messages.Span(ctx, p.KeyLife))
	}
	ask := ""
	if p.NoStatusAPI {
		ask = T(ctx, "providers.no_status_api")
	}
	return messages.Join(keys, ask)
}

// SortClasses orders error classes by how often they were seen.
func SortClasses(counts map[string]int) []ClassCount {
	list := make([]ClassCount, 0, len(counts))
	for c, n := range counts {
		list = append(list, ClassCount{c, n})
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].Count != list[j].Count {
			return list[i].Count > list[j].Count
		}
		return list[i].Class < list[j].Class
	})
	return list
}

// words says a class count: timeout after send × 5.
func (c ClassCount) words(ctx context.Context) string {
	return Opt(ctx, "reason.", c.Class) + " × " + strconv.Itoa(c.Count)
}

// sampleHref leads to a failed call's payment. A status circuit's sample may also be
// a reconciliation run, which the search tells apart.
func sampleHref(class, id string) templ.SafeURL {
	if class == "charge" {
		return safe(PaymentPath(id))
	}
	return safe(PathSearch + "?q=" + url.QueryEscape(id))
}

// short is the readable end of a long id.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// lead is one plain sentence about the circuit.
func (c CircuitView) lead(ctx context.Context) string {
	switch c.State {
	case "open":
		if c.OpenUntil.IsZero() {
			return T(ctx, "circuit.lead.open_forever")
		}
		if !c.OpenUntil.After(messages.From(ctx).Now) {
			return T(ctx, "circuit.lead.open_due")
		}
		return T(ctx, "circuit.lead.open", "Time", messages.Clock(ctx, c.OpenUntil), "In", messages.Relative(ctx, c.OpenUntil))
	case "half_open":
		if len(c.Probes) > 0 {
			return T(ctx, "circuit.lead.probing", "Time", messages.Clock(ctx, c.Probes[0].Until))
		}
		return T(ctx, "circuit.lead.half_open")
	case "closed":
		if c.Consecutive > 0 {
			return N(ctx, "circuit.lead.failing", int64(c.Consecutive), "Limit", Num(ctx, int64(c.Threshold)))
		}
		return T(ctx, "circuit.lead.closed")
	}
	return T(ctx, "circuit.lead.unreadable")
}
