package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// inboxEntry is what applying needs of an inbox row.
type inboxEntry struct {
	id         int64
	provider   string
	key        string
	state      string
	raw        []byte
	receivedAt time.Time
}

// ApplyWebhook applies one received or unmatched inbox row, in tx, under the payment's
// row lock; parse reads the stored raw body again. Already applied: no-op. It returns
// the row's state afterwards. The signature and its time were judged at receipt and are
// not looked at again. ErrNotFound. Lock order: inbox row, payment, attempt, wallet.
func (s *Store) ApplyWebhook(ctx context.Context, tx pgx.Tx, eventID int64, parse func(raw []byte) ([]provider.Event, error)) (string, error) {
	in, err := lockEntry(ctx, tx, eventID)
	if err != nil {
		return "", err
	}
	if in.state != inboxReceived && in.state != inboxUnmatched {
		return in.state, nil
	}
	event, err := in.event(parse)
	if err != nil {
		return s.markRow(ctx, tx, in, inboxUnparsed, clean(err.Error()), nil)
	}
	if isChild(event.Object) {
		return s.applyChildEvent(ctx, tx, in, event)
	}
	p, found, err := matchPayment(ctx, tx, in.provider, event.Object)
	if err != nil {
		return "", err
	}
	if !found {
		return s.markRow(ctx, tx, in, inboxUnmatched, "no payment with this reference or id yet", nil)
	}
	if err := s.applyEvent(ctx, tx, p, in, event); err != nil {
		return "", err
	}
	return s.markRow(ctx, tx, in, inboxApplied, "", &p)
}

func lockEntry(ctx context.Context, tx pgx.Tx, id int64) (in inboxEntry, err error) {
	in.id = id
	err = tx.QueryRow(ctx, `SELECT provider, coalesce(event_key, ''), state, raw, received_at FROM webhook_events WHERE id = $1 FOR UPDATE`, id).
		Scan(&in.provider, &in.key, &in.state, &in.raw, &in.receivedAt)
	return in, wrap(notFound(err), "lock inbox row")
}

// event finds the row's own event in its delivery, which may carry several.
func (in inboxEntry) event(parse func([]byte) ([]provider.Event, error)) (provider.Event, error) {
	events, err := parse(in.raw)
	if err != nil {
		return provider.Event{}, err
	}
	for _, e := range events {
		switch {
		case ident(e.Key) != in.key:
		case ident(e.Object.ID) == "":
			return provider.Event{}, errors.New("event about an object without a usable id")
		default:
			return e, nil
		}
	}
	return provider.Event{}, fmt.Errorf("no event %q in the stored body", in.key)
}

// markRow writes what became of the row.
func (s *Store) markRow(ctx context.Context, tx pgx.Tx, in inboxEntry, state, reason string, paymentID *uuid.UUID) (string, error) {
	var applied *time.Time
	if state == inboxApplied {
		now := s.Now()
		applied = &now
	}
	_, err := tx.Exec(ctx, `
		UPDATE webhook_events SET state = $2, state_reason = $3, payment_id = coalesce($4, payment_id), applied_at = $5, tries = tries + 1
		WHERE id = $1`, in.id, state, reason, paymentID, applied)
	if err != nil {
		return "", wrap(err, "mark inbox row")
	}
	return state, Notify(ctx, tx, TopicWebhooks)
}

// matchPayment finds the payment an object is about: by our own reference first, then
// by what is known under (provider, object id). The provider is part of both, and an
// object that names one of our payments is never matched to another. It takes no lock.
func matchPayment(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object) (id uuid.UUID, found bool, err error) {
	if ref, parseErr := uuid.Parse(o.Reference); parseErr == nil && len(o.Reference) == 36 {
		err = tx.QueryRow(ctx, `SELECT id FROM payments WHERE id = $1 AND provider = $2`, ref, providerName).Scan(&id)
	} else if oid := ident(o.ID); oid != "" {
		err = tx.QueryRow(ctx, `
			SELECT id FROM payments WHERE provider = $1 AND provider_payment_id = $2
			UNION ALL SELECT payment_id FROM provider_objects WHERE provider = $1 AND object_id = $2 AND payment_id IS NOT NULL
			LIMIT 1`, providerName, oid).Scan(&id)
	} else {
		return uuid.Nil, false, nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, false, nil
	}
	return id, err == nil, wrap(err, "match payment")
}

// applyEvent lets the event's object have its say about the payment.
func (s *Store) applyEvent(ctx context.Context, tx pgx.Tx, id uuid.UUID, in inboxEntry, e provider.Event) error {
	p, err := lockPayment(ctx, tx, id)
	if err != nil {
		return err
	}
	at := s.happened(in, e)
	c := change{
		on: ByEvent, kind: "webhook", source: "webhook", by: System("webhook"),
		detail: with(in.detail(e, at), "object", brief(e.Object)),
	}
	after, err := s.settle(ctx, tx, p, finding{on: ByEvent, observations: s.seen("webhook", at, e.Object), change: c})
	if err != nil {
		return err
	}
	if err := s.alertUnlisted(ctx, tx, after, e.Object); err != nil {
		return err
	}
	return s.keepAsking(ctx, tx, p, after, "webhook")
}

// happened is when an event happened by the provider's clock.
func (s *Store) happened(in inboxEntry, e provider.Event) time.Time {
	if e.OccurredAt.IsZero() || e.OccurredAt.After(s.Now()) {
		return in.receivedAt // an event from the future happened when it came
	}
	return e.OccurredAt
}

// detail is what the timeline keeps of an event.
func (in inboxEntry) detail(e provider.Event, at time.Time) map[string]any {
	return map[string]any{"inbox_id": in.id, "event_key": in.key, "event_type": e.Type, "occurred_at": at.UTC()}
}

// applyChildEvent applies an event about a refund or a dispute.
func (s *Store) applyChildEvent(ctx context.Context, tx pgx.Tx, in inboxEntry, e provider.Event) (string, error) {
	at := s.happened(in, e)
	payment, wait, err := s.applyChild(ctx, tx, in.provider, e.Object, childSource{on: ByEvent, name: "webhook", at: at, key: in.key, detail: in.detail(e, at)})
	switch {
	case err != nil:
		return "", err
	case wait != "":
		return s.markRow(ctx, tx, in, inboxUnmatched, wait, nil)
	}
	return s.markRow(ctx, tx, in, inboxApplied, "", &payment)
}

// keepAsking gives a payment that just left pending its first lookup: nothing else
// would ever look at it if no further event came.
func (s *Store) keepAsking(ctx context.Context, tx pgx.Tx, before, after Payment, source string) error {
	if before.Status != Pending || after.Status == Pending || after.Status.Final() {
		return nil
	}
	at := s.Now().Add(firstAsk)
	after, _, err := s.apply(ctx, tx, after, change{next: next{at: at, why: whyReconcile},
		kind: "snoozed", source: source, by: System(source), quiet: true})
	if err != nil {
		return err
	}
	return s.enqueuer().Reconcile(ctx, tx, after.ID, after.Provider, at)
}

// firstAsk is the wait before a payment an event moved is asked about.
const firstAsk = time.Minute

// wakeUnmatched enqueues the unmatched events that belong to a payment whose
// provider id just became known.
func (s *Store) wakeUnmatched(ctx context.Context, tx pgx.Tx, p Payment) error {
	rows, err := tx.Query(ctx, `
		SELECT id FROM webhook_events
		WHERE state = 'unmatched' AND provider = $1 AND (reference = $2 OR provider_object_id = $3 OR charge_id = $3) ORDER BY id`,
		p.Provider, p.ID.String(), p.ProviderPaymentID)
	if err != nil {
		return wrap(err, "read unmatched events")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return wrap(err, "read unmatched events")
	}
	for _, id := range ids {
		if err := s.enqueuer().Webhook(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}

// WebhookProvider reads which provider an inbox row belongs to. ErrNotFound.
func (s *Store) WebhookProvider(ctx context.Context, eventID int64) (string, error) {
	var name string
	err := s.pool.QueryRow(ctx, `SELECT provider FROM webhook_events WHERE id = $1`, eventID).Scan(&name)
	return name, wrap(notFound(err), "read inbox row")
}
