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

// operator returns the adapter's way to do a kind of operation, if it has one.
func (l *lane) operator(kind provider.OperationKind) (provider.Operator, bool) {
	operator, ok := l.adapter.(provider.Operator)
	return operator, ok && l.adapter.Capabilities().Can(kind)
}

// wait notes why and until when the operation waits, and brings the job back then.
func (o *operation) wait(ctx context.Context, d time.Duration, why, detail string) error {
	if err := o.r.cfg.Store.NoteOperationWaiting(ctx, o.op.ID, o.r.cfg.Now().Add(d), why, detail); err != nil {
		return fmt.Errorf("jobs: note waiting: %w", err)
	}
	return river.JobSnooze(d)
}

// waitForCircuit comes back when the circuit may admit again, see charge.waitForCircuit.
func (o *operation) waitForCircuit(ctx context.Context, d *breaker.Denied) error {
	return o.wait(ctx, o.r.backFrom(ctx, o.lane, d), whyDenied(d), d.Error())
}

// readFirst makes the cheap read before a probe, see charge.readFirst.
func (o *operation) readFirst(ctx context.Context, permit breaker.Permit) (done bool, err error) {
	pinger, ok := provider.AsPinger(o.lane.adapter)
	if !ok || !permit.Probe() {
		return false, nil
	}
	call, cancel := o.r.callContext(ctx, pingDeadline(o.lane.settings))
	defer cancel()
	pinged := pinger.Ping(call)
	if errors.Is(context.Cause(call), provider.ErrShutdown) {
		return true, river.JobSnooze(0)
	}
	failed := pinged.Health == provider.HealthFail
	if failed {
		permit.Report(context.WithoutCancel(ctx), breaker.Fail, pinged.Exchange.Latency(), pinged.Reason, o.op.PaymentID.String())
	}
	if err := o.r.noteProbeRead(ctx, o.lane, o.op.PaymentID, pinged); err != nil || !failed {
		return failed, err
	}
	d := o.r.reopened(ctx, breaker.Key{Name: o.lane.settings.Name, Class: classCharge})
	return true, o.wait(ctx, o.r.backFrom(ctx, o.lane, d), whyCircuit, "the read before the probe failed: "+pinged.Reason)
}

// lookFirst asks a provider that keeps no keys whether an earlier attempt arrived after
// all, before any further one, see charge.lookFirst.
func (o *operation) lookFirst(ctx context.Context) (done bool, err error) {
	if o.lane.keys() || o.history.attempts == 0 || !o.lane.asks() {
		return false, nil
	}
	looked, err := o.r.askOperation(ctx, o.lane, o.operator, o.op)
	if d := denied(err); d != nil {
		return true, o.waitForCircuit(ctx, d)
	}
	if errors.Is(err, provider.ErrShutdown) {
		return true, river.JobSnooze(0)
	}
	if err != nil {
		return false, err
	}
	write, cancel := store.Detached(ctx)
	defer cancel()
	err = o.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		done = false
		if err := o.r.recordLookupCall(ctx, tx, o.lane, o.op.PaymentID, looked); err != nil || looked.Verdict != provider.LookupFound {
			return err
		}
		op, err := o.r.cfg.Store.RecordOperationLookup(ctx, tx, o.op.ID, looked, o.r.lookupPolicy(o.lane, 0), store.System(kindOperation))
		if err != nil || op.Status == store.Pending {
			return err
		}
		done = true
		return complete(ctx, tx, o.job)
	})
	if err != nil {
		return false, fmt.Errorf("jobs: lookup before %s: %w", o.op.Kind, err)
	}
	if done || looked.Verdict == provider.LookupAbsent {
		return done, nil
	}
	return true, o.wait(ctx, retryPause(o.lane.settings, o.history.attempts), whyNoAnswer, looked.Reason)
}
