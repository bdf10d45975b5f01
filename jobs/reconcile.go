package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// agedLookups is the number of lookups after which a payment that is still not
// settled is shown to a person. Lookups go on at the low rate.
const agedLookups = 8

// reconcileWorker asks the provider what became of a charge. It never gives up into
// failed: unanswered lookups leave the payment as it is and come back, for ever.
type reconcileWorker struct {
	river.WorkerDefaults[reconcileArgs]
	r *Runner
}

// Timeout implements river.Worker.
func (w *reconcileWorker) Timeout(job *river.Job[reconcileArgs]) time.Duration {
	if l, ok := w.r.lanes[job.Args.Provider]; ok {
		return jobTimeout(l.settings)
	}
	return 0
}

// Work implements river.Worker.
func (w *reconcileWorker) Work(ctx context.Context, job *river.Job[reconcileArgs]) error {
	id := job.Args.PaymentID
	l, ok := w.r.lanes[job.Args.Provider]
	if !ok {
		return errors.Join(w.r.orphan(ctx, kindReconcile, job.Args.Provider, id, "provider"), river.JobSnooze(time.Hour))
	}
	found, err := w.r.cfg.Store.Chargeable(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return w.r.orphan(ctx, kindReconcile, job.Args.Provider, id, "payment")
	}
	if err != nil {
		return fmt.Errorf("jobs: reconcile: %w", err)
	}
	p := found.Payment
	if !l.asks() && !l.canReplay() {
		return nil // the store has marked it for a person; asking would prove nothing
	}
	if !needsLookup(p) {
		return w.leave(ctx, job)
	}
	if l.replays(p) || l.canReplay() && !l.canAskAbout(p) {
		return w.replay(ctx, job, l, p)
	}
	return w.lookUp(ctx, job, l, p, historyOf(found))
}

// needsLookup reports whether the provider's answer could change anything: the
// payment is not settled and may have been sent, or is settled and under review.
func needsLookup(p store.Payment) bool {
	switch p.Status {
	case store.Unknown, store.Processing, store.RequiresAction:
		return true
	case store.Pending:
		return false
	}
	return len(p.NeedsReview) > 0
}

// leave completes the job under the payment's row lock. Whoever makes the payment
// unknown at this moment holds or waits for that lock: either its insert of a
// reconcile job comes after our completion, or we see its status and stay.
func (w *reconcileWorker) leave(ctx context.Context, job *river.Job[reconcileArgs]) error {
	again := false
	err := w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p, err := lockPayment(ctx, tx, job.Args.PaymentID)
		if err != nil {
			return err
		}
		if again = needsLookup(p); again {
			return nil
		}
		return complete(ctx, tx, job)
	})
	if err == nil && again {
		return river.JobSnooze(w.r.lanes[job.Args.Provider].settings.QuickReconcile)
	}
	return err
}

// lookUp asks once and writes what it established.
func (w *reconcileWorker) lookUp(ctx context.Context, job *river.Job[reconcileArgs], l *lane, p store.Payment, h history) error {
	looked, err := w.r.ask(ctx, l, p, h)
	if d := denied(err); d != nil {
		return w.wait(ctx, l, p, d)
	}
	if errors.Is(err, provider.ErrShutdown) {
		return river.JobSnooze(0)
	}
	if err != nil {
		return err
	}
	after, err := w.write(ctx, job, l, p, looked)
	if err != nil {
		return fmt.Errorf("jobs: record lookup: %w", err)
	}
	if settled(after) {
		return nil
	}
	return river.JobSnooze(w.untilNext(l, after))
}

// write applies the answer; if it settles the payment, the job is completed with it.
func (w *reconcileWorker) write(ctx context.Context, job *river.Job[reconcileArgs], l *lane, p store.Payment, looked provider.LookedUp) (after store.Payment, err error) {
	write, cancel := store.Detached(ctx)
	defer cancel()
	err = w.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		after, err = w.r.cfg.Store.RecordLookup(ctx, tx, p.ID, looked, w.r.policyAfter(l, p, looked), store.System(kindReconcile))
		if err != nil {
			return err
		}
		if err := w.r.recordLookupCall(ctx, tx, l, p.ID, looked); err != nil {
			return err
		}
		if settled(after) {
			return complete(ctx, tx, job)
		}
		return nil
	})
	return after, err
}

// settled reports that asking on would only repeat the answer: the payment is final,
// and if it is under review a person decides and may ask again.
func settled(p store.Payment) bool { return p.Status.Final() }

// untilNext is the wait until the payment's next lookup, as the store decided it.
func (w *reconcileWorker) untilNext(l *lane, p store.Payment) time.Duration {
	if p.NextCheckAt == nil {
		return reconcilePause(l.settings, p.Lookups)
	}
	return max(p.NextCheckAt.Sub(w.r.cfg.Now()), 0)
}

// wait comes back when the status circuit may admit again.
func (w *reconcileWorker) wait(ctx context.Context, l *lane, p store.Payment, d *breaker.Denied) error {
	after := w.r.backFrom(ctx, l, d)
	err := w.r.cfg.Store.NoteWaiting(ctx, p.ID, w.r.cfg.Now().Add(after), whyDenied(d), d.Error())
	if err != nil {
		return fmt.Errorf("jobs: note waiting: %w", err)
	}
	return river.JobSnooze(after)
}

// ask looks a charge up under the status circuit. Errors: *breaker.Denied, and
// provider.ErrShutdown when we stopped while asking, which proves nothing.
func (r *Runner) ask(ctx context.Context, l *lane, p store.Payment, h history) (provider.LookedUp, error) {
	q := provider.LookupQuery{
		PaymentID: p.ID.String(), OperationKey: h.key, ProviderPaymentID: p.ProviderPaymentID, Want: p.Money(),
		SentFrom: h.first, SentTo: h.last,
	}
	if l.adapter.Capabilities().ListPages > 0 {
		cursor, err := r.cfg.Store.LookupCursor(ctx, p.ID)
		if err != nil {
			return provider.LookedUp{}, err
		}
		q.Cursor = cursor
	}
	permit, err := r.permit(ctx, l, classStatus)
	if err != nil {
		return provider.LookedUp{}, err
	}
	report := context.WithoutCancel(ctx)
	defer permit.Report(report, breaker.Neutral, 0, "", "")
	call, cancel := r.callContext(ctx, lookupDeadline(l.settings))
	defer cancel()
	looked := l.adapter.Lookup(call, q)
	if looked.Verdict == provider.LookupNoAnswer && errors.Is(context.Cause(call), provider.ErrShutdown) {
		return provider.LookedUp{}, provider.ErrShutdown
	}
	permit.Report(report, breaker.Verdict(looked.Health), looked.Exchange.Latency(), looked.Reason, p.ID.String())
	return looked, nil
}

// policyAfter is how a lookup of a payment counts, and when the next one follows: soon,
// where it stopped in the middle of a list.
func (r *Runner) policyAfter(l *lane, p store.Payment, looked provider.LookedUp) store.LookupPolicy {
	pol := r.lookupPolicy(l, p.Lookups+1)
	if looked.More {
		pol.NextAt = r.cfg.Now().Add(l.settings.QuickReconcile)
	}
	return pol
}

// lookupPolicy is how a lookup counts when done lookups will have been made with it.
func (r *Runner) lookupPolicy(l *lane, done int) store.LookupPolicy {
	return store.LookupPolicy{
		AbsentHorizon: l.settings.AbsentHorizon, OnAbsent: l.settings.OnAbsent, KeyLife: l.keyLife(),
		NextAt: r.cfg.Now().Add(reconcilePause(l.settings, done)), MaxLookups: agedLookups,
		RestAt: r.cfg.Now().Add(jitter(at(l.settings.ReconcilePauses, math.MaxInt))), // the low rate: a capture or an event moves it
	}
}

func (r *Runner) recordLookupCall(ctx context.Context, tx pgx.Tx, l *lane, id uuid.UUID, looked provider.LookedUp) error {
	return r.recordCall(ctx, tx, l, classStatus, looked.Health, string(looked.Verdict), looked.Reason, looked.Exchange.Latency(), &id)
}
