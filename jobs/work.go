package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// Operation classes, each with a circuit of its own: lookups keep flowing while
// charges are blocked.
const (
	classCharge = "charge"
	classStatus = "status"
)

// Reasons a payment waits, as shown to people.
const (
	whyCircuit   = "circuit_open"
	whySaturated = "saturated" // all calls in flight that the provider is given are out
	whyRamp      = "ramp"      // the circuit closed lately and admits more and more
	whyPaused    = "paused"
	whyNoAnswer  = "lookup_unanswered"
)

// callContext returns the context of one provider call: it ends at the deadline, or
// with cause provider.ErrShutdown when this process stops. It is not derived from the
// job's cancellation, whose cause is River's own and would read as an expired deadline.
func (r *Runner) callContext(job context.Context, deadline time.Duration) (context.Context, context.CancelFunc) {
	base, stop := context.WithCancelCause(context.WithoutCancel(job))
	ctx, cancel := context.WithTimeout(base, deadline)
	shutdown := func() { stop(provider.ErrShutdown) }
	unhookJob := context.AfterFunc(job, shutdown)
	unhookStop := context.AfterFunc(r.stopping, shutdown)
	return ctx, func() {
		unhookJob()
		unhookStop()
		cancel()
		stop(nil)
	}
}

// stopped reports whether no further call may begin in this process.
func (r *Runner) stopped() bool { return r.stopping.Err() != nil }

// complete marks the job completed in tx. A job row that is gone or was taken away
// meanwhile is no reason to lose the outcome written in the same transaction: the
// payment's state makes any further run a no-op.
func complete[A river.JobArgs](ctx context.Context, tx pgx.Tx, job *river.Job[A]) error {
	_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
	if err != nil && !errors.Is(err, rivertype.ErrNotFound) {
		return fmt.Errorf("jobs: complete %s job %d: %w", job.Kind, job.ID, err)
	}
	return nil
}

// recordCall stores a provider call in tx, for the provider strip and tuning.
func (r *Runner) recordCall(ctx context.Context, tx pgx.Tx, l *lane, class string, v provider.Verdict, outcome, reason string, took time.Duration, payment *uuid.UUID) error {
	return r.cfg.Store.RecordCall(ctx, tx, r.callOutcome(l, class, v, outcome, reason, took, payment))
}

func (r *Runner) callOutcome(l *lane, class string, v provider.Verdict, outcome, reason string, took time.Duration, payment *uuid.UUID) store.CallOutcome {
	errClass := reason
	if v == provider.HealthOK {
		errClass = ""
	}
	return store.CallOutcome{
		At: r.cfg.Now(), Provider: l.settings.Name, Class: class, Verdict: string(v), Outcome: outcome,
		ErrorClass: errClass, Latency: took, Worker: r.cfg.Worker, PaymentID: payment,
	}
}

// raise stores an alert outside any other change.
func (r *Runner) raise(ctx context.Context, a store.Alert) error {
	return r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := r.cfg.Store.RaiseAlert(ctx, tx, a)
		return err
	})
}

// denied returns the denial in err, or nil.
func denied(err error) *breaker.Denied {
	var d *breaker.Denied
	if errors.As(err, &d) {
		return d
	}
	return nil
}

// orphan ends a job whose payment, operation or provider is missing: no call, an alert once.
func (r *Runner) orphan(ctx context.Context, kind, providerName string, id uuid.UUID, why string) error {
	subject := "Payment"
	if kind == kindOperation || kind == kindOpLookup {
		subject = "Operation"
	}
	return r.raise(ctx, store.Alert{
		Kind: "job_without_" + why, Severity: "warning", Provider: providerName,
		Title:     fmt.Sprintf("A %s job has no %s", kind, why),
		Detail:    fmt.Sprintf("%s %s at provider %q. Nothing was called.", subject, id, providerName),
		DedupeKey: fmt.Sprintf("job_without_%s:%s:%s", why, kind, id),
	})
}
