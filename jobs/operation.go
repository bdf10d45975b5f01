package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// operationWorker sends operations on charges: refunds. Like chargeWorker it is safe to
// run any number of times; what may be sent is decided by rows.
type operationWorker struct {
	river.WorkerDefaults[operationArgs]
	r *Runner
}

// Work implements river.Worker.
func (w *operationWorker) Work(ctx context.Context, job *river.Job[operationArgs]) error {
	l, ok := w.r.lanes[job.Args.Provider]
	if !ok {
		err := w.r.orphan(ctx, kindOperation, job.Args.Provider, job.Args.OperationID, "provider")
		return errors.Join(err, river.JobSnooze(time.Minute))
	}
	o := &operation{r: w.r, lane: l, job: job}
	return o.run(ctx)
}

// Timeout implements river.Worker.
func (w *operationWorker) Timeout(job *river.Job[operationArgs]) time.Duration {
	if l, ok := w.r.lanes[job.Args.Provider]; ok {
		return jobTimeout(l.settings)
	}
	return 0
}

// operation is one run of an operation's job.
type operation struct {
	r        *Runner
	lane     *lane
	job      *river.Job[operationArgs]
	operator provider.Operator
	op       store.Operation
	payment  store.Payment
	history  history
	body     []byte // request bytes of a first attempt; nil: repeat the stored ones
	replay   bool   // an unknown operation's key and bytes go out again, see operation_replay.go
}

// run takes the steps of charge.run, in the same order.
func (o *operation) run(ctx context.Context) error {
	if done, err := o.load(ctx); done || err != nil {
		return err
	}
	if done, err := o.freeze(ctx); done || err != nil {
		return err
	}
	if done, err := o.lookFirst(ctx); done || err != nil {
		return err
	}
	permit, err := o.r.permit(ctx, o.lane, classCharge)
	if d := denied(err); d != nil {
		return o.waitForCircuit(ctx, d)
	} else if err != nil {
		return fmt.Errorf("jobs: permit: %w", err)
	}
	defer permit.Report(context.WithoutCancel(ctx), breaker.Neutral, 0, "", "")

	if done, err := o.readFirst(ctx, permit); done || err != nil {
		return err
	}
	attempt, err := o.begin(ctx)
	if err != nil {
		return o.refused(ctx, err)
	}
	return o.finish(ctx, attempt, o.send(ctx, attempt, permit))
}

// load reads the operation and what was tried before. done: there is nothing to send.
func (o *operation) load(ctx context.Context) (done bool, err error) {
	id := o.job.Args.OperationID
	o.op, err = o.r.cfg.Store.Operation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return true, o.r.orphan(ctx, kindOperation, o.job.Args.Provider, id, "operation")
	}
	if err != nil {
		return false, fmt.Errorf("jobs: operation: %w", err)
	}
	want := store.Pending
	if o.replay = o.job.Args.Replay; o.replay {
		want = store.Unknown
	}
	if o.op.Status != want || o.replay && !o.lane.replaysOperation(o.op) {
		return true, nil
	}
	if o.payment, err = o.r.cfg.Store.Payment(ctx, o.op.PaymentID); err != nil {
		return false, fmt.Errorf("jobs: operation: %w", err)
	}
	o.history, err = o.r.readAttempts(ctx, o.op.PaymentID, o.op.AttemptName())
	return false, err
}

// freeze renders the request of a first attempt. What the provider cannot take, or
// cannot do at all, fails here, before anything is sent.
func (o *operation) freeze(ctx context.Context) (done bool, err error) {
	operator, ok := o.lane.operator(o.op.Kind)
	if !ok {
		return true, o.reject(ctx, &provider.FieldError{Field: "provider", Reason: fmt.Sprintf("%s does no %s", o.lane.settings.Name, o.op.Kind)})
	}
	if o.operator = operator; o.history.attempts > 0 {
		return false, nil
	}
	o.body, err = operator.FreezeOperation(provider.OperationRequest{
		OperationID: o.op.ID.String(), Kind: o.op.Kind, PaymentID: o.op.PaymentID.String(), ProviderPaymentID: o.op.ProviderPaymentID,
		Charged: o.payment.Money(), Money: o.op.Money(),
	})
	var field *provider.FieldError
	if !errors.As(err, &field) {
		return false, err
	}
	return true, o.reject(ctx, field)
}

func (o *operation) reject(ctx context.Context, field *provider.FieldError) error {
	return o.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := o.r.cfg.Store.RejectOperation(ctx, tx, o.op.ID, field.Field, field.Reason); err != nil {
			return err
		}
		return complete(ctx, tx, o.job)
	})
}

// begin writes the durable "maybe sent" mark.
func (o *operation) begin(ctx context.Context) (store.Attempt, error) {
	if o.r.stopped() {
		return store.Attempt{}, provider.ErrShutdown
	}
	o.r.cfg.At(PointBeforeMark, o.op.ID.String())
	a, op, err := o.r.cfg.Store.BeginOperation(ctx, store.BeginOperationParams{
		OperationID: o.op.ID, Body: o.body, KeyLife: o.lane.keyLife(), Deadline: attemptOwned(o.lane.settings), Worker: o.r.cfg.Worker,
		Replay: o.replay, AskAfter: o.lane.asks(),
	})
	if err != nil {
		return store.Attempt{}, err
	}
	o.op = op
	o.r.cfg.At(PointAfterMark, op.ID.String())
	return a, nil
}

// refused turns BeginOperation's refusals into what the job does next. None of them
// reaches the provider.
func (o *operation) refused(ctx context.Context, err error) error {
	last := o.lane.settings.RetryPauses[len(o.lane.settings.RetryPauses)-1]
	switch {
	case errors.Is(err, store.ErrSettled), errors.Is(err, store.ErrMaybeSent),
		errors.Is(err, store.ErrKeyExpired), errors.Is(err, store.ErrNotFound):
		return nil // settled, or only a lookup may go on, which the store has queued
	case errors.Is(err, store.ErrInFlight) && o.replay:
		return nil // its outcome, or the sweep once it is overdue, queues the next one
	case errors.Is(err, store.ErrInFlight):
		return river.JobSnooze(jitter(attemptOwned(o.lane.settings)))
	case errors.Is(err, store.ErrPaused):
		return o.wait(ctx, jitter(last), whyPaused, "money calls of this provider are paused until a person resumes them")
	case errors.Is(err, provider.ErrShutdown), errors.Is(err, store.ErrBytesChanged) && o.body != nil:
		return river.JobSnooze(0) // another worker was first: repeat its bytes
	case errors.Is(err, store.ErrBytesChanged):
		alert := o.r.raise(ctx, store.Alert{
			Kind: "bytes_changed", Severity: "critical", Provider: o.lane.settings.Name, PaymentID: &o.op.PaymentID,
			Title:     "A " + string(o.op.Kind) + " was refused before sending: its stored request changed",
			Detail:    "The stored bytes do not match their hash, and a key must never carry other bytes. Nothing was sent.",
			DedupeKey: "bytes_changed:" + o.op.ID.String(),
		})
		return errors.Join(alert, river.JobSnooze(jitter(last)))
	}
	return fmt.Errorf("jobs: begin operation: %w", err)
}

// send makes the one wire send and tells the circuit what it says about the provider.
func (o *operation) send(ctx context.Context, a store.Attempt, permit breaker.Permit) provider.Charged {
	id := o.op.ID.String()
	call, cancel := o.r.callContext(ctx, attemptDeadline(o.lane.settings))
	defer cancel()
	call = httptrace.WithClientTrace(call, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { o.r.cfg.At(PointAfterSend, id) },
	})
	charged := o.operator.Operate(call, provider.OperationCall{
		Kind: o.op.Kind, OperationID: id, ProviderPaymentID: o.op.ProviderPaymentID, Key: a.OperationKey, Body: a.Request, Want: o.op.Money(),
	})
	if o.replay {
		charged = provider.Replayed(charged)
	}
	o.r.cfg.At(PointAfterAnswer, id)
	permit.Report(context.WithoutCancel(ctx), breaker.Verdict(charged.Health), charged.Exchange.Latency(), charged.Reason, o.op.PaymentID.String())
	return charged
}

// finish writes the outcome, whatever became of the job's own context, and completes
// the job in the same transaction unless it comes back itself.
func (o *operation) finish(ctx context.Context, a store.Attempt, charged provider.Charged) error {
	p := o.r.plan(o.lane, o.history, charged)
	if o.replay {
		p = o.r.replayPlan(o.lane, o.history, charged)
	}
	write, cancel := store.Detached(ctx)
	defer cancel()
	err := o.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		return o.write(ctx, tx, a, charged, p)
	})
	if err != nil {
		return fmt.Errorf("jobs: outcome of attempt %s: %w", a.ID, err) // past its deadline a lookup decides
	}
	o.r.cfg.At(PointAfterCommit, o.op.ID.String())
	if p.again {
		return river.JobSnooze(p.wait)
	}
	return nil
}

func (o *operation) write(ctx context.Context, tx pgx.Tx, a store.Attempt, charged provider.Charged, p plan) error {
	s := o.r.cfg.Store
	if _, err := s.FinishOperation(ctx, tx, store.FinishParams{
		AttemptID: a.ID, Charged: withoutOwnAlerts(charged), RetryAt: p.retryAt, ReconcileAt: p.reconcileAt,
		NoStatusAPI: !o.lane.asks() && !o.lane.canReplay(),
	}); err != nil {
		return err
	}
	err := o.r.recordCall(ctx, tx, o.lane, classCharge, charged.Health, string(charged.Outcome), charged.Reason, charged.Exchange.Latency(), &o.op.PaymentID)
	if err != nil {
		return err
	}
	for _, alert := range o.alerts(a, charged) {
		if _, err := s.RaiseAlert(ctx, tx, alert); err != nil {
			return err
		}
	}
	if p.again {
		return nil
	}
	return complete(ctx, tx, o.job)
}

// alerts are the facts about this attempt that people have to know, see charge.alerts.
func (o *operation) alerts(a store.Attempt, charged provider.Charged) []store.Alert {
	var out []store.Alert
	name, id, kind := o.lane.settings.Name, o.op.PaymentID, string(o.op.Kind)
	if charged.Exchange.WireSends > 1 {
		out = append(out, store.Alert{
			Kind: provider.AlertResent, Severity: "critical", Provider: name, PaymentID: &id,
			Title:     fmt.Sprintf("One attempt of a %s was sent %d times", kind, charged.Exchange.WireSends),
			Detail:    "The transport repeated a money call by itself. Check this payment at the provider.",
			DedupeKey: provider.AlertResent + ":" + a.ID.String(),
		})
	}
	if charged.Outcome == provider.NotSent && o.history.notSent+1 == maxTries(o.lane.settings) {
		out = append(out, store.Alert{
			Kind: kind + "_not_leaving", Severity: "warning", Provider: name, PaymentID: &id,
			Title:     fmt.Sprintf("A %s does not reach %s", kind, name),
			Detail:    fmt.Sprintf("%d tries, last: %s. It stays %s and is tried on at the low rate.", maxTries(o.lane.settings), charged.Reason, o.op.Status),
			DedupeKey: kind + "_not_leaving:" + name + ":" + o.r.cfg.Now().UTC().Format(time.DateOnly),
		})
	}
	return out
}
