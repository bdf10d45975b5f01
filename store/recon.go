package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Run is one reconciliation run.
type Run struct {
	ID            uuid.UUID
	Provider      string
	From, To      time.Time // From inclusive, To exclusive, by the provider's clock
	Cursor        string
	State         string // running, paused, complete, abandoned
	Pages         int
	Exceptions    int // in a row
	PausedUntil   *time.Time
	Matched       int
	OursOnly      int
	TheirsOnly    int
	AmountDiffers int
	StatusDiffers int
	Duplicate     int
	TriggeredBy   string
	StartedAt     time.Time
	FinishedAt    *time.Time
}

const (
	// settleTime keeps a window's end behind now: the provider may still be writing.
	settleTime = 10 * time.Second
	// firstWindow is how far back a provider's first run looks when there is no payment.
	firstWindow = 24 * time.Hour
	// exceptionsAllowed in a row before a run pauses.
	exceptionsAllowed = 10

	runRunning  = "running"
	runPaused   = "paused"
	runComplete = "complete"
)

const runColumns = `id, provider, window_from, window_to, cursor, state, pages, exceptions, paused_until, matched, ours_only,
	theirs_only, amount_differs, status_differs, duplicate, triggered_by, started_at, finished_at`

func readRun(row pgx.Row) (r Run, err error) {
	err = row.Scan(&r.ID, &r.Provider, &r.From, &r.To, &r.Cursor, &r.State, &r.Pages, &r.Exceptions, &r.PausedUntil, &r.Matched, &r.OursOnly,
		&r.TheirsOnly, &r.AmountDiffers, &r.StatusDiffers, &r.Duplicate, &r.TriggeredBy, &r.StartedAt, &r.FinishedAt)
	return r, err
}

// OpenRun returns the provider's open run (running or paused), or starts one whose window
// begins overlap before the watermark and ends at now − settle. Two callers at once get
// the same run.
func (s *Store) OpenRun(ctx context.Context, provider, triggeredBy string, overlap time.Duration) (Run, error) {
	var r Run
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if r, err = openRun(ctx, tx, provider); !errors.Is(err, pgx.ErrNoRows) {
			return wrap(err, "read open run")
		}
		if err := s.startRun(ctx, tx, provider, triggeredBy, overlap); err != nil {
			return err
		}
		if r, err = openRun(ctx, tx, provider); err != nil {
			return wrap(err, "read new run")
		}
		return Notify(ctx, tx, TopicRuns)
	})
	if err != nil {
		return Run{}, err
	}
	return r, nil
}

func openRun(ctx context.Context, tx pgx.Tx, provider string) (Run, error) {
	return readRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM reconciliation_runs
		WHERE provider = $1 AND state IN ('running', 'paused')`, provider))
}

// startRun inserts a run unless somebody else just did.
func (s *Store) startRun(ctx context.Context, tx pgx.Tx, provider, triggeredBy string, overlap time.Duration) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	now := s.Now()
	to := now.Add(-settleTime)
	var from time.Time
	err = tx.QueryRow(ctx, `SELECT coalesce(
			(SELECT sync_watermark FROM provider_state WHERE provider = $1),
			(SELECT min(created_at) FROM payments WHERE provider = $1),
			$2)`, provider, to.Add(-firstWindow)).Scan(&from)
	if err != nil {
		return wrap(err, "read watermark")
	}
	if from = from.Add(-overlap); !from.Before(to) {
		from = to.Add(-time.Second)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO reconciliation_runs (id, provider, window_from, window_to, state, triggered_by, started_at)
		VALUES ($1, $2, $3, $4, 'running', $5, $6)
		ON CONFLICT (provider) WHERE state IN ('running', 'paused') DO NOTHING`, id, provider, from, to, triggeredBy, now)
	return wrap(err, "start run")
}

// RecordSyncException counts a failed page; at 10 in a row the run pauses for pause.
// The cursor stays, and the count starts again after the pause.
func (s *Store) RecordSyncException(ctx context.Context, runID uuid.UUID, detail string, pause time.Duration) (Run, error) {
	var r Run
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if r, err = lockRun(ctx, tx, runID); err != nil || r.State == runComplete {
			return err
		}
		count := r.Exceptions + 1
		if r.State == runPaused {
			count = 1
		}
		state, until := runRunning, (*time.Time)(nil)
		if count >= exceptionsAllowed {
			at := s.Now().Add(pause)
			state, until = runPaused, &at
			s.log.WarnContext(ctx, "sync paused", "provider", r.Provider, "until", at, "last", detail)
		}
		r, err = readRun(tx.QueryRow(ctx, `UPDATE reconciliation_runs SET exceptions = $2, state = $3, paused_until = $4
			WHERE id = $1 RETURNING `+runColumns, runID, count, state, until))
		if err != nil {
			return wrap(err, "record sync exception")
		}
		return Notify(ctx, tx, TopicRuns)
	})
	if err != nil {
		return Run{}, err
	}
	return r, nil
}

func lockRun(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Run, error) {
	r, err := readRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM reconciliation_runs WHERE id = $1 FOR UPDATE`, id))
	return r, wrap(notFound(err), "lock run")
}
