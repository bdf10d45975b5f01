package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// plan is what follows an attempt.
type plan struct {
	again       bool          // the job comes back after wait, having used no River attempt
	wait        time.Duration // ≥ 0
	retryAt     time.Time     // when the job comes back, for people
	reconcileAt time.Time     // when a lookup may be needed
}

// plan decides what follows. The job comes back only while the charge provably was
// not executed; everything else is for lookups, events and people.
func (c *charge) plan(charged provider.Charged) plan { return c.r.plan(c.lane, c.history, charged) }

func (r *Runner) plan(l *lane, h history, charged provider.Charged) plan {
	now, s := r.cfg.Now(), l.settings
	p := plan{reconcileAt: now.Add(firstLookup(s, charged.Quick))}
	switch charged.Outcome {
	case provider.NotSent:
		p.again, p.wait = true, retryPause(s, h.notSent+1)
		switch {
		case charged.Exchange.Cancelled:
			p.wait = 0 // our own shutdown: another worker may go on at once
		case charged.Next == provider.NextSnooze && charged.RetryAfter > 0:
			p.wait = throttled(s, h, charged.RetryAfter) // what it needs first says when to come back
		}
	case provider.NotExecuted:
		p.again, p.wait = true, throttled(s, h, charged.RetryAfter)
		if charged.Next == provider.NextPause { // the store pauses the queue in the same transaction
			p.wait = jitter(s.RetryPauses[len(s.RetryPauses)-1])
		}
	case provider.Unknown:
		if charged.Next == provider.NextSnooze && charged.RetryAfter > 0 {
			// The first call under our key is still running there: ask when it said.
			p.reconcileAt = now.Add(charged.RetryAfter)
		}
	}
	if p.again {
		p.retryAt = now.Add(p.wait)
	}
	return p
}

// throttled is the wait after a 425 or 429: never less than the provider asked for.
func throttled(s provider.Settings, h history, retryAfter time.Duration) time.Duration {
	if retryAfter <= 0 {
		return retryPause(s, h.attempts+1)
	}
	return returnAfter(retryAfter, time.Duration(float64(retryAfter)*jitterShare))
}

// withoutOwnAlerts leaves to the store the alerts that are raised nowhere else: a pause
// brings its own, and a repeated send is told per attempt, see alerts.
func withoutOwnAlerts(charged provider.Charged) provider.Charged {
	if charged.Alert == provider.AlertResent || charged.Next == provider.NextPause {
		charged.Alert = ""
	}
	return charged
}

// alerts are the facts about this attempt that people have to know beside those the
// classification raises. Each repeated send is an incident of its own.
func (c *charge) alerts(a store.Attempt, charged provider.Charged) []store.Alert {
	var out []store.Alert
	name, id := c.lane.settings.Name, c.payment.ID
	if charged.Exchange.WireSends > 1 {
		out = append(out, store.Alert{
			Kind: provider.AlertResent, Severity: "critical", Provider: name, PaymentID: &id,
			Title:     fmt.Sprintf("One attempt was sent %d times", charged.Exchange.WireSends),
			Detail:    "The transport repeated a money call by itself. Check this payment for duplicates at the provider.",
			DedupeKey: provider.AlertResent + ":" + a.ID.String(),
		})
	}
	if charged.Outcome == provider.NotSent && c.history.notSent+1 == maxTries(c.lane.settings) {
		// Once per provider and day: in an outage every payment would tell the same.
		out = append(out, store.Alert{
			Kind: "charge_not_leaving", Severity: "warning", Provider: name, PaymentID: &id,
			Title:     fmt.Sprintf("Charges do not reach %s", name),
			Detail:    fmt.Sprintf("%d tries, last: %s. The payment stays %s and is tried on at the low rate.", maxTries(c.lane.settings), charged.Reason, c.payment.Status),
			DedupeKey: "charge_not_leaving:" + name + ":" + c.r.cfg.Now().UTC().Format(time.DateOnly),
		})
	}
	return out
}

// wait notes why and until when the payment waits, and brings the job back then.
func (c *charge) wait(ctx context.Context, d time.Duration, why, detail string) error {
	err := c.r.cfg.Store.NoteWaiting(ctx, c.payment.ID, c.r.cfg.Now().Add(d), why, detail)
	if err != nil {
		return fmt.Errorf("jobs: note waiting: %w", err)
	}
	return river.JobSnooze(d)
}

// waitForCircuit comes back after the circuit's open time, spread out. It uses no
// attempt and never counts as success.
func (c *charge) waitForCircuit(ctx context.Context, d *breaker.Denied) error {
	return c.wait(ctx, c.r.backFrom(ctx, c.lane, d), whyDenied(d), d.Error())
}

// lookFirst asks a provider that keeps no keys whether an earlier attempt arrived
// after all, before any further one: without a key a second send would be a second
// charge. Attempts before this one provably were not sent, so an absence sends.
func (c *charge) lookFirst(ctx context.Context) (done bool, err error) {
	if c.lane.keys() || c.history.attempts == 0 || !c.lane.asks() {
		return false, nil
	}
	looked, err := c.r.ask(ctx, c.lane, c.payment, c.history)
	if d := denied(err); d != nil {
		return true, c.waitForCircuit(ctx, d)
	}
	if errors.Is(err, provider.ErrShutdown) {
		return true, river.JobSnooze(0)
	}
	if err != nil {
		return false, err
	}
	write, cancel := store.Detached(ctx)
	defer cancel()
	if err := c.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		done, err = c.writeLookFirst(ctx, tx, looked)
		return err
	}); err != nil {
		return false, fmt.Errorf("jobs: lookup before charge: %w", err)
	}
	if done || looked.Verdict == provider.LookupAbsent {
		return done, nil
	}
	return true, c.wait(ctx, retryPause(c.lane.settings, c.history.attempts), whyNoAnswer, looked.Reason)
}

// writeLookFirst applies what was found. done: it took the payment out of pending.
func (c *charge) writeLookFirst(ctx context.Context, tx pgx.Tx, looked provider.LookedUp) (done bool, err error) {
	if err := c.r.recordLookupCall(ctx, tx, c.lane, c.payment.ID, looked); err != nil {
		return false, err
	}
	if looked.Verdict != provider.LookupFound {
		return false, nil
	}
	policy := c.r.lookupPolicy(c.lane, 0)
	p, err := c.r.cfg.Store.RecordLookup(ctx, tx, c.payment.ID, looked, policy, store.System(kindCharge))
	if err != nil || p.Status == store.Pending {
		return false, err
	}
	return true, complete(ctx, tx, c.job)
}
