package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Findings lists the kinds of reconciliation finding in the order screens show them.
var Findings = []string{"matched", "ours_only", "theirs_only", "amount_differs", "status_differs", "duplicate"}

// RunItem is one finding of a reconciliation run.
type RunItem struct {
	Finding   string
	PaymentID *uuid.UUID
	ObjectID  string
	Detail    string
	At        time.Time
	Ours      *ItemOurs   // RunItems only; nil: no payment
	Theirs    *ItemTheirs // RunItems only; nil: no charge
}

// rowToRun adapts readRun to pgx.CollectRows.
func rowToRun(row pgx.CollectableRow) (Run, error) { return readRun(row) }

// ListRuns reads reconciliation runs, latest first, started before the given time
// (zero: from the top).
func (s *Store) ListRuns(ctx context.Context, providerName string, before time.Time, limit int) (list []Run, more bool, err error) {
	w := &where{}
	if providerName != "" {
		w.and("provider = ?", providerName)
	}
	if !before.IsZero() {
		w.and("started_at < ?", before)
	}
	sql := fmt.Sprintf("SELECT %s FROM reconciliation_runs %s ORDER BY started_at DESC, id DESC LIMIT %s",
		runColumns, w, w.arg(limit+1))
	rows, err := s.pool.Query(ctx, sql, w.args...)
	if err != nil {
		return nil, false, fmt.Errorf("list runs: %w", err)
	}
	all, err := pgx.CollectRows(rows, rowToRun)
	if err != nil {
		return nil, false, fmt.Errorf("list runs: %w", err)
	}
	list, more = pageOf(all, limit)
	return list, more, nil
}

// ReconciliationRun reads one run. ErrNotFound.
func (s *Store) ReconciliationRun(ctx context.Context, id uuid.UUID) (Run, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+runColumns+" FROM reconciliation_runs WHERE id = $1", id)
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, rowToRun)
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %w", id, notFound(err))
	}
	return r, nil
}

// SyncEstimate is what a reconciliation run started now would cover.
type SyncEstimate struct {
	From     time.Time // start of its window: the watermark less the overlap; zero without a run yet
	Payments int       // our payments in the window, bounded by CountCap+1
	Open     *Run      // a run already under way, which a request joins instead of starting another
}

// EstimateSync says how much a run of the provider would compare. overlap is the
// provider's SyncOverlap.
func (s *Store) EstimateSync(ctx context.Context, providerName string, overlap time.Duration) (SyncEstimate, error) {
	var e SyncEstimate
	var mark *time.Time
	err := s.pool.QueryRow(ctx, `SELECT max(sync_watermark) FROM provider_state WHERE provider = $1`, providerName).Scan(&mark)
	if err != nil {
		return e, fmt.Errorf("estimate sync of %s: %w", providerName, err)
	}
	if mark != nil {
		e.From = mark.Add(-overlap)
	}
	w := PaymentFilter{Provider: providerName, From: e.From}.where()
	err = s.pool.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x", w, CountCap+1), w.args...).
		Scan(&e.Payments)
	if err != nil {
		return e, fmt.Errorf("estimate sync of %s: %w", providerName, err)
	}
	runs, _, err := s.ListRuns(ctx, providerName, time.Time{}, 1)
	if err != nil {
		return e, err
	}
	if len(runs) == 1 && (runs[0].State == "running" || runs[0].State == "paused") {
		e.Open = &runs[0]
	}
	return e, nil
}
