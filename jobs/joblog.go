package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// jobLog writes one structured event per run of a job, at its end.
type jobLog struct {
	river.MiddlewareDefaults
	log *slog.Logger
}

var _ rivertype.WorkerMiddleware = (*jobLog)(nil)

// Work implements rivertype.WorkerMiddleware.
func (m *jobLog) Work(ctx context.Context, job *rivertype.JobRow, do func(context.Context) error) error {
	began := time.Now()
	err := do(ctx)
	level, result := slog.LevelInfo, "done"
	var snooze *rivertype.JobSnoozeError
	if err == nil && !m.log.Enabled(ctx, level) {
		return nil
	}
	attrs := []slog.Attr{
		slog.String("kind", job.Kind), slog.Int64("job", job.ID), slog.String("queue", job.Queue),
		slog.Int("attempt", job.Attempt), slog.Duration("took", time.Since(began)),
		slog.String("args", string(job.EncodedArgs)),
	}
	switch {
	case errors.As(err, &snooze): // waiting is the usual course, and an outage makes thousands wait
		level, result = slog.LevelDebug, "snoozed"
		attrs = append(attrs, slog.Duration("for", snooze.Duration))
	case err != nil:
		level, result = slog.LevelError, "failed"
		attrs = append(attrs, slog.Any("error", err))
	}
	m.log.LogAttrs(ctx, level, "job "+result, attrs...)
	return err
}
