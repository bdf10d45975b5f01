package breaker

import (
	"fmt"
	"sort"
)

// finished is one report.
type finished struct {
	token, epoch string
	verdict      Verdict
	slow         bool
	entry        string // "class|sample" of a failure
	probe        bool
	worker       string
	rnd          float64
}

// forgotten is after how many seconds without a report a worker is dropped.
const forgotten = 3600

// Outcomes of report.
const (
	counted = "counted"
	fenced  = "fenced" // the circuit changed since the permit
	late    = "late"   // the probe's lease ended
)

// report takes the verdict of a call.
func (c *circuit) report(now int64, f finished) string {
	delete(c.leases, f.token)
	outcome := counted
	if f.epoch != c.epoch {
		outcome = fenced
	} else if f.probe {
		deadline, held := c.probes[f.token]
		delete(c.probes, f.token)
		if !held || deadline <= now {
			outcome = late
		}
	}
	c.tally(now, f, outcome)
	switch {
	case outcome != counted:
	case c.state == Closed:
		c.reportClosed(now, f)
	case c.state == HalfOpen && f.probe:
		c.reportProbe(now, f)
	}
	return outcome
}

// tally counts the call: the total always, its second's bucket only in its own era.
func (c *circuit) tally(now int64, f finished, outcome string) {
	sec, width := now/1e6, int64(c.set.RateWindow.Seconds())
	c.total.add(f)
	c.workers[f.worker] = sec
	if f.slow {
		c.slow[f.worker] = sec
	}
	if outcome != counted {
		c.total.Fenced++
		return
	}
	for s := range c.buckets {
		if s <= sec-width {
			delete(c.buckets, s)
		}
	}
	b := c.buckets[sec]
	if b == nil {
		b = &Counts{}
		c.buckets[sec] = b
	}
	b.add(f)
}

func (n *Counts) add(f finished) {
	switch f.verdict {
	case OK:
		n.OK++
	case Fail:
		n.Fail++
	default:
		n.Neutral++
	}
	if f.slow {
		n.Slow++
	}
}

// keep is how many failures are remembered.
func (c *circuit) keep() int { return max(c.set.Failures, 20) }

func (c *circuit) remember(now int64, f finished) {
	entry := fmt.Sprintf("%d|%s|%s", now, f.worker, f.entry)
	c.failures = append([]string{entry}, c.failures...)
	if len(c.failures) > c.keep() {
		c.failures = c.failures[:c.keep()]
	}
}

// recent returns the latest failures of this era, newest first: n of them at most, and
// none before a time.
func (c *circuit) recent(n int, after int64) []string {
	var run []string
	for _, f := range c.failures[:min(n, len(c.failures))] {
		if at := parseFailure(f).At.UnixMicro(); at >= after && at >= c.since {
			run = append(run, f)
		}
	}
	return run
}

func (c *circuit) reportClosed(now int64, f finished) {
	switch f.verdict {
	case Fail:
		c.fails++
		c.remember(now, f)
	case OK:
		c.fails = 0
	}
	if c.mode != ForcedClosed && (f.verdict == Fail || f.slow) {
		c.judge(now, f)
	}
}

// reportProbe: only a probe whose lease still holds moves a half-open circuit. The
// lease of a neutral one is free again already.
func (c *circuit) reportProbe(now int64, f finished) {
	failed := f.verdict == Fail
	if failed || (f.verdict == OK && f.slow && c.set.SlowRate > 0) {
		if failed {
			c.remember(now, f)
		}
		c.reopens++
		c.open(now, ReasonProbeFailed, c.recent(1, 0), f.rnd)
		return
	}
	if f.verdict != OK {
		return
	}
	if c.wins++; c.wins >= c.set.Successes {
		c.move(now, Closed, occurrence{reason: ReasonProbesSucceeded})
	}
}

func (c *circuit) open(now int64, reason string, run []string, rnd float64) {
	c.til = now + c.reopenAfter(rnd)
	c.move(now, Open, occurrence{reason: reason, run: run})
}

// judge opens the circuit if a rule holds and enough workers see it; otherwise it
// names the one that does.
func (c *circuit) judge(now int64, f finished) {
	reason, run := c.rule(now)
	if reason == "" {
		return
	}
	bad := c.lone(now, run, f.worker)
	if bad == "" {
		c.open(now, reason, run, f.rnd)
		return
	}
	if !c.blamed[bad] {
		c.blamed[bad] = true
		c.emit(occurrence{kind: KindBadWorker, epoch: c.epoch + "/" + bad, reason: ReasonBadWorker, note: bad,
			from: c.state, to: c.state, run: run, settings: c.encoded, at: now})
	}
}

// rule returns the opening rule that holds now, and the failures behind it.
func (c *circuit) rule(now int64) (string, []string) {
	s := c.set
	if s.Failures > 0 && s.Window > 0 {
		if run := c.recent(c.keep(), now-s.Window.Microseconds()); len(run) >= s.Failures {
			return ReasonWindow, run
		}
	} else if s.Failures > 0 && c.fails >= s.Failures {
		return ReasonConsecutive, c.recent(min(c.fails, c.keep()), 0)
	}
	if s.Rate == 0 && s.SlowRate == 0 {
		return "", nil
	}
	sum := c.sums(now)
	calls := float64(sum.Calls())
	if calls == 0 || sum.Calls() < s.MinCalls {
		return "", nil
	}
	if s.Rate > 0 && float64(sum.Fail)/calls >= s.Rate {
		return ReasonRate, c.recent(c.keep(), now-s.RateWindow.Microseconds())
	}
	if s.SlowRate > 0 && float64(sum.Slow)/calls >= s.SlowRate {
		return ReasonSlow, c.sluggish(now)
	}
	return "", nil
}

// sums adds up the buckets of the window that belong to this era.
func (c *circuit) sums(now int64) Counts {
	var sum Counts
	sec, width := now/1e6, int64(c.set.RateWindow.Seconds())
	for s, b := range c.buckets {
		if s > sec-width && s <= sec && s >= c.since/1e6 {
			sum.OK, sum.Fail = sum.OK+b.OK, sum.Fail+b.Fail
			sum.Neutral, sum.Slow = sum.Neutral+b.Neutral, sum.Slow+b.Slow
		}
	}
	return sum
}

// sluggish lists the workers that saw slow calls in the window, as evidence.
func (c *circuit) sluggish(now int64) []string {
	var run []string
	for w, sec := range c.slow {
		if now/1e6-sec < int64(c.set.RateWindow.Seconds()) {
			run = append(run, fmt.Sprintf("%d|%s|slow|", sec*1e6, w))
		}
	}
	sort.Strings(run)
	return run
}

// lone returns the worker that alone sees failures while others are active, or "".
func (c *circuit) lone(now int64, run []string, me string) string {
	seen, last := map[string]bool{}, ""
	for _, entry := range run {
		w := parseFailure(entry).Worker
		if last == "" {
			last = w
		}
		seen[w] = true
	}
	active := 0
	for w, sec := range c.workers {
		age := now/1e6 - sec
		if age > forgotten {
			delete(c.workers, w)
		} else if age*1e6 <= c.set.ActiveFor.Microseconds() {
			active++
		}
	}
	if len(seen) >= c.set.Quorum || len(seen) >= active {
		return ""
	}
	if last == "" {
		return me
	}
	return last
}
