package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// TimelineLimit is how many rows of a timeline are read unless asked otherwise.
const TimelineLimit = 150

// Voices of a timeline, for TimelineQuery.Who.
const (
	VoicePeople   = "people"   // what people did and wrote
	VoiceProvider = "provider" // what the provider answered, sent and listed
	VoiceEngine   = "engine"   // what Fusebox did by itself
)

// TimelineQuery chooses a part of a timeline. The zero value is its newest rows.
type TimelineQuery struct {
	Who    string          // a voice; empty: all of them
	Before *TimelineCursor // rows older than these; nil: the newest
	Limit  int             // 0: TimelineLimit
}

func (q TimelineQuery) limit() int {
	if q.Limit <= 0 {
		return TimelineLimit
	}
	return q.Limit
}

// TimelineCursor is a place in a timeline: rows of either kind with smaller ids are
// before it.
type TimelineCursor struct{ Event, Webhook int64 }

// String is the cursor as it stands in an address.
func (c TimelineCursor) String() string {
	return strconv.FormatInt(c.Event, 36) + "." + strconv.FormatInt(c.Webhook, 36)
}

// ParseTimelineCursor reads what String wrote; false: somebody else wrote it.
func ParseTimelineCursor(text string) (TimelineCursor, bool) {
	event, webhook, found := strings.Cut(text, ".")
	e, err := strconv.ParseInt(event, 36, 64)
	w, err2 := strconv.ParseInt(webhook, 36, 64)
	return TimelineCursor{e, w}, found && err == nil && err2 == nil && e > 0 && w > 0
}

// before is the bound of a query: everything when no place was asked for.
func (q TimelineQuery) before() TimelineCursor {
	if q.Before != nil {
		return *q.Before
	}
	return TimelineCursor{math.MaxInt64, math.MaxInt64}
}

const timelineColumns = `id, payment_id, at, kind, source, actor, from_status, to_status, reason, attempt_id, evidence`

// voiceSQL narrows payment_events to a voice. The people's words are those of the
// partial index payment_events_people.
var voiceSQL = map[string]string{
	"":            "",
	VoicePeople:   " AND actor LIKE 'user:%'",
	VoiceProvider: " AND actor NOT LIKE 'user:%' AND " + fromProvider,
	VoiceEngine:   " AND actor NOT LIKE 'user:%' AND NOT " + fromProvider,
}

const fromProvider = `(kind ~ '(^|_)(attempt_finished|lookup|webhook|sync)$' OR kind LIKE 'dispute%')`

// queueTimeline reads one part of the timeline: the newest events and deliveries before
// the cursor, one more than asked for of each.
func (d *Dossier) queueTimeline(b *pgx.Batch, id uuid.UUID, q TimelineQuery) {
	before, n := q.before(), q.limit()+1
	queue(b, &d.Events, scanTimeline, "SELECT "+timelineColumns+" FROM payment_events WHERE payment_id = $1 AND id < $2"+
		voiceSQL[q.Who]+" ORDER BY id DESC LIMIT $3", id, before.Event, n)
	if q.Who == "" || q.Who == VoiceProvider {
		queue(b, &d.Received, scanInbox, "SELECT "+inboxColumns+" FROM webhook_events WHERE payment_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
			id, before.Webhook, n)
	}
}

// cutTimeline keeps the newest rows of both kinds together, and notes where they begin.
func (d *Dossier) cutTimeline(q TimelineQuery) {
	events, received, at := 0, 0, q.before()
	for range min(q.limit(), len(d.Events)+len(d.Received)) {
		if events < len(d.Events) && (received == len(d.Received) || !d.Events[events].At.Before(d.Received[received].ReceivedAt)) {
			at.Event = d.Events[events].ID
			events++
		} else {
			at.Webhook = d.Received[received].ID
			received++
		}
	}
	if events < len(d.Events) || received < len(d.Received) {
		d.Earlier = &at
	}
	d.Events, d.Received = d.Events[:events], d.Received[:received]
	slices.Reverse(d.Events)
	slices.Reverse(d.Received)
}

// timelineOf reads all events of a payment, oldest first.
func timelineOf(ctx context.Context, tx pgx.Tx, id uuid.UUID) ([]TimelineEvent, error) {
	rows, err := tx.Query(ctx, "SELECT "+timelineColumns+" FROM payment_events WHERE payment_id = $1 ORDER BY id", id)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	return pgx.CollectRows(rows, scanTimeline)
}

func scanTimeline(row pgx.CollectableRow) (e TimelineEvent, err error) {
	err = row.Scan(&e.ID, &e.PaymentID, &e.At, &e.Kind, &e.Source, &e.Actor, &e.FromStatus, &e.ToStatus,
		&e.Reason, &e.AttemptID, &e.Evidence)
	return e, err
}
