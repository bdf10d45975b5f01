package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is one way of breaking something.
type Fault string

// The faults. A process is one of serve-N, work-N and sim-NAME.
const (
	KillServe Fault = "kill_serve" // kill -9, started again after a while
	KillWork  Fault = "kill_work"
	KillSim   Fault = "kill_simulator"
	StopServe Fault = "stop_serve" // SIGTERM, and started again once it has ended
	StopWork  Fault = "stop_work"
	StopSim   Fault = "stop_simulator"

	FreezeWork Fault = "freeze_work" // SIGSTOP: its leases and deadlines pass, then it goes on
	ClockAhead Fault = "clock_ahead" // the worker is started anew with a clock 10 min ahead
	Rolling    Fault = "rolling_restart"

	PostgresRestart  Fault = "postgres_restart" // immediate shutdown: crash recovery
	PostgresCut      Fault = "postgres_cut"     // one process's connections are cut and refused
	PostgresLatency  Fault = "postgres_latency"
	PostgresHalfOpen Fault = "postgres_half_open" // connections stay, nothing arrives

	RedisStop    Fault = "redis_stop"    // down, back with its data
	RedisEmpty   Fault = "redis_empty"   // killed, back at once, empty
	RedisHang    Fault = "redis_hang"    // SIGSTOP
	RedisLatency Fault = "redis_latency" // of one process

	ProviderLatency   Fault = "provider_latency"
	ProviderBandwidth Fault = "provider_bandwidth"
	ProviderReset     Fault = "provider_reset"    // RST once the answer begins
	ProviderTruncate  Fault = "provider_truncate" // closed in the middle of an answer's body
	ProviderHalfOpen  Fault = "provider_half_open"
	ProviderCut       Fault = "provider_cut" // connections are cut and refused

	APIReset Fault = "api_reset"     // the client's answer breaks off
	Webhooks Fault = "webhook_storm" // every event several times, late, in another order
)

// spec is what a fault can hit and how long it lasts.
type spec struct {
	fault    Fault
	targets  []string
	min, max time.Duration
	// early: what a killed worker was doing comes back after the queue's rescue time, so it
	// is killed in time for that to be seen.
	early bool
	// holds names what of the target is taken: two faults on one thing would heal each
	// other. Empty: the target itself.
	holds func(target string) []string
	// draw picks the strength, in the toxic's own unit.
	draw func(r *rand.Rand) int64
}

// held is what of a target a fault takes.
func (s spec) held(target string) []string {
	if s.holds == nil {
		return []string{target}
	}
	return s.holds(target)
}

// The parts of the system.
var (
	serves    = []string{"serve-1", "serve-2"}
	works     = []string{"work-1", "work-2", "work-3"}
	providers = []string{"steady", "stripe", "nokeys"}
)

func between(least, most int64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return least + r.Int64N(most-least+1) }
}

// theServes: one of them is always left to answer.
func theServes(string) []string { return []string{"serves"} }

func everything(string) []string {
	return slices.Concat([]string{"serves", "postgres"}, works, prefixed("sim-", providers))
}

func wire(kind string) func(string) []string {
	return func(target string) []string { return []string{kind + ":" + target} }
}

func prefixed(prefix string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}

func specs() []spec {
	ours, sims := slices.Concat(serves, works), prefixed("sim-", providers)
	const s = time.Second
	return []spec{
		{fault: KillServe, targets: serves, min: 1 * s, max: 3 * s, holds: theServes},
		{fault: StopServe, targets: serves, min: 0, max: 1 * s, holds: theServes},
		{fault: KillWork, targets: works, min: 1 * s, max: 4 * s, early: true},
		{fault: StopWork, targets: works, min: 0, max: 2 * s},
		{fault: KillSim, targets: sims, min: 1 * s, max: 3 * s},
		{fault: StopSim, targets: sims, min: 0, max: 2 * s},
		{fault: FreezeWork, targets: works, min: 3 * s, max: 8 * s},
		{fault: ClockAhead, targets: works, min: 8 * s, max: 14 * s},
		{fault: Rolling, targets: []string{"all"}, min: 12 * s, max: 12 * s, holds: everything},
		{fault: PostgresRestart, targets: []string{"postgres"}, min: 0, max: 0},
		{fault: PostgresCut, targets: ours, min: 1 * s, max: 3 * s, holds: wire("postgres")},
		{fault: PostgresLatency, targets: ours, min: 3 * s, max: 6 * s, holds: wire("postgres"), draw: between(20, 250)},
		{fault: PostgresHalfOpen, targets: ours, min: 2 * s, max: 5 * s, holds: wire("postgres")},
		{fault: RedisStop, targets: []string{"redis"}, min: 2 * s, max: 5 * s},
		{fault: RedisEmpty, targets: []string{"redis"}, min: 0, max: 0},
		{fault: RedisHang, targets: []string{"redis"}, min: 2 * s, max: 5 * s},
		{fault: RedisLatency, targets: ours, min: 3 * s, max: 6 * s, holds: wire("redis"), draw: between(20, 400)},
		{fault: ProviderLatency, targets: providers, min: 3 * s, max: 7 * s, holds: wire("provider"), draw: between(200, 2500)},
		{fault: ProviderBandwidth, targets: providers, min: 3 * s, max: 6 * s, holds: wire("provider"), draw: between(1, 3)},
		{fault: ProviderReset, targets: providers, min: 2 * s, max: 4 * s, holds: wire("provider"), draw: between(0, 20)},
		{fault: ProviderTruncate, targets: providers, min: 2 * s, max: 4 * s, holds: wire("provider"), draw: between(40, 500)},
		{fault: ProviderHalfOpen, targets: providers, min: 2 * s, max: 5 * s, holds: wire("provider")},
		{fault: ProviderCut, targets: providers, min: 2 * s, max: 4 * s, holds: wire("provider")},
		{fault: APIReset, targets: serves, min: 2 * s, max: 5 * s, holds: wire("api"), draw: between(0, 400)},
		{fault: Webhooks, targets: []string{"events"}, min: 5 * s, max: 12 * s},
	}
}

// Faults lists every fault there is.
func Faults() (out []Fault) {
	for _, s := range specs() {
		out = append(out, s.fault)
	}
	return out
}

// Event is one fault at its time. Strength is in the unit of the fault: ms of latency,
// KB/s of bandwidth, ms until a reset, bytes until a cut.
type Event struct {
	At       time.Duration
	For      time.Duration
	Fault    Fault
	Target   string
	Strength int64
}

// String is the event on one line.
func (e Event) String() string {
	text := fmt.Sprintf("%6.1fs %s %s", e.At.Seconds(), e.Fault, e.Target)
	if e.Strength != 0 {
		text += fmt.Sprintf(" %d", e.Strength)
	}
	if e.For > 0 {
		text += fmt.Sprintf(" for %.1fs", e.For.Seconds())
	}
	return text
}

// MarshalJSON is the line of String.
func (e Event) MarshalJSON() ([]byte, error) { return json.Marshal(strings.TrimSpace(e.String())) }

// spacing of faults: close enough to overlap, far enough apart that the system also
// works in between.
const (
	closest  = 2 * time.Second
	farthest = 5 * time.Second
)

// Schedule draws the faults of a run. It depends on its arguments only. Every fault comes
// once, in random order, before any comes again.
func Schedule(seed uint64, lead, length time.Duration) []Event {
	all := specs()
	r := rand.New(rand.NewPCG(seed, 0xfa17)) //nolint:gosec // a schedule, no secret
	gap := min(max((length-lead)*2/3/time.Duration(len(all)), closest), farthest)
	busy := map[string]time.Duration{} // what is taken, until when
	var out []Event
	var deck []spec
	for at := lead; ; at += gap*3/5 + rand64(r, gap*4/5) {
		if len(deck) < len(all) {
			more := slices.Clone(all)
			r.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
			for i, s := range more { // what has to be early has its turn early
				if first := len(more) / 3; s.early && i > first {
					j := r.IntN(first)
					more[i], more[j] = more[j], more[i]
				}
			}
			deck = append(deck, more...)
		}
		e, i, ok := next(r, deck, busy, at, length)
		if !ok {
			if at >= length {
				return out
			}
			continue
		}
		deck = slices.Delete(deck, i, i+1)
		out = append(out, e)
	}
}

const (
	// recovery is what a target is left alone for after a fault of it.
	recovery = 3 * time.Second
	// rescue is how long the work of a killed process may wait for another one.
	rescue = 80 * time.Second
)

// next takes the first fault of the deck that can happen at a time and end before the end.
func next(r *rand.Rand, deck []spec, busy map[string]time.Duration, at, length time.Duration) (Event, int, bool) {
	for i, s := range deck {
		e := Event{At: at.Round(time.Millisecond), Fault: s.fault, For: (s.min + rand64(r, s.max-s.min)).Round(time.Millisecond)}
		if at+e.For+recovery > length || (s.early && at > max(length-rescue, length/3)) {
			continue
		}
		for _, t := range r.Perm(len(s.targets)) {
			e.Target = s.targets[t]
			held := s.held(e.Target)
			if slices.ContainsFunc(held, func(h string) bool { return busy[h] > at }) {
				continue
			}
			if s.draw != nil {
				e.Strength = s.draw(r)
			}
			for _, h := range held {
				busy[h] = at + e.For + recovery
			}
			return e, i, true
		}
	}
	return Event{}, 0, false
}

func rand64(r *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(most)))
}
