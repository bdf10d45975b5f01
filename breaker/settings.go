package breaker

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Settings of one circuit. The zero value is a usable circuit: five failures in a row
// open it for 30 s, one probe closes it. Rates, ramp, backoff and the bulkhead are off
// until set.
type Settings struct {
	Failures int           // consecutive failures that open it (default 5; negative: rule off)
	Window   time.Duration // > 0: Failures within this time open it, successes in between or not; 0: in a row, undecayed
	OpenFor  time.Duration // how long it stays open (default 30 s)

	Probes      int           // concurrent probes in half-open (default 1)
	Successes   int           // probe successes that close it (default 1)
	ProbeTTL    time.Duration // lease of a probe: attempt deadline + slack (default 10 s)
	HalfOpenFor time.Duration // half-open starts over after this without a decision (default 60 s)

	Rate       float64       // share of failed calls in RateWindow that opens it, (0, 1]; 0: off
	MinCalls   int           // calls in RateWindow below which no share counts (default 20)
	RateWindow time.Duration // whole seconds up to 5 min (default 60 s)
	SlowCall   time.Duration // an answer this late is slow; 0: off
	SlowRate   float64       // share of slow calls in RateWindow that opens it; 0: off

	// Quorum is how many workers must see failures while that many are active
	// (default 2). Fewer: a bad_worker event names the worker and the circuit stays closed.
	Quorum    int
	ActiveFor time.Duration // a worker counts as active this long after a report (default 60 s)

	Backoff float64       // factor on OpenFor for each failed half-open (default 1: none)
	OpenMax time.Duration // longest open time (default 10 × OpenFor)
	Jitter  float64       // ± share of the open time, [0, 0.5]

	MaxInFlight int           // calls in flight over all processes; 0: no limit
	LeaseTTL    time.Duration // an in-flight slot frees itself after this (default ProbeTTL)

	RampFor   time.Duration // after closing the admitted rate grows this long; 0: off
	RampStart float64       // calls per second at first (default 1)
	RampFull  float64       // calls per second at the end of the ramp (default 50)
}

// NonMoney returns the settings for calls that have a fallback: five failures within
// 60 s open the circuit for 120 s. See DoOr.
func NonMoney() Settings {
	return Settings{Failures: 5, Window: time.Minute, OpenFor: 2 * time.Minute}
}

// Recommended returns settings for calls that move money, with attempts that end
// within deadline: every rule on, backoff, jitter and ramp.
func Recommended(deadline time.Duration) Settings {
	return Settings{
		Failures: 5, OpenFor: 30 * time.Second, ProbeTTL: deadline + 5*time.Second,
		Rate: 0.5, MinCalls: 20, SlowCall: deadline * 4 / 5, SlowRate: 0.8,
		Backoff: 2, OpenMax: 5 * time.Minute, Jitter: 0.1,
		RampFor: 30 * time.Second, RampStart: 1, RampFull: 50,
	}
}

// orDefault sets *v to def when it is the zero value.
func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// WithDefaults returns s with every zero field set to its default.
func (s Settings) WithDefaults() Settings {
	orDefault(&s.Failures, 5)
	orDefault(&s.OpenFor, 30*time.Second)
	orDefault(&s.Probes, 1)
	orDefault(&s.Successes, 1)
	orDefault(&s.ProbeTTL, 10*time.Second)
	orDefault(&s.HalfOpenFor, time.Minute)
	orDefault(&s.MinCalls, 20)
	orDefault(&s.RateWindow, time.Minute)
	orDefault(&s.Quorum, 2)
	orDefault(&s.ActiveFor, time.Minute)
	orDefault(&s.Backoff, 1)
	orDefault(&s.OpenMax, 10*s.OpenFor)
	orDefault(&s.LeaseTTL, s.ProbeTTL)
	if s.RampFor > 0 {
		orDefault(&s.RampStart, 1)
		orDefault(&s.RampFull, 50)
	}
	return s
}

// Validate refuses settings that cannot work, naming the field. Zero fields count as
// their defaults.
func (s Settings) Validate() error {
	s = s.WithDefaults()
	for _, rule := range []struct {
		bad  bool
		text string
	}{
		{s.Probes < s.Successes, fmt.Sprintf("Probes (%d) is below Successes (%d): half-open could never close", s.Probes, s.Successes)},
		{s.Probes < 1 || s.Successes < 1, "Probes and Successes must be at least 1"},
		{s.Failures > 1000, "Failures must be at most 1000"},
		{s.Failures < 0 && s.Rate == 0 && s.SlowRate == 0, "no rule can open it: Failures is off and neither Rate nor SlowRate is set"},
		{s.Window < 0 || s.Window > 24*time.Hour, "Window must be 0 to 24h"},
		{s.OpenFor < time.Millisecond || s.OpenFor > 24*time.Hour, "OpenFor must be 1ms to 24h"},
		{s.OpenMax < s.OpenFor, "OpenMax is below OpenFor"},
		{s.Backoff < 1 || s.Backoff > 10, "Backoff must be 1 to 10"},
		{s.Jitter < 0 || s.Jitter > 0.5, "Jitter must be 0 to 0.5"},
		{s.ProbeTTL < time.Millisecond || s.LeaseTTL < time.Millisecond, "ProbeTTL and LeaseTTL must be at least 1ms"},
		{s.HalfOpenFor < s.ProbeTTL, "HalfOpenFor is below ProbeTTL: half-open would end before its probe can answer"},
		{s.Rate < 0 || s.Rate > 1, "Rate must be 0 to 1"},
		{s.SlowRate < 0 || s.SlowRate > 1, "SlowRate must be 0 to 1"},
		{(s.SlowCall > 0) != (s.SlowRate > 0), "SlowCall and SlowRate go together"},
		{s.MinCalls < 1, "MinCalls must be at least 1"},
		{s.RateWindow < time.Second || s.RateWindow > 5*time.Minute || s.RateWindow%time.Second != 0, "RateWindow must be whole seconds, 1s to 5m"},
		{s.Quorum < 1 || s.ActiveFor <= 0, "Quorum and ActiveFor must be positive"},
		{s.MaxInFlight < 0, "MaxInFlight must not be negative"},
		{s.RampFor < 0 || s.RampStart < 0 || s.RampFull < s.RampStart, "the ramp must grow from RampStart to RampFull"},
	} {
		if rule.bad {
			return fmt.Errorf("breaker: settings: %s", rule.text)
		}
	}
	return nil
}

// number prints a float without an exponent, for Lua and back.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// encode is the form the scripts read: names and plain numbers, times in microseconds,
// the rate window in seconds.
func (s Settings) encode() string {
	var b strings.Builder
	put := func(name, v string) { fmt.Fprintf(&b, "%s=%s ", name, v) }
	for _, f := range []struct {
		name string
		n    int
	}{
		{"failures", max(s.Failures, 0)}, {"probes", s.Probes}, {"successes", s.Successes},
		{"min_calls", s.MinCalls}, {"rate_window", int(s.RateWindow / time.Second)},
		{"quorum", s.Quorum}, {"max_in_flight", s.MaxInFlight},
	} {
		put(f.name, strconv.Itoa(f.n))
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"window", s.Window}, {"open_for", s.OpenFor}, {"open_max", s.OpenMax}, {"probe_ttl", s.ProbeTTL},
		{"half_open_for", s.HalfOpenFor}, {"active_for", s.ActiveFor}, {"ramp_for", s.RampFor},
	} {
		put(f.name, strconv.FormatInt(f.d.Microseconds(), 10))
	}
	for _, f := range []struct {
		name string
		v    float64
	}{
		{"rate", s.Rate}, {"slow_rate", s.SlowRate}, {"backoff", s.Backoff}, {"jitter", s.Jitter},
		{"ramp_start", s.RampStart}, {"ramp_full", s.RampFull},
	} {
		put(f.name, number(f.v))
	}
	return strings.TrimSpace(b.String())
}

// readable turns an encoded settings string into what a person reads in the evidence:
// times as durations, switched-off rules left out.
func readable(encoded string) string {
	times := map[string]bool{"window": true, "open_for": true, "open_max": true, "probe_ttl": true,
		"half_open_for": true, "active_for": true, "ramp_for": true}
	var out []string
	for _, f := range strings.Fields(encoded) {
		name, v, _ := strings.Cut(f, "=")
		if v == "0" {
			continue
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && times[name] {
			v = (time.Duration(n) * time.Microsecond).String()
		} else if name == "rate_window" {
			v += "s"
		}
		out = append(out, name+"="+v)
	}
	return strings.Join(out, " ")
}
