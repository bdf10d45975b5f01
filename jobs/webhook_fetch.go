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

// unknownThere is the reason kept with a hint at something the provider does not know.
const unknownThere = "the provider knows no such id"

// follow asks the provider what a hint is about and applies its answer. The question is
// a lookup like any other: under the status circuit, in the provider's status queue, in
// no transaction. While there is no answer the hint waits; nobody else would deliver it
// again, since it was answered 2xx.
func (w *webhookWorker) follow(ctx context.Context, job *river.Job[webhookArgs], l *lane, f provider.Fetcher) error {
	if queue := statusQueue(l.settings.Name); job.Queue != queue {
		return w.move(ctx, job, queue)
	}
	hint, err := w.r.cfg.Store.BeginFetch(ctx, job.Args.EventID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("jobs: hint: %w", err)
	}
	fetched, err := w.r.fetch(ctx, l, f, hint.ObjectID)
	if d := denied(err); d != nil {
		return w.later(ctx, job, whyDenied(d), w.r.backFrom(ctx, l, d))
	}
	if errors.Is(err, provider.ErrShutdown) {
		return river.JobSnooze(0)
	}
	if err != nil {
		return err
	}
	return w.settle(ctx, job, l, hint, fetched)
}

// move puts the job into the provider's status queue: in the default queue a slow
// provider would hold up everybody's events. The job is unique while it lives, so the
// old one ends in the same transaction, before the new one.
func (w *webhookWorker) move(ctx context.Context, job *river.Job[webhookArgs], queue string) error {
	err := w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := complete(ctx, tx, job); err != nil {
			return err
		}
		opts := job.Args.InsertOpts()
		opts.Queue = queue
		_, err := w.r.client.InsertTx(ctx, tx, job.Args, &opts)
		return err
	})
	if err != nil {
		return fmt.Errorf("jobs: move hint %d: %w", job.Args.EventID, err)
	}
	return nil
}

// fetch asks about an object under the status circuit. Errors: *breaker.Denied, and
// provider.ErrShutdown when we stopped while asking, which proves nothing.
func (r *Runner) fetch(ctx context.Context, l *lane, f provider.Fetcher, id string) (provider.Fetched, error) {
	permit, err := r.cfg.Breaker.Permit(ctx, breaker.Key{Name: l.settings.Name, Class: classStatus})
	if err != nil {
		return provider.Fetched{}, err
	}
	report := context.WithoutCancel(ctx)
	defer permit.Report(report, breaker.Neutral, 0, "", "")
	call, cancel := r.callContext(ctx, lookupDeadline(l.settings))
	defer cancel()
	fetched := f.Fetch(call, id)
	if fetched.Verdict == provider.LookupNoAnswer && errors.Is(context.Cause(call), provider.ErrShutdown) {
		return provider.Fetched{}, provider.ErrShutdown
	}
	permit.Report(report, breaker.Verdict(fetched.Health), fetched.Exchange.Latency(), fetched.Reason, id)
	return fetched, nil
}

// settle writes what the answer established, with the call, in one transaction.
func (w *webhookWorker) settle(ctx context.Context, job *river.Job[webhookArgs], l *lane, hint store.InboxHint, f provider.Fetched) error {
	pause := reconcilePause(l.settings, hint.Tries)
	write, cancel := store.Detached(ctx)
	defer cancel()
	err := w.r.cfg.Store.InTx(write, func(ctx context.Context, tx pgx.Tx) error {
		if err := w.r.recordCall(ctx, tx, l, classStatus, f.Health, "hint_"+string(f.Verdict), f.Reason, f.Exchange.Latency(), nil); err != nil {
			return err
		}
		if err := w.write(ctx, tx, job.Args.EventID, f, w.r.cfg.Now().Add(pause)); err != nil {
			return err
		}
		if f.Verdict == provider.LookupNoAnswer {
			return nil
		}
		return complete(ctx, tx, job)
	})
	if err != nil {
		return fmt.Errorf("jobs: apply hint %d: %w", job.Args.EventID, err)
	}
	if f.Verdict == provider.LookupNoAnswer {
		return river.JobSnooze(pause)
	}
	return nil
}

func (w *webhookWorker) write(ctx context.Context, tx pgx.Tx, id int64, f provider.Fetched, again time.Time) (err error) {
	switch f.Verdict {
	case provider.LookupFound:
		_, err = w.r.cfg.Store.ApplyFetched(ctx, tx, id, f.Event)
	case provider.LookupAbsent:
		err = w.r.cfg.Store.DropHint(ctx, tx, id, unknownThere)
	default:
		err = w.r.cfg.Store.NoteHint(ctx, tx, id, f.Reason, again)
	}
	return err
}

// later notes why the hint waits and brings the job back.
func (w *webhookWorker) later(ctx context.Context, job *river.Job[webhookArgs], why string, pause time.Duration) error {
	err := w.r.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return w.r.cfg.Store.NoteHint(ctx, tx, job.Args.EventID, why, w.r.cfg.Now().Add(pause))
	})
	if err != nil {
		return fmt.Errorf("jobs: note hint: %w", err)
	}
	return river.JobSnooze(pause)
}
