package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// operationLookupWorker asks the provider what became of an operation. It never gives
// up into failed, see reconcileWorker.
type operationLookupWorker struct {
	river.WorkerDefaults[operationLookupArgs]
	r *Runner
}

// Timeout implements river.Worker.
func (w *operationLookupWorker) Timeout(job *river.Job[operationLookupArgs]) time.Duration {
	if l, ok := w.r.lanes[job.Args.Provider]; ok {
		return jobTimeout(l.settings)
	}
	return 0
}

// Work implements river.Worker.
func (w *operationLookupWorker) Work(ctx context.Context, job *river.Job[operationLookupArgs]) error {
	id := job.Args.OperationID
	l, ok := w.r.lanes[job.Args.Provider]
	if !ok {
		return errors.Join(w.r.orphan(ctx, kindOpLookup, job.Args.Provider, id, "provider"), river.JobSnooze(time.Hour))
	}
	op, err := w.r.cfg.Store.Operation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return w.r.orphan(ctx, kindOpLookup, job.Args.Provider, id, "operation")
	}
	if err != nil {
		return fmt.Errorf("jobs: operation lookup: %w", err)
	}
	operator, can := l.operator(op.Kind)
	if !can || !l.asks() && !l.canReplay() {
		return nil // the sweep marks it for a person; asking would prove nothing
	}
	if !needsOperationLookup(op) {
		return w.leave(ctx, job, l)
	}
	if l.replaysOperation(op) || !l.asks() {
		if ask, err := w.replay(ctx, job, l); err != nil || !ask {
			return err
		}
	}
	looked, err := w.r.askOperation(ctx, l, operator, op)
	if d := denied(err); d != nil {
		return w.wait(ctx, l, op, d)
	}
	if errors.Is(err, provider.ErrShutdown) {
		return river.JobSnooze(0)
	}
	if err != nil {
		return err
	}
	return w.write(ctx, job, l, op, looked)
}

// needsOperationLookup reports whether the provider's answer could change anything.
func needsOperationLookup(op store.Operation) bool {
	switch op.Status {
	case store.Unknown, store.Processing:
		return true
	case store.Pending:
		return false
	}
	return len(op.NeedsReview) > 0
}

// leave completes the job under the payment's row lock, see reconcileWorker.leave.
func (w *operationLookupWorker) leave(ctx context.Context, job *river.Job[operationLookupArgs], l *lane) error {
	again := false
	err := w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		op, err := w.r.cfg.Store.LockOperation(ctx, tx, job.Args.OperationID)
		if err != nil {
			return err
		}
		if again = needsOperationLookup(op); again {
			return nil
		}
		return complete(ctx, tx, job)
	})
	if err == nil && again {
		return river.JobSnooze(l.settings.QuickReconcile)
	}
	return err
}

// write applies the answer; if it settles the operation, the job is completed with it.
func (w *operationLookupWorker) write(ctx context.Context, job *river.Job[operationLookupArgs], l *lane, op store.Operation, looked provider.LookedUp) error {
	write, cancel := store.Detached(ctx)
	defer cancel()
	var after store.Operation
	err := w.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) (err error) {
		after, err = w.r.cfg.Store.RecordOperationLookup(ctx, tx, op.ID, looked, w.r.lookupPolicy(l, op.Lookups+1), store.System(kindOpLookup))
		if err != nil {
			return err
		}
		if err := w.r.recordLookupCall(ctx, tx, l, op.PaymentID, looked); err != nil || !after.Status.Final() {
			return err
		}
		return complete(ctx, tx, job)
	})
	switch {
	case err != nil:
		return fmt.Errorf("jobs: record operation lookup: %w", err)
	case after.Status.Final():
		return nil
	case after.NextCheckAt == nil:
		return river.JobSnooze(reconcilePause(l.settings, after.Lookups))
	}
	return river.JobSnooze(max(after.NextCheckAt.Sub(w.r.cfg.Now()), 0))
}

// wait comes back when the status circuit may admit again.
func (w *operationLookupWorker) wait(ctx context.Context, l *lane, op store.Operation, d *breaker.Denied) error {
	after := w.r.backFrom(ctx, l, d)
	if err := w.r.cfg.Store.NoteOperationWaiting(ctx, op.ID, w.r.cfg.Now().Add(after), whyDenied(d), d.Error()); err != nil {
		return fmt.Errorf("jobs: note waiting: %w", err)
	}
	return river.JobSnooze(after)
}

// askOperation looks an operation up under the status circuit. Errors: *breaker.Denied,
// and provider.ErrShutdown when we stopped while asking, which proves nothing.
func (r *Runner) askOperation(ctx context.Context, l *lane, operator provider.Operator, op store.Operation) (provider.LookedUp, error) {
	permit, err := r.permit(ctx, l, classStatus)
	if err != nil {
		return provider.LookedUp{}, err
	}
	report := context.WithoutCancel(ctx)
	defer permit.Report(report, breaker.Neutral, 0, "", "")
	call, cancel := r.callContext(ctx, lookupDeadline(l.settings))
	defer cancel()
	q := provider.OperationQuery{Kind: op.Kind, OperationID: op.ID.String(), OperationKey: op.OperationKey, PaymentID: op.PaymentID.String(),
		ProviderPaymentID: op.ProviderPaymentID, ProviderOperationID: op.ProviderObjectID, Want: op.Money()}
	if op.Origin == store.OriginExternal {
		q.OperationID = "" // the provider has never heard of it
	}
	looked := operator.LookupOperation(call, q)
	if looked.Verdict == provider.LookupNoAnswer && errors.Is(context.Cause(call), provider.ErrShutdown) {
		return provider.LookedUp{}, provider.ErrShutdown
	}
	permit.Report(report, breaker.Verdict(looked.Health), looked.Exchange.Latency(), looked.Reason, op.PaymentID.String())
	return looked, nil
}

// noteProbeRead keeps the read before a probe with the payment it was made for and
// among the calls.
func (r *Runner) noteProbeRead(ctx context.Context, l *lane, payment uuid.UUID, pinged provider.Pinged) error {
	write, cancel := store.Detached(ctx)
	defer cancel()
	err := r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		if err := r.cfg.Store.NoteProbeRead(ctx, tx, payment, pinged); err != nil {
			return err
		}
		return r.recordCall(ctx, tx, l, classPing, pinged.Health, "read", pinged.Reason, pinged.Exchange.Latency(), &payment)
	})
	if err != nil {
		return fmt.Errorf("jobs: read before the probe: %w", err)
	}
	return nil
}
