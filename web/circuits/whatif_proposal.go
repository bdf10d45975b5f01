package circuits

import (
	"time"

	"fusebox/breaker"
)

// Proposal is the part of a circuit's settings that a person tries out.
type Proposal struct {
	Failures int           // 0: rule off
	Window   time.Duration // 0: failures in a row
	Rate     float64       // share of failed calls; 0: off
	MinCalls int
	Slow     time.Duration // a call this slow counts as slow; 0: off
	OpenFor  time.Duration
}

// defaultSlowRate is the share of slow calls that opens a circuit when the settings in
// force have no rule for slow calls.
const defaultSlowRate = 0.8

// ProposalOf starts from settings in force.
func ProposalOf(s breaker.Settings) Proposal {
	s = s.WithDefaults()
	return Proposal{Failures: max(s.Failures, 0), Window: s.Window, Rate: s.Rate, MinCalls: s.MinCalls, Slow: s.SlowCall, OpenFor: s.OpenFor}
}

// Bad is one refused part of a proposal: the field's name and why, as a word that
// texts and flags explain.
type Bad struct{ Field, Why string }

// Reasons of a Bad.
const (
	BadNumber = "number" // not a number at all
	BadRange  = "range"  // out of bounds
	BadNoRule = "none"   // nothing could open it
)

// Limits of a proposal.
const (
	MaxFailures = 1000
	MaxWindow   = 24 * time.Hour
	MaxMinCalls = 1_000_000
	MaxSlow     = 10 * time.Minute
	MinOpenFor  = time.Second
	MaxOpenFor  = 24 * time.Hour
)

// Settings are base with the proposal in place of its own rules, or what is wrong.
func (p Proposal) Settings(base breaker.Settings) (breaker.Settings, []Bad) {
	var bad []Bad
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"failures", p.Failures >= 0 && p.Failures <= MaxFailures},
		{"window", p.Window >= 0 && p.Window <= MaxWindow},
		{"rate", p.Rate >= 0 && p.Rate <= 1},
		{"min_calls", p.MinCalls >= 1 && p.MinCalls <= MaxMinCalls},
		{"slow", p.Slow >= 0 && p.Slow <= MaxSlow},
		{"open_for", p.OpenFor >= MinOpenFor && p.OpenFor <= MaxOpenFor},
	} {
		if !f.ok {
			bad = append(bad, Bad{f.name, BadRange})
		}
	}
	if p.Failures == 0 && p.Rate == 0 && p.Slow == 0 {
		bad = append(bad, Bad{"failures", BadNoRule})
	}
	if len(bad) > 0 {
		return breaker.Settings{}, bad
	}
	s := base.WithDefaults()
	s.Failures, s.Window, s.Rate, s.MinCalls, s.OpenFor = p.Failures, p.Window, p.Rate, p.MinCalls, p.OpenFor
	if p.Failures == 0 {
		s.Failures = -1
	}
	if s.SlowCall = p.Slow; p.Slow == 0 {
		s.SlowRate = 0
	} else if s.SlowRate == 0 {
		s.SlowRate = defaultSlowRate
	}
	s.OpenMax = max(s.OpenMax, s.OpenFor)
	return s, nil
}
