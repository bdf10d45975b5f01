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

// chargeWorker makes charges. It is safe to run any number of times for a payment, at
// once or one after another: what may be sent is decided by rows, never by the queue.
type chargeWorker struct {
	river.WorkerDefaults[chargeArgs]
	r *Runner
}

// Work implements river.Worker.
func (w *chargeWorker) Work(ctx context.Context, job *river.Job[chargeArgs]) error {
	l, ok := w.r.lanes[job.Args.Provider]
	if !ok {
		// The payment is not lost: it stays pending until the provider is configured again.
		err := w.r.orphan(ctx, kindCharge, job.Args.Provider, job.Args.PaymentID, "provider")
		return errors.Join(err, river.JobSnooze(time.Minute))
	}
	c := &charge{r: w.r, lane: l, job: job}
	return c.run(ctx)
}

// Timeout implements river.Worker.
func (w *chargeWorker) Timeout(job *river.Job[chargeArgs]) time.Duration {
	if l, ok := w.r.lanes[job.Args.Provider]; ok {
		return jobTimeout(l.settings)
	}
	return 0
}

// charge is one run of a charge job.
type charge struct {
	r       *Runner
	lane    *lane
	job     *river.Job[chargeArgs]
	payment store.Payment
	seen    store.Seen // the payment as load read it
	history history
	body    []byte // request bytes of a first attempt; nil: repeat the stored ones
	replay  bool   // an unknown payment's key and bytes go out again, see replay.go
}

// run takes the steps of a charge in their only legal order: load, freeze, look first
// where the provider keeps no keys, ask the circuit, read first where this is a probe,
// mark, send, report, write. Each step can end the run.
func (c *charge) run(ctx context.Context) error {
	if done, err := c.load(ctx); done || err != nil {
		return err
	}
	if done, err := c.freeze(ctx); done || err != nil {
		return err
	}
	if done, err := c.lookFirst(ctx); done || err != nil {
		return err
	}
	permit, err := c.r.permit(ctx, c.lane, classCharge)
	if d := denied(err); d != nil {
		return c.waitForCircuit(ctx, d)
	} else if err != nil {
		return fmt.Errorf("jobs: permit: %w", err)
	}
	// Gives a probe's slot back on every way out that did not call; after the real
	// report it does nothing.
	defer permit.Report(context.WithoutCancel(ctx), breaker.Neutral, 0, "", "")

	if done, err := c.readFirst(ctx, permit); done || err != nil {
		return err
	}
	attempt, err := c.begin(ctx)
	if err != nil {
		return c.refused(ctx, err)
	}
	return c.finish(ctx, attempt, c.send(ctx, attempt, permit))
}

// load reads the payment and what was tried before. done: there is nothing to charge.
func (c *charge) load(ctx context.Context) (done bool, err error) {
	id := c.job.Args.PaymentID
	found, err := c.r.cfg.Store.Chargeable(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return true, c.r.orphan(ctx, kindCharge, c.job.Args.Provider, id, "payment")
	}
	if err != nil {
		return false, fmt.Errorf("jobs: charge: %w", err)
	}
	c.payment, c.seen, c.history = found.Payment, found.Seen(), historyOf(found)
	want := store.Pending
	if c.job.Args.Recharge {
		want = store.Unknown
	}
	if c.payment.Status != want {
		return true, nil
	}
	c.replay = c.job.Args.Recharge && c.lane.replays(c.payment)
	return false, nil
}

// freeze renders the request for the first attempt; later ones repeat the stored bytes,
// whatever a newer adapter would render. A request the provider cannot take fails here,
// before anything is sent.
func (c *charge) freeze(ctx context.Context) (done bool, err error) {
	if c.history.attempts > 0 {
		return false, nil
	}
	p := c.payment
	if _, can := c.lane.operator(provider.OpCapture); p.Manual() && !can {
		return true, c.reject(ctx, &provider.FieldError{Field: "capture", Reason: c.lane.settings.Name + " takes the money at once"})
	}
	c.body, err = c.lane.adapter.Freeze(provider.ChargeRequest{
		PaymentID: p.ID.String(), OrderRef: p.OrderRef, Money: p.Money(), Description: p.Description,
		CustomerName: p.CustomerName, CustomerEmail: p.CustomerEmail, ManualCapture: p.Manual(),
		PaymentMethod: p.Metadata[provider.MetaPaymentMethod], CustomerID: p.Metadata[provider.MetaCustomerID],
	})
	var field *provider.FieldError
	if !errors.As(err, &field) {
		return false, err
	}
	return true, c.reject(ctx, field)
}

// reject fails the payment before anything is sent.
func (c *charge) reject(ctx context.Context, field *provider.FieldError) error {
	return c.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := c.r.cfg.Store.RejectBeforeSend(ctx, tx, c.payment.ID, field.Field, field.Reason); err != nil {
			return err
		}
		return complete(ctx, tx, c.job)
	})
}

// begin writes the durable "maybe sent" mark.
func (c *charge) begin(ctx context.Context) (store.Attempt, error) {
	if c.r.stopped() {
		return store.Attempt{}, provider.ErrShutdown
	}
	c.r.cfg.At(PointBeforeMark, c.payment.ID.String())
	a, p, err := c.r.cfg.Store.BeginAttempt(ctx, store.BeginParams{
		PaymentID: c.payment.ID, Body: c.body, KeyLife: c.lane.keyLife(),
		Deadline: attemptOwned(c.lane.settings), Worker: c.r.cfg.Worker, Recharge: c.job.Args.Recharge, Replay: c.replay,
		AskAfter: c.lane.canAskAbout(c.payment), Seen: c.seen,
	})
	if err != nil {
		return store.Attempt{}, err
	}
	c.payment = p
	c.r.cfg.At(PointAfterMark, p.ID.String())
	return a, nil
}

// refused turns BeginAttempt's refusals into what the job does next. None of them
// reaches the provider.
func (c *charge) refused(ctx context.Context, err error) error {
	last := c.lane.settings.RetryPauses[len(c.lane.settings.RetryPauses)-1]
	switch {
	case errors.Is(err, store.ErrSettled), errors.Is(err, store.ErrMaybeSent),
		errors.Is(err, store.ErrKeyExpired), errors.Is(err, store.ErrNotFound):
		return nil // somebody settled it, or only a lookup may go on; the store has queued it
	case errors.Is(err, store.ErrInFlight) && c.replay:
		return nil // its outcome, or the sweep once it is overdue, queues the next one
	case errors.Is(err, store.ErrInFlight):
		// Its holder has noted until when; past that the next run finds it abandoned.
		return river.JobSnooze(jitter(attemptOwned(c.lane.settings)))
	case errors.Is(err, store.ErrPaused):
		return c.wait(ctx, jitter(last), whyPaused, "charges of this provider are paused until a person resumes them")
	case errors.Is(err, provider.ErrShutdown):
		return river.JobSnooze(0)
	case errors.Is(err, store.ErrBytesChanged) && c.body != nil:
		return river.JobSnooze(0) // another worker, of another version, was first: repeat its bytes
	case errors.Is(err, store.ErrBytesChanged):
		alert := c.r.raise(ctx, store.Alert{
			Kind: "bytes_changed", Severity: "critical", Provider: c.lane.settings.Name, PaymentID: &c.payment.ID,
			Title:     "A charge was refused before sending: its stored request changed",
			Detail:    "The stored bytes do not match their hash, and a key must never carry other bytes. Nothing was sent.",
			DedupeKey: "bytes_changed:" + c.payment.ID.String(),
		})
		return errors.Join(alert, river.JobSnooze(jitter(last)))
	}
	return fmt.Errorf("jobs: begin attempt: %w", err)
}

// send makes the one wire send and tells the circuit what it says about the provider.
func (c *charge) send(ctx context.Context, a store.Attempt, permit breaker.Permit) provider.Charged {
	id := c.payment.ID.String()
	call, cancel := c.r.callContext(ctx, attemptDeadline(c.lane.settings))
	defer cancel()
	// httptrace composes: the adapter's own trace keeps this hook.
	call = httptrace.WithClientTrace(call, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { c.r.cfg.At(PointAfterSend, id) },
	})
	charged := c.lane.adapter.Charge(call, a.OperationKey, a.Request, c.payment.Money())
	if c.replay {
		charged = provider.Replayed(charged)
	}
	c.r.cfg.At(PointAfterAnswer, id)
	permit.Report(context.WithoutCancel(ctx), breaker.Verdict(charged.Health), charged.Exchange.Latency(), charged.Reason, id)
	return charged
}

// finish writes the outcome, whatever became of the job's own context. An outcome that
// settles the payment and no more is committed together with others; River completes the
// job after it, and a job that runs once more in between finds the payment settled. Any
// other outcome has a transaction of its own, which completes the job unless it comes
// back itself.
func (c *charge) finish(ctx context.Context, a store.Attempt, charged provider.Charged) error {
	p := c.plan(charged)
	if c.replay {
		p = c.r.replayPlan(c.lane, c.history, charged)
	}
	write, cancel := store.Detached(ctx)
	defer cancel()
	if !p.again && !c.job.Args.Recharge && len(c.alerts(a, charged)) == 0 &&
		c.r.cfg.Store.FinishTogether(write, c.payment.ID, c.finished(a, charged, p), c.called(charged)) {
		c.r.cfg.At(PointAfterCommit, c.payment.ID.String())
		return nil
	}
	err := c.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		return c.write(ctx, tx, a, charged, p)
	})
	if err != nil {
		// The attempt stays without outcome: past its deadline it counts as maybe sent
		// and a lookup decides. It is never sent again on this job's word.
		return fmt.Errorf("jobs: outcome of attempt %s: %w", a.ID, err)
	}
	c.r.cfg.At(PointAfterCommit, c.payment.ID.String())
	if p.again {
		return river.JobSnooze(p.wait)
	}
	return nil
}

// write is the content of the outcome's transaction; lock order payment, attempt,
// wallet inside FinishAttempt, the job's row last.
func (c *charge) write(ctx context.Context, tx pgx.Tx, a store.Attempt, charged provider.Charged, p plan) error {
	s := c.r.cfg.Store
	if _, err := s.FinishAttempt(ctx, tx, c.finished(a, charged, p)); err != nil {
		return err
	}
	if err := s.RecordCall(ctx, tx, c.called(charged)); err != nil {
		return err
	}
	for _, alert := range c.alerts(a, charged) {
		if _, err := s.RaiseAlert(ctx, tx, alert); err != nil {
			return err
		}
	}
	if p.again {
		return nil
	}
	return complete(ctx, tx, c.job)
}

// finished is an attempt's outcome for the books.
func (c *charge) finished(a store.Attempt, charged provider.Charged, p plan) store.FinishParams {
	return store.FinishParams{
		AttemptID: a.ID, Seen: c.seen, Charged: withoutOwnAlerts(charged), RetryAt: p.retryAt, ReconcileAt: p.reconcileAt,
		NoStatusAPI: !c.lane.asks() && !c.lane.canReplay(),
	}
}

// called is the attempt as a call of the provider.
func (c *charge) called(charged provider.Charged) store.CallOutcome {
	return c.r.callOutcome(c.lane, classCharge, charged.Health, string(charged.Outcome), charged.Reason, charged.Exchange.Latency(), &c.payment.ID)
}
