package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A bulk is one action on many rows. Its set is frozen into items when a person opens
// it; what matches the filter a moment later is not in it. Its states:
//
//	checking → draft      every item's dry run is done (reapply only)
//	draft    → running    a person confirmed, once
//	running  → done       no item is left
//	running  → cancelled  a person stopped it: what is done stays
const (
	BulkChecking  = "checking"
	BulkDraft     = "draft"
	BulkRunning   = "running"
	BulkCancelled = "cancelled"
	BulkDone      = "done"
)

// Kinds of bulk.
const (
	BulkReconcile = "reconcile" // ask the providers about payments
	BulkReapply   = "reapply"   // process webhook events again
)

// Limits of a bulk.
const (
	// BulkMax is how many items one may have. A larger set is refused, never cut.
	BulkMax = 2000
	// BulkPace is how many payments a second a bulk asks one provider about.
	BulkPace = 5
	// AskedLately is how long an answer counts as fresh: a bulk does not ask again.
	AskedLately = time.Minute

	draftKept = 24 * time.Hour // a draft nobody confirmed
	claimLife = 2 * time.Minute
)

// What became of an item. On payments also OutcomeSkipped with its reason as detail.
const (
	OutcomePaid     = "paid"
	OutcomeFailed   = "failed"
	OutcomeUnknown  = "unknown"  // asked, and there is still no final answer
	OutcomeConflict = "conflict" // the answer contradicts the books: a person decides
	OutcomeSkipped  = "skipped"

	OutcomeChanged    = "changed" // an event that moved something
	OutcomeSame       = "same"
	OutcomeUnreadable = "unreadable"
)

// Why an item is skipped.
const (
	SkipSettled    = "settled"
	SkipLately     = "asked_lately"
	SkipUnsent     = "unsent"      // nothing was sent yet
	SkipResend     = "resend_only" // asking would mean to send the charge's own bytes again
	SkipNoWay      = "cannot_ask"
	SkipNoProvider = "no_provider"
	SkipHint       = "hint" // a hint has nothing in it to apply
	SkipGone       = "gone"
)

var (
	// ErrBulkEmpty: nothing is in the set.
	ErrBulkEmpty = errors.New("store: nothing to work on")
	// ErrBulkTooLarge: more than BulkMax.
	ErrBulkTooLarge = errors.New("store: too many for one action")
)

// Bulk is one action on many rows.
type Bulk struct {
	ID          uuid.UUID
	Kind        string
	State       string
	Filter      string // the filter as an address
	Selected    bool   // picked one by one
	Total       int
	Waits       map[string]time.Time // provider → until when its circuit lets nothing through
	CreatedBy   string               // actor
	CreatedAt   time.Time
	StartedBy   string // actor, empty before
	StartedAt   *time.Time
	CancelledBy string
	EndedAt     *time.Time
	Version     int64
}

// Live reports whether something is going to happen by itself.
func (b Bulk) Live() bool { return b.State == BulkChecking || b.State == BulkRunning }

const bulkColumns = `id, kind, state, filter, selected, total, waits, created_by, created_at, started_by, started_at, cancelled_by, ended_at, version`

func scanBulk(row pgx.Row) (b Bulk, err error) {
	err = row.Scan(&b.ID, &b.Kind, &b.State, &b.Filter, &b.Selected, &b.Total, &b.Waits, &b.CreatedBy, &b.CreatedAt,
		&b.StartedBy, &b.StartedAt, &b.CancelledBy, &b.EndedAt, &b.Version)
	return b, notFound(err)
}

// BulkSet says what a bulk is made of: the rows with these ids, or all under a filter.
type BulkSet struct {
	Address  string // of the filter, for people and the audit
	Payments []uuid.UUID
	Filter   *PaymentFilter
	Events   []int64
	Inbox    *InboxFilter
}

func (set BulkSet) kind() string {
	if set.Filter != nil || len(set.Payments) > 0 {
		return BulkReconcile
	}
	return BulkReapply
}

func (set BulkSet) selected() bool { return set.Filter == nil && set.Inbox == nil }

// FreezeBulk makes the set into the items of a draft, in one transaction and as it is
// at this moment. Nothing is worked before StartBulk; a reapply is checked first by dry
// runs. Errors: ErrBulkEmpty, ErrBulkTooLarge.
func (s *Store) FreezeBulk(ctx context.Context, set BulkSet, by Actor) (Bulk, error) {
	var out Bulk
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now := s.Now()
		// Drafts that nobody confirmed are of no use to anybody.
		if _, err := tx.Exec(ctx, `DELETE FROM bulks WHERE state IN ('checking', 'draft') AND created_at < $1`, now.Add(-draftKept)); err != nil {
			return wrap(err, "drop old drafts")
		}
		b := Bulk{ID: uuid.Must(uuid.NewV7()), Kind: set.kind(), State: BulkDraft, Filter: set.Address, Selected: set.selected()}
		if b.Kind == BulkReapply {
			b.State = BulkChecking
		}
		var err error
		out, err = scanBulk(tx.QueryRow(ctx, `INSERT INTO bulks (id, kind, state, filter, selected, total, created_by, created_at)
			VALUES ($1, $2, $3, $4, $5, 1, $6, $7) RETURNING `+bulkColumns, b.ID, b.Kind, b.State, clean(b.Filter), b.Selected, by.String(), now))
		if err != nil {
			return wrap(err, "freeze bulk")
		}
		if out.Total, err = freezeItems(ctx, tx, b.ID, set); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE bulks SET total = $2 WHERE id = $1`, b.ID, out.Total); err != nil {
			return wrap(err, "count bulk")
		}
		if b.State == BulkChecking {
			return s.enqueuer().Bulk(ctx, tx, b.ID, "")
		}
		return nil
	})
	return out, err
}

// freezeItems writes the set's rows, oldest first: who waits longest is asked first.
func freezeItems(ctx context.Context, tx pgx.Tx, id uuid.UUID, set BulkSet) (int, error) {
	w, column, table := &where{}, "payment_id", "payments"
	switch {
	case set.Filter != nil:
		f, err := set.Filter.gathered(ctx, tx)
		if err != nil {
			return 0, err
		}
		w = f.where()
	case set.Inbox != nil:
		w, column, table = set.Inbox.where(), "event_id", "webhook_events"
	case len(set.Payments) > 0:
		w.and("id = ANY(?)", set.Payments)
	default:
		w.and("id = ANY(?)", set.Events)
		column, table = "event_id", "webhook_events"
	}
	newest := fmt.Sprintf("SELECT id, provider FROM %s %s ORDER BY id DESC LIMIT %s", table, w, w.arg(BulkMax+1))
	sql := fmt.Sprintf(`INSERT INTO bulk_items (bulk_id, seq, provider, %s)
		SELECT %s, row_number() OVER (ORDER BY id), provider, id FROM (%s) set`, column, w.arg(id), newest)
	tag, err := tx.Exec(ctx, sql, w.planned()...)
	if err != nil {
		return 0, wrap(err, "freeze items")
	}
	switch n := int(tag.RowsAffected()); {
	case n == 0:
		return 0, ErrBulkEmpty
	case n > BulkMax:
		return 0, ErrBulkTooLarge
	default:
		return n, nil
	}
}

// Bulk reads one. ErrNotFound.
func (s *Store) Bulk(ctx context.Context, id uuid.UUID) (Bulk, error) {
	b, err := scanBulk(s.pool.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulks WHERE id = $1`, id))
	return b, wrap(err, "bulk")
}

// ListBulks reads the latest ones that were started, or are a draft of by.
func (s *Store) ListBulks(ctx context.Context, kind string, by Actor, limit int) ([]Bulk, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+bulkColumns+` FROM bulks
		WHERE kind = $1 AND (started_at IS NOT NULL OR created_by = $2) ORDER BY created_at DESC, id DESC LIMIT $3`, kind, by.String(), limit)
	if err != nil {
		return nil, fmt.Errorf("list bulks: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Bulk, error) { return scanBulk(row) })
}

// StartBulk sets a draft going, once however often it is asked for, with one audit row
// that holds the filter and every id. Errors: ErrNotFound, *BulkConflictError when
// somebody else, or another tab, was first.
func (s *Store) StartBulk(ctx context.Context, actionID, id uuid.UUID, version int64, by Actor) (Bulk, error) {
	return s.changeBulk(ctx, bulkAction{actionID: actionID, id: id, version: version, by: by, name: "start"},
		func(ctx context.Context, tx pgx.Tx, b Bulk) error {
			if b.State != BulkDraft {
				return s.bulkConflict(ctx, tx, b)
			}
			_, err := tx.Exec(ctx, `UPDATE bulks SET state = 'running', started_by = $2, started_at = $3, version = version + 1 WHERE id = $1`,
				id, by.String(), s.Now())
			if err != nil {
				return wrap(err, "start bulk")
			}
			if err := s.auditBulk(ctx, tx, b, by); err != nil {
				return err
			}
			return s.enqueueBulk(ctx, tx, b)
		})
}

// CancelBulk stops a bulk before its next item; what is done stays. One that ended
// meanwhile stays as it is. Errors: ErrNotFound, *BulkConflictError.
func (s *Store) CancelBulk(ctx context.Context, actionID, id uuid.UUID, by Actor) (Bulk, error) {
	return s.changeBulk(ctx, bulkAction{actionID: actionID, id: id, by: by, name: "cancel"},
		func(ctx context.Context, tx pgx.Tx, b Bulk) error {
			if b.State != BulkRunning {
				return s.bulkConflict(ctx, tx, b)
			}
			_, err := tx.Exec(ctx, `UPDATE bulks SET state = 'cancelled', cancelled_by = $2, ended_at = $3, waits = '{}', version = version + 1 WHERE id = $1`,
				id, by.String(), s.Now())
			if err != nil {
				return wrap(err, "cancel bulk")
			}
			counts, err := bulkCounts(ctx, tx, id)
			if err != nil {
				return err
			}
			return s.Audit(ctx, tx, by, "bulk.cancel", "bulk:"+id.String(), "", map[string]any{"total": b.Total},
				map[string]any{"left": counts.Left})
		})
}

// bulkAction is who does what to which bulk.
type bulkAction struct {
	actionID, id uuid.UUID
	version      int64 // 0: whatever it is
	by           Actor
	name         string
}

// changeBulk runs fn on the locked bulk, once per action id, and reads it afterwards.
func (s *Store) changeBulk(ctx context.Context, a bulkAction, fn func(context.Context, pgx.Tx, Bulk) error) (out Bulk, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b, err := scanBulk(tx.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulks WHERE id = $1 FOR UPDATE`, a.id))
		if err != nil {
			return wrap(err, "lock bulk")
		}
		first, _, err := s.ClaimAction(ctx, tx, a.actionID, a.by, "bulk."+a.name, "bulk:"+a.id.String(), "done")
		if err != nil {
			return err
		}
		if out = b; !first {
			return nil
		}
		if a.version != 0 && a.version != b.Version {
			return s.bulkConflict(ctx, tx, b)
		}
		if err := fn(ctx, tx, b); err != nil {
			return err
		}
		if err := Notify(ctx, tx, TopicBulks); err != nil {
			return err
		}
		out, err = scanBulk(tx.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulks WHERE id = $1`, a.id))
		return err
	})
	return out, err
}

// auditBulk writes the one audit row of the whole action.
func (s *Store) auditBulk(ctx context.Context, tx pgx.Tx, b Bulk, by Actor) error {
	rows, err := tx.Query(ctx, `SELECT coalesce(payment_id::text, event_id::text) FROM bulk_items WHERE bulk_id = $1 ORDER BY seq`, b.ID)
	if err != nil {
		return wrap(err, "read bulk ids")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return wrap(err, "read bulk ids")
	}
	return s.Audit(ctx, tx, by, "bulk."+b.Kind, "bulk:"+b.ID.String(), "", nil,
		map[string]any{"filter": b.Filter, "selected": b.Selected, "total": b.Total, "ids": ids})
}

// enqueueBulk inserts the jobs that work a bulk: one per provider that has to be asked,
// one for everything that only touches our books.
func (s *Store) enqueueBulk(ctx context.Context, tx pgx.Tx, b Bulk) error {
	if b.Kind == BulkReapply {
		return s.enqueuer().Bulk(ctx, tx, b.ID, "")
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT provider FROM bulk_items WHERE bulk_id = $1 AND outcome = '' ORDER BY 1`, b.ID)
	if err != nil {
		return wrap(err, "read bulk providers")
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return wrap(err, "read bulk providers")
	}
	for _, name := range names {
		if err := s.enqueuer().Bulk(ctx, tx, b.ID, name); err != nil {
			return err
		}
	}
	return nil
}

// BulkConflictError: the bulk is not what the person saw any more. Nothing was changed.
type BulkConflictError struct {
	State string
	By    string // who changed it, for people
	At    time.Time
}

// Error implements error.
func (e *BulkConflictError) Error() string {
	return fmt.Sprintf("store: bulk is %s since %s, by %s", e.State, e.At.Format(time.RFC3339), e.By)
}

func (s *Store) bulkConflict(ctx context.Context, tx pgx.Tx, b Bulk) error {
	c := &BulkConflictError{State: b.State, By: b.CreatedBy, At: b.CreatedAt}
	if b.StartedAt != nil {
		c.By, c.At = b.StartedBy, *b.StartedAt
	}
	if b.EndedAt != nil {
		c.At = *b.EndedAt
	}
	if b.CancelledBy != "" {
		c.By = b.CancelledBy
	}
	names, err := actorNames(ctx, tx, []string{c.By})
	if name := names[c.By]; name != "" {
		c.By = name
	}
	if err != nil {
		return err
	}
	return c
}
