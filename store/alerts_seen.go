package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxAlertNote is how long the note of an acknowledgement may be, in characters.
const MaxAlertNote = 500

// Acknowledged is who took notice of an alert.
type Acknowledged struct {
	By   string // user:ID
	Name string // for people, as it was then
	At   time.Time
	Note string // may be empty
}

// AcknowledgedError: somebody was first (409). Nothing was changed.
type AcknowledgedError struct{ Acknowledged }

// Error implements error.
func (e *AcknowledgedError) Error() string {
	return fmt.Sprintf("store: acknowledged by %s at %s", e.Name, e.At.Format(time.RFC3339))
}

// AcknowledgeAlert records that a person knows of an alert, once per action id, with its
// audit row. It changes nothing of what the alert is about. Errors: ErrNotFound,
// *AcknowledgedError (somebody was first, maybe the same person in another tab),
// ErrNotAllowed (not a person, or a note of more than MaxAlertNote characters).
func (s *Store) AcknowledgeAlert(ctx context.Context, actionID uuid.UUID, id int64, note string, by Actor) error {
	note = strings.TrimSpace(clean(note))
	if by.Kind != "user" || utf8.RuneCountInString(note) > MaxAlertNote {
		return ErrNotAllowed
	}
	target := "alert:" + strconv.FormatInt(id, 10)
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		first, _, err := s.ClaimAction(ctx, tx, actionID, by, "alert.acknowledge", target, "acknowledged")
		if err != nil || !first {
			return err
		}
		tag, err := tx.Exec(ctx, acknowledge+` WHERE id = $5 AND acknowledged_at IS NULL`, s.Now(), by.String(), by.Name, note, id)
		if err != nil {
			return wrap(err, "acknowledge alert")
		}
		if tag.RowsAffected() == 0 {
			return acknowledgedAlready(ctx, tx, id)
		}
		if err := s.Audit(ctx, tx, by, "alert.acknowledge", target, note, nil, nil); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicAlerts)
	})
	return wrap(err, "acknowledge alert "+strconv.FormatInt(id, 10))
}

const acknowledge = `UPDATE alerts SET acknowledged_at = $1, acknowledged_by = $2, acknowledged_name = $3, acknowledged_note = $4`

// acknowledgedAlready says who was first.
func acknowledgedAlready(ctx context.Context, tx pgx.Tx, id int64) error {
	var e AcknowledgedError
	err := tx.QueryRow(ctx, `SELECT acknowledged_by, acknowledged_name, acknowledged_at, acknowledged_note FROM alerts WHERE id = $1`, id).
		Scan(&e.By, &e.Name, &e.At, &e.Note)
	if err != nil {
		return notFound(err)
	}
	return &e
}

// AcknowledgeAlerts is AcknowledgeAlert for all open alerts of a severity (empty: all)
// up to the one with the id upTo, the newest that the person was shown. It returns how
// many there were, on a repeat how many the first time.
func (s *Store) AcknowledgeAlerts(ctx context.Context, actionID uuid.UUID, severity string, upTo int64, note string, by Actor) (n int, err error) {
	note = strings.TrimSpace(clean(note))
	if by.Kind != "user" || utf8.RuneCountInString(note) > MaxAlertNote {
		return 0, ErrNotAllowed
	}
	earlier := ""
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		w := &where{args: []any{s.Now(), by.String(), by.Name, note}}
		w.and("acknowledged_at IS NULL AND id <= ?", upTo)
		if severity != "" {
			w.and("severity = ?", severity)
		}
		tag, err := tx.Exec(ctx, acknowledge+" "+w.String(), w.args...)
		if err != nil {
			return err
		}
		n = int(tag.RowsAffected())
		// Claimed last, because only now the count is known; the rows' locks make two
		// clicks take turns, and the second changes nothing.
		target := "alerts:" + strconv.FormatInt(upTo, 10)
		var first bool
		if first, earlier, err = s.ClaimAction(ctx, tx, actionID, by, "alerts.acknowledge", target, strconv.Itoa(n)); err != nil {
			return err
		}
		if !first {
			return errRepeated
		}
		if n == 0 {
			return nil
		}
		if err := s.Audit(ctx, tx, by, "alerts.acknowledge", target, note, nil, map[string]any{"alerts": n, "severity": severity}); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicAlerts)
	})
	if errors.Is(err, errRepeated) {
		return strconv.Atoi(earlier)
	}
	return n, wrap(err, "acknowledge alerts")
}

// OpenAlertsCap bounds OpenAlerts.
const OpenAlertsCap = 99

// OpenAlerts counts the alerts that nobody acknowledged and that ask for a person, so not
// what is only news; bounded by OpenAlertsCap+1.
func (s *Store) OpenAlerts(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM alerts
		WHERE acknowledged_at IS NULL AND severity <> 'info' LIMIT $1) x`, OpenAlertsCap+1).Scan(&n)
	return n, wrap(err, "count open alerts")
}

// CountOpenAlerts counts the alerts that AcknowledgeAlerts would acknowledge.
func (s *Store) CountOpenAlerts(ctx context.Context, severity string, upTo int64) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM alerts
		WHERE acknowledged_at IS NULL AND id <= $1 AND ($2 = '' OR severity = $2)`, upTo, severity).Scan(&n)
	return n, wrap(err, "count open alerts")
}
