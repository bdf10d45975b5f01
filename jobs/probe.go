package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
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
	if err := c.noteRead(ctx, pinged); err != nil || !failed {
		return failed, err
	}
	d := c.r.reopened(ctx, breaker.Key{Name: c.lane.settings.Name, Class: classCharge})
	return true, c.wait(ctx, c.r.backFrom(ctx, c.lane, d), whyCircuit, "the read before the probe failed: "+pinged.Reason)
}

// noteRead keeps the read with the payment it was made for and among the calls.
func (c *charge) noteRead(ctx context.Context, pinged provider.Pinged) error {
	write, cancel := store.Detached(ctx)
	defer cancel()
	err := c.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		id := c.payment.ID
		if err := c.r.cfg.Store.NoteProbeRead(ctx, tx, id, pinged); err != nil {
			return err
		}
		return c.r.recordCall(ctx, tx, c.lane, classPing, pinged.Health, "read", pinged.Reason, pinged.Exchange.Latency(), &id)
	})
	if err != nil {
		return fmt.Errorf("jobs: read before the probe: %w", err)
	}
	return nil
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
