package jobs

import (
	"context"
	"errors"

	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
)

// classPing is the class under which a read before a probe stands in call_outcomes. It
// is no charge and no lookup: neither of their success rates should move by it.
const classPing = "ping"

// readFirst makes the cheap read that the adapter declares, when this charge would be
// the probe of a half-open circuit. If the read fails, so has the probe: the charge is
// not sent, no attempt is made and the payment waits for the circuit. Whatever hits
// charges only is still found out by the charge itself. done: the charge must not go.
func (c *charge) readFirst(ctx context.Context, permit breaker.Permit) (done bool, err error) {
	pinger, ok := provider.AsPinger(c.lane.adapter)
	if !ok || !permit.Probe() {
		return false, nil
	}
	call, cancel := c.r.callContext(ctx, pingDeadline(c.lane.settings))
	defer cancel()
	pinged := pinger.Ping(call)
	if errors.Is(context.Cause(call), provider.ErrShutdown) {
		return true, river.JobSnooze(0)
	}
	failed := pinged.Health == provider.HealthFail
	if failed {
		permit.Report(context.WithoutCancel(ctx), breaker.Fail, pinged.Exchange.Latency(), pinged.Reason, c.payment.ID.String())
	}
	if err := c.r.noteProbeRead(ctx, c.lane, c.payment.ID, pinged); err != nil || !failed {
		return failed, err
	}
	d := c.r.reopened(ctx, breaker.Key{Name: c.lane.settings.Name, Class: classCharge})
	return true, c.wait(ctx, c.r.backFrom(ctx, c.lane, d), whyCircuit, "the read before the probe failed: "+pinged.Reason)
}

// reopened is the denial that a probe which has just failed stands before. The open time
// is taken as a length, not as a moment: the circuit's clock need not be ours.
func (r *Runner) reopened(ctx context.Context, k breaker.Key) *breaker.Denied {
	d := &breaker.Denied{Key: k, Reason: breaker.DeniedOpen}
	if snap, err := r.cfg.Breaker.Snapshot(ctx, k); err == nil && snap.State == breaker.Open {
		d.RetryAfter = max(snap.OpenUntil.Sub(snap.Since), 0)
	}
	return d
}
