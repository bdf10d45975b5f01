package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// A hint is a delivery that says that something happened and not what (see
// provider.Fetcher). Its inbox row begins without an event key; what the provider
// answers about it gives the row one, and from then on it is an event like any other:
//
//	received   → applied | unmatched   as an event, with what was fetched
//	received   → ignored               the provider knows no such id, or the same was fetched before
//	received   → received              no answer yet: asked again
//	unmatched  → applied …             as an event, fetched again
const hintType = "hint"

// hintApplied is the reason kept with an applied hint: its signature proves nothing, and
// people should see what did.
const hintApplied = "a hint; read back from the provider"

// Hint reports whether the row began as a hint.
func (e InboxEvent) Hint() bool { return e.EventType == hintType }

// InboxHint is a hint to follow.
type InboxHint struct {
	ObjectID string // the provider's id, as the delivery named it
	Tries    int    // fetches begun, this one included
}

// ReceiveHint stores a hint about an object and enqueues the work, in one transaction.
// The caller answers 2xx only after it returned nil. Anybody can send hints, so one more
// about an object that nobody has begun to fetch is only counted: the fetch to come sees
// whatever it announces.
func (s *Store) ReceiveHint(ctx context.Context, d Delivery, objectID string) (Received, error) {
	r := Received{State: inboxReceived}
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r = Received{State: inboxReceived}
		if err := lockHints(ctx, tx, d.Provider, objectID); err != nil {
			return err
		}
		id, again, err := s.storeHint(ctx, tx, d, objectID)
		if err != nil {
			return err
		}
		r.EventIDs = []int64{id}
		if again {
			r.Duplicates = 1
		}
		if err := s.enqueuer().Webhook(ctx, tx, id); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicWebhooks)
	})
	if err != nil {
		return Received{}, err
	}
	return r, nil
}

// lockHints makes everybody who stores or settles hints about one object take turns. It
// comes before any row lock.
func lockHints(ctx context.Context, tx pgx.Tx, providerName, objectID string) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 7))`, providerName+"\n"+objectID)
	return wrap(err, "lock hints")
}

func (s *Store) storeHint(ctx context.Context, tx pgx.Tx, d Delivery, objectID string) (id int64, again bool, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE webhook_events SET duplicates = duplicates + 1, last_delivery_at = $3
		WHERE id = (SELECT id FROM webhook_events
			WHERE state = 'received' AND provider = $1 AND provider_object_id = $2 AND event_type = $4 AND tries = 0
			ORDER BY id DESC LIMIT 1) AND tries = 0
		RETURNING id`, d.Provider, ident(objectID), s.Now(), hintType).Scan(&id)
	if notFound(err) != ErrNotFound {
		return id, true, wrap(err, "count repeated hint")
	}
	row := inboxRow{state: inboxReceived, reason: "a hint; the provider will be asked"}
	row.event.Type, row.event.Object.ID = hintType, objectID
	id, err = s.insertInbox(ctx, tx, d, row)
	return id, false, wrap(err, "store hint")
}

// WebhookWork reads which provider an inbox row belongs to, and whether it is a hint.
// ErrNotFound.
func (s *Store) WebhookWork(ctx context.Context, eventID int64) (providerName string, hint bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT provider, event_type = $2 FROM webhook_events WHERE id = $1`, eventID, hintType).
		Scan(&providerName, &hint)
	return providerName, hint, wrap(notFound(err), "read inbox row")
}

// BeginFetch notes that the provider is about to be asked about a hint: what is delivered
// from now on is a hint of its own. ErrNotFound when there is nothing left to do.
func (s *Store) BeginFetch(ctx context.Context, eventID int64) (h InboxHint, err error) {
	err = s.pool.QueryRow(ctx, `
		UPDATE webhook_events SET tries = tries + 1
		WHERE id = $1 AND event_type = $2 AND state IN ('received', 'unmatched') RETURNING provider_object_id, tries`,
		eventID, hintType).Scan(&h.ObjectID, &h.Tries)
	return h, wrap(notFound(err), "begin fetch")
}

// ApplyFetched applies what was fetched about a hint, in tx. What an earlier hint has
// brought already is ignored here; whoever is first applies it. It returns the row's
// state afterwards. ErrNotFound. Lock order: hints of the object, inbox row, payment.
func (s *Store) ApplyFetched(ctx context.Context, tx pgx.Tx, eventID int64, e provider.Event) (string, error) {
	in, err := s.lockHint(ctx, tx, eventID)
	if err != nil || in.state != inboxReceived && in.state != inboxUnmatched {
		return in.state, err
	}
	key := ident(e.Key)
	if key == "" || ident(e.Object.ID) == "" {
		return s.markRow(ctx, tx, in, inboxUnparsed, "fetched an object without a usable id", nil)
	}
	if first, err := earlierHint(ctx, tx, in, key); err != nil || first != 0 {
		if err != nil {
			return "", err
		}
		return s.markRow(ctx, tx, in, inboxIgnored, fmt.Sprintf("nothing new: event %d brought the same", first), nil)
	}
	_, err = tx.Exec(ctx, `
		UPDATE webhook_events SET event_key = $2, reference = $3, object_facts = $4, occurred_at = $5, charge_id = $6 WHERE id = $1`,
		in.id, key, reference(e.Object), facts(e), orNull(e.OccurredAt.UTC()), ident(e.Object.Child.ChargeID))
	if err != nil {
		return "", wrap(err, "note what was fetched")
	}
	if err := s.noteWebhook(ctx, tx, in.provider); err != nil {
		return "", err
	}
	state, err := s.ApplyWebhook(ctx, tx, eventID, func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil })
	if err == nil && state == inboxApplied {
		_, err = tx.Exec(ctx, `UPDATE webhook_events SET state_reason = $2 WHERE id = $1`, in.id, hintApplied)
	}
	return state, wrap(err, "apply what was fetched")
}

// lockHint locks a hint's row, after the hints of its object.
func (s *Store) lockHint(ctx context.Context, tx pgx.Tx, id int64) (inboxEntry, error) {
	var name, objectID string
	err := tx.QueryRow(ctx, `SELECT provider, provider_object_id FROM webhook_events WHERE id = $1 AND event_type = $2`, id, hintType).
		Scan(&name, &objectID)
	if err != nil {
		return inboxEntry{}, wrap(notFound(err), "read hint")
	}
	if err := lockHints(ctx, tx, name, objectID); err != nil {
		return inboxEntry{}, err
	}
	return lockEntry(ctx, tx, id)
}

// earlierHint returns another row that brought the same, or 0. One that waits for its
// payment counts too: it is applied when the payment appears.
func earlierHint(ctx context.Context, tx pgx.Tx, in inboxEntry, key string) (id int64, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE webhook_events SET duplicates = duplicates + 1, last_delivery_at = greatest(last_delivery_at, $4)
		WHERE provider = $1 AND event_key = $2 AND id <> $3 RETURNING id`, in.provider, key, in.id, in.receivedAt).Scan(&id)
	if notFound(err) == ErrNotFound {
		return 0, nil
	}
	return id, wrap(err, "find the same event")
}

// DropHint closes a hint whose object the provider does not know, in tx. ErrNotFound.
func (s *Store) DropHint(ctx context.Context, tx pgx.Tx, eventID int64, why string) error {
	in, err := s.lockHint(ctx, tx, eventID)
	if err != nil || in.state != inboxReceived && in.state != inboxUnmatched {
		return err
	}
	_, err = s.markRow(ctx, tx, in, inboxIgnored, clean(why), nil)
	return err
}

// NoteHint keeps why a hint still waits, and until when.
func (s *Store) NoteHint(ctx context.Context, tx pgx.Tx, eventID int64, why string, until time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook_events SET state_reason = $2 WHERE id = $1 AND event_type = $3 AND state IN ('received', 'unmatched')`,
		eventID, clean(fmt.Sprintf("no answer (%s); asked again at %s", why, until.UTC().Format(time.RFC3339))), hintType)
	if err != nil {
		return wrap(err, "note hint")
	}
	return Notify(ctx, tx, TopicWebhooks)
}
