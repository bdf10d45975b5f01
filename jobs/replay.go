package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"fusebox/provider"
	"fusebox/store"
)

// Some providers answer no question about a charge and document instead that the same
// key and bytes may go out again: they answer what they answered before, or execute what
// never arrived. A replay is a money call and takes the way of one (charge queue, charge
// circuit, attempt row first, one wire send). What paces it is the reconcile job: each
// run of it queues at most one replay, and each answer that settles nothing the next run.

// canReplay reports whether the provider takes the same key and bytes again.
func (l *lane) canReplay() bool {
	return l.keys() && l.adapter.Capabilities().CanReplay()
}

// canAskAbout reports whether there is a question to put about this payment: by our own
// reference or key, or by the provider's id once it is known.
func (l *lane) canAskAbout(p store.Payment) bool {
	c := l.adapter.Capabilities()
	return l.asks() && (c.Has(provider.ByReference) || c.Has(provider.ByKey) || p.ProviderPaymentID != "")
}

// replays reports whether a replay is this payment's way to the truth: it is unknown, and
// the first of the declared ways that can be gone is a replay. Past the key's life it is
// none any more where something else can be asked.
func (l *lane) replays(p store.Payment) bool {
	if p.Status != store.Unknown || !l.canReplay() || l.canAskAbout(p) && slices.Contains(p.NeedsReview, store.ReviewKeyExpired) {
		return false
	}
	for _, w := range l.adapter.Capabilities().Ways {
		switch {
		case w == provider.ReplayKey:
			return true
		case w == provider.ByID && p.ProviderPaymentID == "", w == provider.WebhookOnly, !l.asks():
		default:
			return false
		}
	}
	return false
}

// replay queues the resend if the payment still needs one, and completes the job under
// the payment's row lock: whoever makes the payment unknown after it inserts a new one.
func (w *reconcileWorker) replay(ctx context.Context, job *river.Job[reconcileArgs], l *lane, p store.Payment) error {
	var again time.Time
	err := w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		again, err = w.r.cfg.Store.Replay(ctx, tx, job.Args.PaymentID, w.r.replayPolicy(l, p))
		if err != nil || !again.IsZero() {
			return err
		}
		return complete(ctx, tx, job)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("jobs: replay: %w", err)
	}
	if !again.IsZero() {
		return river.JobSnooze(max(again.Sub(w.r.cfg.Now()), 0))
	}
	return nil
}

// replayPolicy leaves the last call its whole deadline, even if it broke off earlier
// here: over there it may still run.
func (r *Runner) replayPolicy(l *lane, p store.Payment) store.ReplayPolicy {
	return store.ReplayPolicy{
		KeyLife: l.keyLife(), Apart: attemptDeadline(l.settings), AskAfter: l.canAskAbout(p),
		NextAt: r.cfg.Now().Add(reconcilePause(l.settings, 0)),
	}
}

// replayPlan is what follows a replay. The job never comes back by itself, whatever the
// answer: the next one is due after a pause that grows with the sends, and not before
// the provider wants to hear of it.
func (c *charge) replayPlan(charged provider.Charged) plan {
	pause := reconcilePause(c.lane.settings, c.history.attempts)
	switch {
	case charged.Outcome == provider.NotSent && charged.Exchange.Cancelled:
		pause = 0 // our own shutdown: another worker may go on at once
	case charged.Outcome == provider.NotSent:
		pause = retryPause(c.lane.settings, c.history.notSent+1)
	case charged.Outcome == provider.Unknown && charged.Next == provider.NextSnooze && charged.RetryAfter > 0:
		pause = charged.RetryAfter // the first call under our key is still running there
	case charged.RetryAfter > 0:
		pause = max(pause, returnAfter(charged.RetryAfter, time.Duration(float64(charged.RetryAfter)*jitterShare)))
	}
	at := c.r.cfg.Now().Add(pause)
	return plan{retryAt: at, reconcileAt: at}
}
