package main

import (
	"errors"
	"fmt"
	"time"

	"fusebox/provider"
)

// validateCircuits refuses circuits that cannot work, each by the setting to change.
func (c config) validateCircuits() error {
	errs := c.ambiguousNames()
	told := map[string]bool{} // what all circuits share is said once
	for _, p := range c.providers {
		for _, class := range []string{classCharge, classStatus} {
			for _, err := range c.circuits.of(p, class).check(p, class) {
				if !told[err.Error()] {
					told[err.Error()] = true
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// ambiguousNames: the settings of provider "x-status" would be read as those of the
// lookups of provider "x".
func (c config) ambiguousNames() (errs []error) {
	prefixes := map[string]string{}
	for _, p := range c.providers {
		prefixes[providerPrefix(p.Name)] = p.Name
	}
	for _, p := range c.providers {
		if other := prefixes[providerPrefix(p.Name)+"STATUS_"]; other != "" {
			errs = append(errs, fmt.Errorf("FUSEBOX_PROVIDERS: the settings of %q and of the lookups of %q have the same names", other, p.Name))
		}
	}
	return errs
}

// check lists what is wrong with a circuit's settings.
func (m merged) check(p provider.Settings, class string) (errs []error) {
	limit := providerPrefix(p.Name) + map[string]string{classCharge: "MAX_IN_FLIGHT", classStatus: "STATUS_MAX_IN_FLIGHT"}[class]
	answer := providerPrefix(p.Name) + "ANSWER_TIMEOUT"
	share := func(f float64) bool { return f >= 0 && f <= 1 } // false for NaN
	for _, rule := range []struct {
		ok     bool
		name   string
		reason string
	}{
		{m.Failures >= 1 && m.Failures <= 1000, m.name("FAILURES"), fmt.Sprintf("%d is not 1 to 1000", m.Failures)},
		{m.Window >= 0 && m.Window <= 24*time.Hour, m.name("WINDOW"), fmt.Sprintf("%s is not 0 (in a row) to 24h", m.Window)},
		{share(m.Rate), m.name("RATE"), fmt.Sprintf("%v is not a share, 0 (off) to 1", m.Rate)},
		{share(m.SlowRate), m.name("SLOW_RATE"), fmt.Sprintf("%v is not a share, 0 (off) to 1", m.SlowRate)},
		{m.MinCalls >= 1, m.name("MIN_CALLS"), fmt.Sprintf("%d is not positive", m.MinCalls)},
		{m.RateWindow >= time.Second && m.RateWindow <= 5*time.Minute && m.RateWindow%time.Second == 0,
			m.name("RATE_WINDOW"), fmt.Sprintf("%s is not 1s to 5m in whole seconds", m.RateWindow)},
		{m.SlowCall >= 0, m.name("SLOW"), fmt.Sprintf("%s is negative", m.SlowCall)},
		{m.SlowCall < p.AnswerTimeout, m.name("SLOW"), fmt.Sprintf("%s is not below %s (%s): no answer could ever be slow", m.SlowCall, answer, p.AnswerTimeout)},
		{m.OpenFor >= time.Millisecond && m.OpenFor <= 24*time.Hour, m.name("OPEN_FOR"), fmt.Sprintf("%s is not 1ms to 24h", m.OpenFor)},
		{m.OpenMax >= m.OpenFor, m.name("OPEN_MAX"), fmt.Sprintf("%s is below %s (%s)", m.OpenMax, m.name("OPEN_FOR"), m.OpenFor)},
		{m.Backoff >= 1 && m.Backoff <= 10, m.name("BACKOFF"), fmt.Sprintf("%v is not 1 (none) to 10", m.Backoff)},
		{m.Jitter >= 0 && m.Jitter <= 0.5, m.name("JITTER"), fmt.Sprintf("%v is not 0 to 0.5", m.Jitter)},
		{m.Successes >= 1, m.name("SUCCESSES"), fmt.Sprintf("%d is not positive", m.Successes)},
		{m.Probes >= m.Successes, m.name("PROBES"), fmt.Sprintf("%d is below %s (%d): half-open could never close", m.Probes, m.name("SUCCESSES"), m.Successes)},
		{m.HalfOpenFor >= m.ProbeTTL, m.name("HALF_OPEN_FOR"), fmt.Sprintf("%s is below %s, the longest a probe of %s can take (%s)", m.HalfOpenFor, m.ProbeTTL, p.Name, class)},
		{m.Quorum >= 1, m.name("QUORUM"), fmt.Sprintf("%d is not positive", m.Quorum)},
		{m.ActiveFor > 0, m.name("ACTIVE_FOR"), fmt.Sprintf("%s is not positive", m.ActiveFor)},
		{m.RampFor >= 0 && m.RampFor <= time.Hour, m.name("RAMP_FOR"), fmt.Sprintf("%s is not 0 (off) to 1h", m.RampFor)},
		{m.RampStart > 0, m.name("RAMP_START"), fmt.Sprintf("%v is not positive", m.RampStart)},
		{m.RampFull >= m.RampStart, m.name("RAMP_FULL"), fmt.Sprintf("%v is below %s (%v)", m.RampFull, m.name("RAMP_START"), m.RampStart)},
		{m.MaxInFlight >= 0, limit, fmt.Sprintf("%d is below 1; 0 is no limit", m.MaxInFlight)},
	} {
		if !rule.ok {
			errs = append(errs, fmt.Errorf("%s: %s", rule.name, rule.reason))
		}
	}
	if err := m.Validate(); err != nil && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s*: circuit %s/%s: %w", allCircuits, p.Name, class, err))
	}
	return errs
}
