package breaker

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Kinds of Event.
const (
	KindTransition = "transition"
	KindBadWorker  = "bad_worker" // one worker alone sees failures; the circuit did not move
)

// Reasons of events and of Snapshot.OpenReason.
const (
	ReasonConsecutive     = "consecutive_failures"
	ReasonWindow          = "failures_in_window"
	ReasonRate            = "failure_rate"
	ReasonSlow            = "slow_calls"
	ReasonProbeFailed     = "probe_failed"
	ReasonOpenTimeOver    = "open_time_over"
	ReasonHalfOpenOver    = "half_open_over"
	ReasonProbesSucceeded = "probes_succeeded"
	ReasonReset           = "reset"
	ReasonProbeOnce       = "probe_once"
	ReasonForcedOpen      = "forced_open"
	ReasonForcedClosed    = "forced_closed"
	ReasonMetricsOnly     = "metrics_only"
	ReasonOverrideExpired = "override_expired"
	ReasonBadWorker       = "bad_worker"
)

// Evidence is what made a circuit change state.
type Evidence struct {
	Failures    int            `json:"failures"`
	ErrorClass  map[string]int `json:"error_classes,omitempty"`
	Workers     []string       `json:"workers,omitempty"`
	Samples     []string       `json:"samples,omitempty"` // sample call ids, e.g. payment ids
	Settings    string         `json:"settings,omitempty"`
	Description string         `json:"description,omitempty"`
}

// Event is one state transition, emitted once, by the script that made it.
type Event struct {
	Key      Key
	Epoch    string // unique per circuit; consumers de-duplicate on Key and Epoch
	From, To State
	Reason   string // one of the Reason… constants
	Evidence Evidence
	At       time.Time

	Kind  string // one of the Kind… constants
	Actor string // who did it, for an operator's change
	Note  string // their reason; the worker of a bad_worker event; "restored" after key loss
	Local bool   // made by one process while Redis was gone
}

// maxSamples is how many call ids an event carries.
const maxSamples = 10

// occurrence is an event as machine and scripts tell it.
type occurrence struct {
	kind, epoch, reason, actor, note string
	from, to                         State
	run                              []string // failure entries "us|worker|class|sample"
	settings                         string
	at                               int64
}

// event turns it into what consumers read.
func (o occurrence) event(k Key) Event {
	e := Event{Key: k, Epoch: o.epoch, From: o.from, To: o.to, Reason: o.reason, At: moment(o.at),
		Kind: o.kind, Actor: o.actor, Note: o.note}
	e.Evidence = gather(o.run)
	e.Evidence.Settings = readable(o.settings)
	e.Evidence.Description = describe(e)
	return e
}

// parseFailure reads an entry; unknown text becomes the class, never an error.
func parseFailure(entry string) Failure {
	p := strings.SplitN(entry, "|", 4)
	if len(p) != 4 {
		return Failure{Class: entry}
	}
	us, _ := strconv.ParseInt(p[0], 10, 64)
	return Failure{At: moment(us), Worker: p[1], Class: p[2], Sample: p[3]}
}

// gather sums up failure entries.
func gather(run []string) Evidence {
	ev := Evidence{Failures: len(run)}
	workers := map[string]bool{}
	for _, entry := range run {
		f := parseFailure(entry)
		if ev.ErrorClass == nil {
			ev.ErrorClass = map[string]int{}
		}
		ev.ErrorClass[f.Class]++
		workers[f.Worker] = true
		if f.Sample != "" && len(ev.Samples) < maxSamples {
			ev.Samples = append(ev.Samples, f.Sample)
		}
	}
	for w := range workers {
		ev.Workers = append(ev.Workers, w)
	}
	sort.Strings(ev.Workers)
	return ev
}

// describe says in one English sentence what happened.
func describe(e Event) string {
	ev := e.Evidence
	seen := fmt.Sprintf("%s from %s", classes(ev.ErrorClass), count(len(ev.Workers), "worker"))
	switch e.Reason {
	case ReasonConsecutive:
		return fmt.Sprintf("%s in a row: %s", count(ev.Failures, "failure"), seen)
	case ReasonWindow:
		return fmt.Sprintf("%s within the window: %s", count(ev.Failures, "failure"), seen)
	case ReasonRate:
		return "the share of failed calls reached the limit: " + seen
	case ReasonSlow:
		return fmt.Sprintf("the share of slow calls reached the limit, seen by %s", count(len(ev.Workers), "worker"))
	case ReasonProbeFailed:
		return "the probe failed: " + classes(ev.ErrorClass)
	case ReasonOpenTimeOver:
		return "the open time is over; a probe may try"
	case ReasonHalfOpenOver:
		return "no decision within the half-open time; it starts over"
	case ReasonProbesSucceeded:
		return "the probes succeeded"
	case ReasonOverrideExpired:
		return "the override " + e.Note + " expired"
	case ReasonBadWorker:
		return fmt.Sprintf("only worker %s sees failures (%s); the circuit stays closed", e.Note, classes(ev.ErrorClass))
	}
	return fmt.Sprintf("%s by %s: %s", strings.ReplaceAll(e.Reason, "_", " "), e.Actor, e.Note)
}

// count is "1 worker", "2 workers".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// classes lists error classes, most frequent first.
func classes(m map[string]int) string {
	if len(m) == 0 {
		return "no error recorded"
	}
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s × %d", n, m[n])
	}
	return strings.Join(names, ", ")
}
