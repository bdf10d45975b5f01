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
// The same of what is done to a charge, see operation_replay.go.

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
// the first of the declared ways that can be gone is a replay. Past the key's life, and
// once a replay was rejected, it is none any more where something else can be asked.
func (l *lane) replays(p store.Payment) bool {
	if p.Status != store.Unknown || !l.canReplay() || l.canAskAbout(p) && replaysOver(p.NeedsReview, p.StatusReason) {
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

// replaysOver reports that no further replay is this subject's way to the truth: its key
// is over, or a replay was rejected.
func replaysOver(reviews []string, reason string) bool {
	return reason == provider.ReasonReplayRejected || slices.Contains(reviews, store.ReviewKeyExpired)
}

// replay queues the resend if the payment still needs one, and completes the job under
// the payment's row lock: whoever makes the payment unknown after it inserts a new one.
func (w *reconcileWorker) replay(ctx context.Context, job *river.Job[reconcileArgs], l *lane, p store.Payment) error {
	var again time.Time
	err := w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		again, err = w.r.cfg.Store.Replay(ctx, tx, job.Args.PaymentID, w.r.replayPolicy(l, l.canAskAbout(p)))
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
func (r *Runner) replayPolicy(l *lane, askAfter bool) store.ReplayPolicy {
	return store.ReplayPolicy{
		KeyLife: l.keyLife(), Apart: attemptDeadline(l.settings), AskAfter: askAfter,
		NextAt: r.cfg.Now().Add(reconcilePause(l.settings, 0)),
	}
}

// replayPlan is what follows a replay. The job never comes back by itself, whatever the
// answer: the next one is due after a pause that grows with the sends, and not before
// the provider wants to hear of it.
func (r *Runner) replayPlan(l *lane, h history, charged provider.Charged) plan {
	pause := reconcilePause(l.settings, h.attempts)
	switch {
	case charged.Reason == provider.ReasonReplayRejected:
		pause = 0 // no further replay: what else there is to ask is asked, or a person is
	case charged.Outcome == provider.NotSent && charged.Exchange.Cancelled:
		pause = 0 // our own shutdown: another worker may go on at once
	case charged.Outcome == provider.NotSent:
		if pause = retryPause(l.settings, h.notSent+1); charged.RetryAfter > 0 {
			pause = max(pause, throttled(l.settings, h, charged.RetryAfter)) // what it needs first says when to come back
		}
	case charged.Outcome == provider.Unknown && charged.Next == provider.NextSnooze && charged.RetryAfter > 0:
		pause = charged.RetryAfter // the first call under our key is still running there
	case charged.RetryAfter > 0:
		pause = max(pause, throttled(l.settings, h, charged.RetryAfter))
	}
	at := r.cfg.Now().Add(pause)
	return plan{retryAt: at, reconcileAt: at}
}
