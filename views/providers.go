package views

import (
	"context"
	"net/url"
	"sort"
	"strconv"
	"strings"
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
	Replays      bool // an unknown charge is settled by sending its own key and bytes again
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

	InFlight    int // over all processes; counted with a limit only
	MaxInFlight int // 0: no limit
	Window      WindowView

	Errors  []ErrorRow
	History []TransitionRow
	Strip   StripView
	Settled *SettledView // of the charge circuit while it blocks calls
	LastAct *CircuitActView
}

// WindowView counts the calls a circuit's rate rules look at.
type WindowView struct {
	Span                    time.Duration // zero: the settings are not known
	OK, Fail, Neutral, Slow int
}

// SettledView is what lookups settled while charges are blocked.
type SettledView struct {
	Payments int // unknown before
	Cap      int // counted up to this
	Since    time.Time
	Blocked  bool // lookups are blocked as well
}

// CircuitActView is the latest thing a person did to a circuit.
type CircuitActView struct {
	Who, Action, Reason string
	At                  time.Time
	Until               time.Time // of an override with an end
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
	Reopened int    // failed probes since
	Settings string // in force when it opened, as the breaker writes them
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
	again := ""
	if p.Replays {
		again = T(ctx, "providers.replays")
	}
	return messages.Join(keys, ask, again)
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

// inFlight is the global bulkhead: calls over all processes and their limit.
func (c CircuitView) inFlight(ctx context.Context) string {
	if c.MaxInFlight == 0 {
		return T(ctx, "circuit.no_limit")
	}
	return T(ctx, "providers.running_of", "Running", Num(ctx, int64(c.InFlight)), "Limit", Num(ctx, int64(c.MaxInFlight)))
}

func (c CircuitView) windowLabel(ctx context.Context) string {
	if c.Window.Span == 0 {
		return T(ctx, "circuit.window_unknown")
	}
	return T(ctx, "circuit.window", "Span", messages.Span(ctx, c.Window.Span))
}

// window is failed of all calls that said something about health, and the slow ones.
func (c CircuitView) window(ctx context.Context) string {
	w := c.Window
	if w.OK+w.Fail == 0 {
		return T(ctx, "providers.no_calls")
	}
	failed := T(ctx, "providers.running_of", "Running", Num(ctx, int64(w.Fail)), "Limit", Num(ctx, int64(w.OK+w.Fail)))
	if w.Slow > 0 {
		return failed + ", " + N(ctx, "circuit.window_slow", int64(w.Slow))
	}
	return failed
}

func (s SettledView) tone() components.Tone {
	if s.Blocked {
		return components.ToneWarn
	}
	return components.ToneInfo
}

// words say that lookups go on while charges are blocked, or that they do not.
func (s SettledView) words(ctx context.Context) string {
	since := messages.Clock(ctx, s.Since)
	switch {
	case s.Blocked:
		return T(ctx, "circuit.settled.blocked", "Time", since)
	case s.Payments == 0:
		return T(ctx, "circuit.settled.none", "Time", since)
	case s.Payments >= s.Cap:
		return T(ctx, "circuit.settled.many", "Count", messages.Bounded(ctx, int64(s.Payments), int64(s.Cap)), "Time", since)
	}
	return N(ctx, "circuit.settled", int64(s.Payments), "Time", since)
}

// what a person did, in words: "forced open until 15:02:00".
func (a CircuitActView) what(ctx context.Context) string {
	done := Opt(ctx, "circuit.did.", strings.TrimPrefix(a.Action, "circuit."))
	if a.Until.IsZero() {
		return done
	}
	return done + " " + T(ctx, "act.circuit.until", "Time", messages.Clock(ctx, a.Until))
}
