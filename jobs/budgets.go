package jobs

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/riverqueue/river"

	"fusebox/provider"
)

const (
	// commitSlack is what an attempt may take beyond its wire deadline to write its
	// outcome; until then it belongs to its worker.
	commitSlack = 5 * time.Second
	// lookupTries is how many requests one way of asking may cost (money-rules §4).
	lookupTries = 3
	// lookupPauses bounds the client's own pauses between those tries (200, 400 ms, jittered).
	lookupPauses = 2 * time.Second
	// jobSlack is what a job may take beyond its calls.
	jobSlack = 5 * time.Second
	// rescueSlack covers outcomes still being written, detached, when a job timed out.
	rescueSlack = 15 * time.Second
	// longestCall is the longest deadline accepted: a job must stay short enough for
	// a killed process's work to be rescued within minutes.
	longestCall = 5 * time.Minute
)

// queueName is the part of River's queue name rule that a provider's name has to meet.
var queueName = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// longestName leaves room for the queue prefix within River's 64 characters.
const longestName = 48

// Budget is what one provider can cost, printed at start.
type Budget struct {
	Provider string
	Workers  int
	// HangSeconds is workers × whole-answer deadline: worker seconds one hang can hold.
	HangSeconds float64
	// RequestsPerCharge is the worst case of requests on the wire that one charge
	// operation causes before people are told: its tries, of which only one can have been
	// executed, and one cheap read before each if the adapter declares one, since each
	// may be the probe of a half-open circuit.
	RequestsPerCharge int
	RequestsPerLookup int // worst case of HTTP requests of one lookup
	// RequestsPerOperation and RequestsPerOperationLookup are the same of what is done to a
	// charge (a refund); 0 where nothing can be.
	RequestsPerOperation, RequestsPerOperationLookup int
	// AttemptDeadline < JobTimeout < RescueAfter; see CheckBudgets.
	AttemptDeadline, JobTimeout, RescueAfter time.Duration
}

// attemptDeadline is the deadline of one money call on the wire.
func attemptDeadline(s provider.Settings) time.Duration { return s.AnswerTimeout }

// attemptOwned is how long an attempt without outcome belongs to its worker.
func attemptOwned(s provider.Settings) time.Duration { return attemptDeadline(s) + commitSlack }

// pingDeadline is the deadline of the one cheap read that may precede a charge.
func pingDeadline(s provider.Settings) time.Duration { return s.AnswerTimeout }

// lookupDeadline is the deadline of one lookup, its own retries included.
func lookupDeadline(s provider.Settings) time.Duration {
	return lookupTries*s.AnswerTimeout + lookupPauses
}

// jobTimeout is the timeout of a provider's jobs, by the longest of them: a lookup, a
// read before the probe and a charge in one run, which providers without keys need, or a
// sync's slice with one more page; each after waiting for a slot.
func jobTimeout(s provider.Settings) time.Duration {
	return lookupDeadline(s) + max(pingDeadline(s)+attemptOwned(s), syncSlice) + 2*slotWait + jobSlack
}

// PermitHeld is the longest time that a call of a class can hold its circuit's permit,
// with slack: the lease of a probe, or of a slot of the global bulkhead, must outlive it.
func PermitHeld(s provider.Settings, class string) time.Duration {
	s = s.WithDefaults()
	if class == classStatus {
		return lookupDeadline(s) + commitSlack
	}
	return pingDeadline(s) + attemptOwned(s)
}

// requestsPerCharge counts the tries, and the reads that may precede them.
func requestsPerCharge(s provider.Settings, c provider.Capabilities) int {
	if c.Ping {
		return 2 * maxTries(s)
	}
	return maxTries(s)
}

// requestsPerLookup counts every declared way of asking with its tries.
func requestsPerLookup(c provider.Capabilities) int {
	n := 0
	for _, w := range []provider.Way{provider.ByReference, provider.ByKey, provider.ByID} {
		if c.Has(w) {
			n += lookupTries
		}
	}
	if c.Has(provider.ByReference) {
		n += c.ListPages // where the list has to be read through
	}
	if n == 0 && c.CanReplay() {
		n = 1 // the same key and bytes once more, instead of a question
	}
	return n
}

// CheckBudgets refuses settings in which connect < answer deadline < job timeout < rescue
// does not hold, naming the setting, and returns what to print. River knows one
// rescue time, so it follows from the slowest provider.
func CheckBudgets(ps []provider.Settings, reg *provider.Registry) ([]Budget, error) {
	var errs []error
	budgets := make([]Budget, 0, len(ps))
	for _, s := range ps {
		s = s.WithDefaults()
		adapter, ok := reg.Get(s.Name)
		if !ok {
			errs = append(errs, fmt.Errorf("provider %q: no adapter is registered under this name", s.Name))
			continue
		}
		if err := checkSettings(s, adapter.Capabilities()); err != nil {
			errs = append(errs, fmt.Errorf("provider %q: %w", s.Name, err))
		}
		if _, can := adapter.(provider.Operator); !can && len(adapter.Capabilities().Operations) > 0 {
			errs = append(errs, fmt.Errorf("provider %q: its adapter declares operations and can do none", s.Name))
		}
		budgets = append(budgets, budgetOf(s, adapter.Capabilities()))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slowest := time.Duration(0)
	for _, b := range budgets {
		slowest = max(slowest, b.JobTimeout)
	}
	for i := range budgets {
		budgets[i].RescueAfter = slowest + rescueSlack
	}
	return budgets, nil
}

func budgetOf(s provider.Settings, c provider.Capabilities) Budget {
	b := Budget{
		Provider: s.Name, Workers: s.ChargeWorkers,
		HangSeconds:       float64(s.ChargeWorkers) * s.AnswerTimeout.Seconds(),
		RequestsPerCharge: requestsPerCharge(s, c),
		RequestsPerLookup: requestsPerLookup(c),
		AttemptDeadline:   attemptDeadline(s), JobTimeout: jobTimeout(s),
	}
	if len(c.Operations) > 0 { // they go the way of a charge, and are looked up in the same ways
		b.RequestsPerOperation, b.RequestsPerOperationLookup = b.RequestsPerCharge, b.RequestsPerLookup
	}
	return b
}

// refuse names a setting by its field, as Settings.Validate does.
func refuse(field, format string, args ...any) error {
	return &provider.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// checkSettings names the first setting that cannot work.
func checkSettings(s provider.Settings, c provider.Capabilities) error {
	switch {
	case !queueName.MatchString(s.Name) || len(s.Name) > longestName:
		return refuse("name", "has at most %d lower-case letters, digits, single - or _ between them; it is part of queue names", longestName)
	case s.ConnectTimeout <= 0:
		return refuse("connect_timeout", "must be above zero")
	case s.ConnectTimeout >= s.AnswerTimeout:
		return refuse("connect_timeout", "%s must be below answer_timeout (%s)", s.ConnectTimeout, s.AnswerTimeout)
	case s.AnswerTimeout > longestCall:
		return refuse("answer_timeout", "%s is above %s: a killed process's work would wait too long", s.AnswerTimeout, longestCall)
	case !workers(s.ChargeWorkers):
		return refuse("charge_workers", "%d must be from 1 to %d", s.ChargeWorkers, river.QueueNumWorkersMax)
	case !workers(s.StatusWorkers):
		return refuse("status_workers", "%d must be from 1 to %d", s.StatusWorkers, river.QueueNumWorkersMax)
	case !s.NoKeys && s.KeyLife <= attemptOwned(s):
		return refuse("key_life", "%s must be above one attempt (%s)", s.KeyLife, attemptOwned(s))
	}
	return checkPacing(s, c)
}

func workers(n int) bool { return n >= 1 && n <= river.QueueNumWorkersMax }

// checkPacing checks the settings that decide when things happen again.
func checkPacing(s provider.Settings, c provider.Capabilities) error {
	positive := []struct {
		name   string
		values []time.Duration
	}{
		{"retry_pauses", s.RetryPauses},
		{"reconcile_pauses", s.ReconcilePauses},
		{"quick_reconcile", []time.Duration{s.QuickReconcile}},
		{"absent_horizon", []time.Duration{s.AbsentHorizon}},
		{"sync_every", []time.Duration{s.SyncEvery}},
		{"sync_overlap", []time.Duration{s.SyncOverlap}},
		{"sync_pause", []time.Duration{s.SyncPause}},
	}
	for _, p := range positive {
		for _, d := range p.values {
			if d <= 0 {
				return refuse(p.name, "%s is not above zero", d)
			}
		}
	}
	switch {
	case s.OnAbsent != "fail" && s.OnAbsent != "recharge":
		return refuse("on_absent", "%q is neither fail nor recharge", s.OnAbsent)
	case s.OnAbsent == "recharge" && (s.NoKeys || !c.IdempotencyKeys):
		return refuse("on_absent", "recharge needs a provider that honours idempotency keys")
	}
	return nil
}
