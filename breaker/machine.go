package breaker

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// circuit is the state machine of one circuit in memory: the Go twin of the scripts
// in lua/. It does no I/O and has no clock; times are microseconds. A test drives
// both twins with the same calls and compares every answer, so a change here is a
// change there.
type circuit struct {
	set     Settings
	encoded string
	emit    func(occurrence)

	view
	wins     int
	rampFrom int64
	tokens   float64
	refilled int64
	blamed   map[string]bool // workers named in this era

	probes, leases map[string]int64 // token → deadline
	failures       []string         // entries, newest first
	buckets        map[int64]*Counts
	total          Counts
	workers, slow  map[string]int64 // worker → second of its latest report, slow call
}

// view is the part of a circuit that a worker remembers of the shared one.
type view struct {
	epoch          string
	state          State
	since, til     int64
	fails, reopens int
	mode           Mode
	modeTil        int64
	why            string
}

// unseen is a circuit nobody ever changed.
func unseen() view { return view{epoch: "0", state: Closed} }

// pack is the form adopt in common.lua reads.
func (v view) pack() string {
	return fmt.Sprintf("%s|%s|%d|%d|%d|%d|%s|%d|%s|", v.epoch, v.state, v.since, v.til,
		v.fails, v.reopens, v.mode, v.modeTil, v.why)
}

// older compares epochs as strings of digits.
func older(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func newCircuit(s Settings, v view, emit func(occurrence)) *circuit {
	return &circuit{set: s, encoded: s.encode(), emit: emit, view: v,
		probes: map[string]int64{}, leases: map[string]int64{}, buckets: map[int64]*Counts{},
		blamed: map[string]bool{}, workers: map[string]int64{}, slow: map[string]int64{}}
}

// move makes a transition: a new epoch fences every call admitted before it.
func (c *circuit) move(now int64, to State, o occurrence) {
	o.kind, o.from, o.to, o.at, o.settings = KindTransition, c.state, to, now, c.encoded
	n, _ := strconv.ParseInt(c.epoch, 10, 64)
	c.epoch = strconv.FormatInt(max(n+1, now), 10)
	c.state, c.since, c.wins = to, now, 0
	clear(c.blamed)
	clear(c.probes)
	same := o.reason == ReasonMetricsOnly || o.reason == ReasonOverrideExpired
	switch {
	case same:
	case to == Open:
		c.why = o.reason
	case to == Closed:
		c.fails, c.til, c.reopens = 0, 0, 0
		c.rampFrom, c.tokens, c.refilled = 0, 0, now
		if c.set.RampFor > 0 {
			c.rampFrom, c.tokens = now, 1
		}
		delete(c.buckets, now/1e6)
	}
	o.epoch = c.epoch
	c.emit(o)
}

// reopenAfter is the open time with backoff and jitter.
func (c *circuit) reopenAfter(rnd float64) int64 {
	d := float64(c.set.OpenFor.Microseconds()) * math.Pow(c.set.Backoff, float64(c.reopens))
	d = min(d, float64(c.set.OpenMax.Microseconds()))
	return int64(math.Floor(d * (1 + c.set.Jitter*(2*rnd-1))))
}

// latestOpen is the end of the longest opening that could begin now.
func (c *circuit) latestOpen(now int64) int64 {
	return now + int64(math.Floor(float64(c.set.OpenMax.Microseconds())*(1+c.set.Jitter)))
}

// expire ends an override whose time is over.
func (c *circuit) expire(now int64) {
	if c.mode == "" || c.modeTil == 0 || now < c.modeTil {
		return
	}
	was := c.mode
	c.mode, c.modeTil = "", 0
	if was == ForcedOpen {
		return // an open circuit whose time is over: the next call is a probe
	}
	if was == ForcedClosed {
		c.fails = 0
	}
	c.move(now, c.state, occurrence{reason: ReasonOverrideExpired, note: string(was)})
}

// Answers of permit beside the Denied… reasons.
const (
	admitted      = "admit"
	admittedProbe = "probe"
)

// permit decides about one call: admitted, admittedProbe, or a refusal and how long
// to wait.
func (c *circuit) permit(now int64, token string) (code string, retry int64) {
	c.expire(now)
	code, retry = c.decide(now, token)
	granted := code == admitted || code == admittedProbe
	if !granted && code != DeniedSaturated && (c.mode == ForcedClosed || c.mode == MetricsOnly) {
		code, retry, granted = admitted, 0, true
		if _, busy := c.full(now); busy {
			code, retry, granted = DeniedSaturated, 1e6, false
		}
	}
	if granted && c.set.MaxInFlight > 0 {
		c.leases[token] = now + c.set.LeaseTTL.Microseconds()
	}
	return code, retry
}

func (c *circuit) decide(now int64, token string) (string, int64) {
	if c.state == Open && now < c.til {
		if c.mode == ForcedOpen {
			return DeniedForcedOpen, c.til - now
		}
		c.til = min(c.til, c.latestOpen(now)) // the clock may have gone back
		return DeniedOpen, c.til - now
	}
	if until, busy := c.full(now); busy {
		return DeniedSaturated, min(max(until-now, 1), 1e6)
	}
	if c.state == Closed {
		if wait := c.ramp(now); wait > 0 {
			return DeniedRamp, wait
		}
		return admitted, 0
	}
	if c.state == Open {
		c.move(now, HalfOpen, occurrence{reason: ReasonOpenTimeOver})
	}
	if until, busy := c.probe(now, token); busy {
		return DeniedProbing, min(max(until-now, 1), 2e6)
	}
	return admittedProbe, 0
}

// prune drops leases that ended, or that a faster clock gave, and returns the earliest
// end of the rest.
func prune(leases map[string]int64, now, ttl int64) int64 {
	earliest := int64(math.MaxInt64)
	for token, until := range leases {
		if until <= now || until > now+ttl {
			delete(leases, token)
		} else {
			earliest = min(earliest, until)
		}
	}
	return earliest
}

// full reports whether the bulkhead is full, and until when at the latest.
func (c *circuit) full(now int64) (until int64, busy bool) {
	if c.set.MaxInFlight == 0 || len(c.leases) < c.set.MaxInFlight {
		return 0, false
	}
	until = prune(c.leases, now, c.set.LeaseTTL.Microseconds())
	return until, len(c.leases) >= c.set.MaxInFlight
}

// ramp takes a token of the growing rate after a closing; 0: admitted, else the wait.
func (c *circuit) ramp(now int64) int64 {
	if c.rampFrom == 0 {
		return 0
	}
	age, dur := now-c.rampFrom, c.set.RampFor.Microseconds()
	if age >= dur {
		c.rampFrom = 0
		return 0
	}
	rate := c.set.RampStart + (c.set.RampFull-c.set.RampStart)*float64(age)/float64(dur)
	tokens := min(c.tokens+float64(now-c.refilled)*rate/1e6, max(1, rate))
	wait := int64(0)
	if tokens >= 1 {
		tokens--
	} else {
		wait = int64(math.Ceil((1 - tokens) * 1e6 / rate))
	}
	// Rounded as the script stores it, so that the twins stay equal.
	c.tokens, _ = strconv.ParseFloat(strconv.FormatFloat(tokens, 'f', 6, 64), 64)
	c.refilled = now
	return wait
}

// probe reserves a half-open slot, or says when the earliest holder's lease ends.
func (c *circuit) probe(now int64, token string) (until int64, busy bool) {
	until = prune(c.probes, now, c.set.ProbeTTL.Microseconds())
	if len(c.probes) == 0 && now-c.since >= c.set.HalfOpenFor.Microseconds() {
		c.move(now, HalfOpen, occurrence{reason: ReasonHalfOpenOver})
	}
	if len(c.probes) >= c.set.Probes {
		return until, true
	}
	c.probes[token] = now + c.set.ProbeTTL.Microseconds()
	return 0, false
}

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
	switch {
	case f.verdict == Fail:
		c.fails++
		c.remember(now, f)
	case f.verdict == OK:
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

// Actions of operate beside the modes.
const (
	actionReset = "reset"
	actionProbe = "probe_once"
)

// operate changes the circuit for a person, if it is still the one they looked at.
func (c *circuit) operate(now int64, action, expected, actor, note string, duration int64) error {
	if c.epoch != expected {
		return ErrEpoch
	}
	c.expire(now)
	o := occurrence{reason: action, actor: actor, note: note}
	switch Mode(action) {
	case ForcedOpen:
		c.override(now, action, duration)
		c.til = c.modeTil
		c.move(now, Open, o)
		return nil
	case ForcedClosed:
		c.override(now, action, duration)
		c.move(now, Closed, o)
		return nil
	case MetricsOnly:
		c.override(now, action, duration)
		c.move(now, c.state, o)
		return nil
	}
	if action == actionProbe {
		if c.state != Open || c.mode != "" {
			return ErrNotOpen
		}
		c.move(now, HalfOpen, o)
		return nil
	}
	c.mode, c.modeTil = "", 0
	c.move(now, Closed, o)
	return nil
}

func (c *circuit) override(now int64, action string, duration int64) {
	c.mode, c.modeTil = Mode(action), 0
	if duration > 0 {
		c.modeTil = now + duration
	}
}

// snapshot is the circuit as it is.
func (c *circuit) snapshot(k Key, now int64) Snapshot {
	s := c.view.snapshot(k, c.set, now)
	for token, until := range c.probes {
		if until > now {
			s.Probes = append(s.Probes, Lease{Token: token, Until: moment(until)})
		}
	}
	s.ProbesHeld = len(s.Probes)
	for _, until := range c.leases {
		if until > now {
			s.InFlight++
		}
	}
	for _, f := range c.failures[:min(20, len(c.failures))] {
		s.Recent = append(s.Recent, parseFailure(f))
	}
	if len(s.Recent) > 0 {
		s.LastError = s.Recent[0].Class
	}
	s.Window, s.Total = c.sums(now), c.total
	for w, sec := range c.workers {
		if now/1e6-sec <= forgotten {
			s.Workers = append(s.Workers, Seen{Worker: w, At: moment(sec * 1e6)})
		}
	}
	s.order()
	return s
}

// snapshot shows what a view knows.
func (v view) snapshot(k Key, set Settings, now int64) Snapshot {
	s := Snapshot{Key: k, State: v.state, Epoch: v.epoch, Since: moment(v.since), Consecutive: v.fails,
		OpenReason: v.why, Reopens: v.reopens, Settings: set}
	if v.state == Open {
		s.OpenUntil = moment(v.til)
	}
	if v.mode != "" && (v.modeTil == 0 || now < v.modeTil) {
		s.Mode, s.ModeUntil = v.mode, moment(v.modeTil)
	}
	return s
}

// order makes a snapshot's lists stable.
func (s *Snapshot) order() {
	sort.Slice(s.Workers, func(i, j int) bool { return s.Workers[i].Worker < s.Workers[j].Worker })
	sort.Slice(s.Probes, func(i, j int) bool { return s.Probes[i].Token < s.Probes[j].Token })
}

// short bounds a person's words.
func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), 1000)], "") }

// clean makes text safe as a field of an entry.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '|' || r < ' ' {
			return '_'
		}
		return r
	}, s)
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "")
	}
	return s
}
