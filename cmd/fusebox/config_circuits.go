package main

import (
	"time"

	"github.com/caarlos0/env/v11"

	"fusebox/breaker"
	"fusebox/jobs"
	"fusebox/provider"
)

// circuitConfig are the settings of circuits. They are read under three prefixes, the
// later ones win: FUSEBOX_CIRCUIT_ for all circuits, PROVIDER_<NAME>_CIRCUIT_ for both
// of a provider, PROVIDER_<NAME>_STATUS_CIRCUIT_ for that of its lookups. What none of
// them sets has the defaults of baseCircuit.
type circuitConfig struct {
	Failures   int           `env:"FAILURES"`
	Window     time.Duration `env:"WINDOW"`
	Rate       float64       `env:"RATE"`
	MinCalls   int           `env:"MIN_CALLS"`
	RateWindow time.Duration `env:"RATE_WINDOW"`
	Slow       time.Duration `env:"SLOW"`
	SlowRate   float64       `env:"SLOW_RATE"`

	OpenFor     time.Duration `env:"OPEN_FOR"`
	OpenMax     time.Duration `env:"OPEN_MAX"`
	Backoff     float64       `env:"BACKOFF"`
	Jitter      float64       `env:"JITTER"`
	Probes      int           `env:"PROBES"`
	Successes   int           `env:"SUCCESSES"`
	HalfOpenFor time.Duration `env:"HALF_OPEN_FOR"`

	Quorum    int           `env:"QUORUM"`
	ActiveFor time.Duration `env:"ACTIVE_FOR"`

	RampFor   time.Duration `env:"RAMP_FOR"`
	RampStart float64       `env:"RAMP_START"`
	RampFull  float64       `env:"RAMP_FULL"`
}

// allCircuits is the prefix of what holds for every circuit.
const allCircuits = "FUSEBOX_CIRCUIT_"

// circuitScopes are the prefixes of one provider, the more special one last.
func circuitScopes(providerPrefix string) []string {
	return []string{providerPrefix + "CIRCUIT_", providerPrefix + "STATUS_CIRCUIT_"}
}

// Operation classes of a provider's circuits.
const (
	classCharge = "charge"
	classStatus = "status"
)

// circuits is what the environment says about circuits.
type circuits struct {
	vars   map[string]string
	scopes map[string]circuitConfig // by prefix
	limits map[breaker.Key]int      // calls in flight over all processes
}

func newCircuits(vars map[string]string) circuits {
	return circuits{vars: vars, scopes: map[string]circuitConfig{}, limits: map[breaker.Key]int{}}
}

// read parses the settings under a prefix and returns their names.
func (c circuits) read(prefix string, errs *[]error) []string {
	var cc circuitConfig
	if err := env.ParseWithOptions(&cc, env.Options{Environment: c.vars, Prefix: prefix}); err != nil {
		*errs = append(*errs, namedErrors(&cc, c.vars, prefix, err))
	} else {
		c.scopes[prefix] = cc
	}
	return knownNames(&cc, prefix)
}

// limit notes a provider's global bulkheads.
func (c circuits) limit(name string, pc providerConfig) {
	c.limits[breaker.Key{Name: name, Class: classCharge}] = pc.MaxInFlight
	c.limits[breaker.Key{Name: name, Class: classStatus}] = pc.StatusMaxInFlight
}

// merged are a circuit's settings and which environment variable set which of them.
type merged struct {
	breaker.Settings
	from map[string]string // RATE → PROVIDER_ATLAS_CIRCUIT_RATE
}

// set reports whether the environment has a say in the setting.
func (m merged) set(name string) bool { return m.from[name] != "" }

// name is the variable that a person has to change.
func (m merged) name(name string) string {
	if from := m.from[name]; from != "" {
		return from
	}
	return allCircuits + name
}

// baseCircuit has every rule on. Lookups differ: one of them has failed three times
// before it counts, it moves no money, and it is what settles unknown payments, so
// their circuit opens sooner and for a shorter time.
func baseCircuit(p provider.Settings, class string) breaker.Settings {
	s := breaker.Recommended(p.AnswerTimeout)
	if class == classStatus {
		s.Failures, s.MinCalls = 3, 10
		s.OpenFor, s.OpenMax = 15*time.Second, time.Minute
		s.RampFor, s.RampFull = 15*time.Second, 20
	}
	s = s.WithDefaults()
	// A lease outlives any attempt: a slot that frees itself earlier would let a second
	// call in beside the first.
	s.ProbeTTL = jobs.PermitHeld(p, class)
	s.LeaseTTL = s.ProbeTTL
	s.HalfOpenFor = max(time.Minute, 2*s.ProbeTTL)
	return s
}

// circuit returns the settings of one circuit.
func (c config) circuit(k breaker.Key) breaker.Settings {
	for _, p := range c.providers {
		if p.Name == k.Name {
			return c.circuits.of(p, k.Class).Settings
		}
	}
	return baseCircuit(provider.Settings{}.WithDefaults(), k.Class)
}

func (c circuits) of(p provider.Settings, class string) merged {
	if class == provider.ClassToken {
		return c.token(p)
	}
	m := merged{Settings: baseCircuit(p, class), from: map[string]string{}}
	longest := float64(m.OpenMax) / float64(m.OpenFor)
	scopes := append([]string{allCircuits}, circuitScopes(providerPrefix(p.Name))...)
	if class != classStatus {
		scopes = scopes[:2]
	}
	for _, prefix := range scopes {
		c.put(&m, prefix)
	}
	if !m.set("OPEN_MAX") {
		m.OpenMax = time.Duration(float64(m.OpenFor) * longest)
	}
	// One of the two off is the rule off.
	if (m.set("SLOW") && m.SlowCall == 0) || (m.set("SLOW_RATE") && m.SlowRate == 0) {
		m.SlowCall, m.SlowRate = 0, 0
	}
	m.MaxInFlight = c.limits[breaker.Key{Name: p.Name, Class: class}]
	return m
}

// token are the settings of the circuit before what fetches a provider's token: those of
// a call that moves no money, with what means the same there of the provider's own.
func (c circuits) token(p provider.Settings) merged {
	m := merged{Settings: breaker.NonMoney(), from: map[string]string{}}
	m.ProbeTTL = jobs.PermitHeld(p, provider.ClassToken)
	m.HalfOpenFor = max(time.Minute, 2*m.ProbeTTL)
	for _, prefix := range []string{allCircuits, providerPrefix(p.Name) + "CIRCUIT_"} {
		cc := c.scopes[prefix]
		over(c, &m, prefix, "FAILURES", &m.Failures, cc.Failures)
		over(c, &m, prefix, "OPEN_FOR", &m.OpenFor, cc.OpenFor)
		over(c, &m, prefix, "QUORUM", &m.Quorum, cc.Quorum)
		over(c, &m, prefix, "ACTIVE_FOR", &m.ActiveFor, cc.ActiveFor)
	}
	m.Settings = m.WithDefaults()
	return m
}

// put lays what a prefix sets over m.
func (c circuits) put(m *merged, prefix string) {
	cc := c.scopes[prefix]
	over(c, m, prefix, "FAILURES", &m.Failures, cc.Failures)
	over(c, m, prefix, "WINDOW", &m.Window, cc.Window)
	over(c, m, prefix, "RATE", &m.Rate, cc.Rate)
	over(c, m, prefix, "MIN_CALLS", &m.MinCalls, cc.MinCalls)
	over(c, m, prefix, "RATE_WINDOW", &m.RateWindow, cc.RateWindow)
	over(c, m, prefix, "SLOW", &m.SlowCall, cc.Slow)
	over(c, m, prefix, "SLOW_RATE", &m.SlowRate, cc.SlowRate)
	over(c, m, prefix, "OPEN_FOR", &m.OpenFor, cc.OpenFor)
	over(c, m, prefix, "OPEN_MAX", &m.OpenMax, cc.OpenMax)
	over(c, m, prefix, "BACKOFF", &m.Backoff, cc.Backoff)
	over(c, m, prefix, "JITTER", &m.Jitter, cc.Jitter)
	over(c, m, prefix, "PROBES", &m.Probes, cc.Probes)
	over(c, m, prefix, "SUCCESSES", &m.Successes, cc.Successes)
	over(c, m, prefix, "HALF_OPEN_FOR", &m.HalfOpenFor, cc.HalfOpenFor)
	over(c, m, prefix, "QUORUM", &m.Quorum, cc.Quorum)
	over(c, m, prefix, "ACTIVE_FOR", &m.ActiveFor, cc.ActiveFor)
	over(c, m, prefix, "RAMP_FOR", &m.RampFor, cc.RampFor)
	over(c, m, prefix, "RAMP_START", &m.RampStart, cc.RampStart)
	over(c, m, prefix, "RAMP_FULL", &m.RampFull, cc.RampFull)
}

// over sets one field if the environment does: there, a zero is a value.
func over[T any](c circuits, m *merged, prefix, name string, to *T, v T) {
	if c.vars[prefix+name] != "" {
		*to, m.from[name] = v, prefix+name
	}
}

// suggest sets what the environment leaves open, under names as a person would write
// them. The suggestions are ours: they parse.
func (c circuits) suggest(settings map[string]string) {
	for name, v := range settings {
		if c.vars[allCircuits+name] == "" {
			c.vars[allCircuits+name] = v
		}
	}
	var none []error
	c.read(allCircuits, &none)
}
