package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"fusebox/provider"
)

// States of an inbox row. Received and applied are two facts: work is skipped on
// applied only.
const (
	inboxReceived  = "received"
	inboxApplied   = "applied"
	inboxIgnored   = "ignored"
	inboxUnmatched = "unmatched"
	inboxUnparsed  = "unparsed"
	inboxRejected  = "rejected"
)

// Delivery is one webhook delivery, verified (or not) at receipt. One delivery may
// carry several events; rejected and unparsed ones carry none.
type Delivery struct {
	Provider     string
	Raw          []byte
	Header       http.Header // Authorization, Cookie and the like are dropped before storing
	Verification provider.Verification
	Events       []provider.Event
	ParseError   string
	// AtOnce: an event that is plain is applied in the transaction that stores it. Every
	// other one, and all of them without it, get a job that applies them.
	AtOnce bool
}

// Received says what became of a delivery.
type Received struct {
	EventIDs   []int64
	Duplicates int
	State      string // of the delivery as a whole: received, ignored, rejected, unparsed
}

// ReceiveWebhook stores a delivery and enqueues the work, or does it, in one transaction.
// The caller answers 2xx only after it returned nil. A repeated event is counted, and its
// work enqueued again unless it was applied. Nothing of an unverified delivery is read.
func (s *Store) ReceiveWebhook(ctx context.Context, d Delivery) (Received, error) {
	if d.plain() {
		if id, did := s.receives.do(ctx, d); did {
			return Received{EventIDs: []int64{id}, State: inboxReceived}, nil
		}
	}
	var r Received
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		switch {
		case d.Verification.Verdict != provider.SignatureValid:
			r, err = s.reject(ctx, tx, d)
		case d.ParseError != "" || badKeys(d.Events):
			r, err = s.unparsed(ctx, tx, d)
		default:
			r, err = s.receive(ctx, tx, d)
		}
		if err != nil {
			return err
		}
		return Notify(ctx, tx, TopicWebhooks)
	})
	if err != nil {
		return Received{}, err
	}
	return r, nil
}

func badKeys(events []provider.Event) bool {
	return slices.ContainsFunc(events, func(e provider.Event) bool { return ident(e.Key) == "" })
}

func (s *Store) reject(ctx context.Context, tx pgx.Tx, d Delivery) (Received, error) {
	id, err := s.insertInbox(ctx, tx, d, inboxRow{state: inboxRejected, reason: d.Verification.Verdict})
	if err != nil {
		return Received{}, err
	}
	if d.Verification.TimeReject {
		// The HMAC was right: one of the two clocks is wrong.
		_, err = s.RaiseAlert(ctx, tx, Alert{
			Kind: "webhook_clock", Severity: "warning", Provider: d.Provider,
			Title:     "Webhooks of " + d.Provider + " are rejected for their time only",
			Detail:    "The signature is right, the time is more than 300 s off. Check this machine's clock.",
			DedupeKey: "webhook_clock:" + d.Provider + ":" + s.Now().Format(time.DateOnly),
		})
	}
	return Received{EventIDs: []int64{id}, State: inboxRejected}, err
}

func (s *Store) unparsed(ctx context.Context, tx pgx.Tx, d Delivery) (Received, error) {
	reason := clean(d.ParseError)
	if reason == "" {
		reason = "event without a usable key"
	}
	id, err := s.insertInbox(ctx, tx, d, inboxRow{state: inboxUnparsed, reason: reason})
	if err != nil {
		return Received{}, err
	}
	_, err = s.RaiseAlert(ctx, tx, Alert{
		Kind: provider.AlertContract, Severity: "warning", Provider: d.Provider,
		Title:     "A signed webhook of " + d.Provider + " could not be read",
		Detail:    reason,
		DedupeKey: "webhook_unparsed:" + d.Provider + ":" + s.Now().Format(time.DateOnly),
	})
	return Received{EventIDs: []int64{id}, State: inboxUnparsed}, err
}

// receive stores the events of a verified delivery, in the order of their keys, so
// that two batches with the same events do not wait for each other in a circle.
func (s *Store) receive(ctx context.Context, tx pgx.Tx, d Delivery) (Received, error) {
	r := Received{State: inboxIgnored}
	events := slices.Clone(d.Events)
	slices.SortStableFunc(events, func(a, b provider.Event) int { return strings.Compare(a.Key, b.Key) })
	for _, e := range events {
		id, duplicate, state, err := s.storeEvent(ctx, tx, d, e)
		if err != nil {
			return Received{}, err
		}
		r.EventIDs = append(r.EventIDs, id)
		if duplicate {
			r.Duplicates++
		}
		if e.Interesting {
			r.State = inboxReceived
		}
		if state == inboxReceived || state == inboxUnmatched {
			if err := s.enqueuer().Webhook(ctx, tx, id); err != nil {
				return Received{}, err
			}
		}
	}
	return r, s.noteWebhook(ctx, tx, d.Provider)
}

// inboxRow is what an inbox row says beside the delivery itself.
type inboxRow struct {
	id      int64          // 0: the next one
	event   provider.Event // zero on rejected, unparsed and anomalous rows
	state   string
	reason  string
	facts   string
	payment uuid.UUID // that it is applied to, or zero
}

func (s *Store) insertInbox(ctx context.Context, tx pgx.Tx, d Delivery, r inboxRow) (id int64, err error) {
	var b pgx.Batch
	made := queueInbox(&b, []Delivery{d}, []inboxRow{r}, s.Now())
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return 0, err
	}
	for _, id := range made {
		return id, nil
	}
	return 0, pgx.ErrNoRows
}

// eventName is what an event is known by: its provider and its key.
type eventName [2]string

// queueInbox inserts inbox rows, by their keys, as receive sorts them. When the batch has
// run, the map has the ids of those it made; an event that is missing is known.
func queueInbox(b *pgx.Batch, list []Delivery, rows []inboxRow, now time.Time) map[eventName]int64 {
	var c struct {
		id                                                                                             []int64
		provider, key, kind, reference, object, headers, verdict, secret, state, reason, facts, charge []string
		raw                                                                                            pgtype.FlatArray[[]byte]
		occurred                                                                                       []time.Time
		payment                                                                                        [][16]byte
	}
	for i, d := range list {
		r := rows[i]
		c.id, c.provider, c.key, c.kind = append(c.id, r.id), append(c.provider, d.Provider), append(c.key, ident(r.event.Key)), append(c.kind, clean(r.event.Type))
		c.reference, c.object = append(c.reference, reference(r.event.Object)), append(c.object, ident(r.event.Object.ID))
		c.raw, c.headers = append(c.raw, d.Raw), append(c.headers, storedHeaders(d.Header))
		c.verdict, c.secret = append(c.verdict, d.Verification.Verdict), append(c.secret, d.Verification.SecretLabel)
		c.state, c.reason, c.facts = append(c.state, r.state), append(c.reason, r.reason), append(c.facts, r.facts)
		c.charge, c.payment = append(c.charge, ident(r.event.Object.Child.ChargeID)), append(c.payment, r.payment)
		c.occurred = append(c.occurred, r.event.OccurredAt.UTC())
	}
	made := make(map[eventName]int64, len(list))
	b.Queue(`
		INSERT INTO webhook_events (id, provider, event_key, event_type, reference, provider_object_id, raw, headers, signature, secret_label,
			state, state_reason, occurred_at, received_at, verified_at, last_delivery_at, object_facts, charge_id, payment_id, applied_at, tries)
		OVERRIDING SYSTEM VALUE
		SELECT coalesce(nullif(v.id, 0), nextval('webhook_events_id_seq')), v.provider, nullif(v.key, ''), v.kind, v.reference, v.object, v.raw,
			v.headers::jsonb, v.verdict, v.secret, v.state, v.reason, nullif(v.occurred, $20), $16::timestamptz, CASE v.verdict WHEN $17::text THEN $16::timestamptz END, $16::timestamptz, v.facts, v.charge,
			nullif(v.payment, '00000000-0000-0000-0000-000000000000'), CASE v.state WHEN $18::text THEN $16::timestamptz END, CASE v.state WHEN $18::text THEN 1 ELSE 0 END
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[], $9::text[],
			$10::text[], $11::text[], $12::text[], $13::timestamptz[], $14::text[], $15::text[], $19::uuid[])
			AS v (id, provider, key, kind, reference, object, raw, headers, verdict, secret, state, reason, occurred, facts, charge, payment)
		ORDER BY v.provider, v.key
		ON CONFLICT ON CONSTRAINT webhook_events_key DO NOTHING RETURNING id, provider, coalesce(event_key, '')`,
		c.id, c.provider, c.key, c.kind, c.reference, c.object, c.raw, c.headers, c.verdict, c.secret, c.state, c.reason, c.occurred, c.facts,
		c.charge, now, provider.SignatureValid, inboxApplied, c.payment, time.Time{}).Query(func(found pgx.Rows) error {
		var id int64
		var name eventName
		_, err := pgx.ForEachRow(found, []any{&id, &name[0], &name[1]}, func() error { made[name] = id; return nil })
		return err
	})
	return made
}

// reference is what an inbox row can be matched to a payment by: of a refund or dispute
// the payment its charge names, if the provider repeats it.
func reference(o provider.Object) string {
	return cmp.Or(ident(o.Child.PaymentID), ident(o.Reference))
}

// storeEvent inserts one event, or counts a repeat of it. The row lock the repeat
// takes makes parallel deliveries of one event take turns.
func (s *Store) storeEvent(ctx context.Context, tx pgx.Tx, d Delivery, e provider.Event) (id int64, duplicate bool, state string, err error) {
	row := inboxRow{event: e, state: inboxReceived, facts: facts(e)}
	if !e.Interesting {
		row.state, row.reason = inboxIgnored, "not about a charge"
	}
	id, err = s.insertInbox(ctx, tx, d, row)
	if notFound(err) != ErrNotFound {
		return id, false, row.state, wrap(err, "store event")
	}
	var stored string
	var raw []byte
	err = tx.QueryRow(ctx, `
		UPDATE webhook_events SET duplicates = duplicates + 1, last_delivery_at = $3
		WHERE provider = $1 AND event_key = $2 RETURNING id, state, object_facts, raw`,
		d.Provider, ident(e.Key), s.Now()).Scan(&id, &state, &stored, &raw)
	if err != nil {
		return 0, false, "", wrap(err, "count repeated event")
	}
	if stored != row.facts && !bytes.Equal(raw, d.Raw) {
		err = s.anomaly(ctx, tx, d, e, row.facts, stored)
	}
	return id, true, state, err
}

// anomaly keeps a delivery that says something else under the key of an earlier one:
// evidence, applied to nothing.
func (s *Store) anomaly(ctx context.Context, tx pgx.Tx, d Delivery, e provider.Event, now, before string) error {
	row := inboxRow{event: e, state: inboxIgnored, reason: "same event key, other content", facts: now}
	row.event.Key = ""
	if _, err := s.insertInbox(ctx, tx, d, row); err != nil {
		return wrap(err, "store anomaly")
	}
	_, err := s.RaiseAlert(ctx, tx, Alert{
		Kind: "webhook_contradiction", Severity: "warning", Provider: d.Provider,
		Title:     "One webhook event of " + d.Provider + " came with two contents",
		Detail:    fmt.Sprintf("Event %s said %q first and %q now.", ident(e.Key), before, now),
		DedupeKey: "webhook_contradiction:" + d.Provider + ":" + ident(e.Key),
	})
	return err
}

// facts of an event that a repeat must share.
func facts(e provider.Event) string {
	o := e.Object
	return clean(fmt.Sprintf("%s %s %d %s", o.ID, o.Status, o.Money.Amount, o.Money.Currency))
}

// noteWebhook keeps when the provider last sent something verified.
func (s *Store) noteWebhook(ctx context.Context, tx pgx.Tx, providerName string) error {
	var b pgx.Batch
	queueNote(&b, providerName, s.Now())
	return wrap(tx.SendBatch(ctx, &b).Close(), "note webhook")
}

// queueNote does what noteWebhook does, at most once a second. The check comes before the
// conflict, which would lock the row whatever its WHERE says and make all deliveries of a
// provider take turns. Those that come until the note is committed would still do that:
// see notes.
func queueNote(b *pgx.Batch, providerName string, now time.Time) {
	b.Queue(`
		INSERT INTO provider_state AS p (provider, last_webhook_at)
		SELECT $1::text, $2::timestamptz WHERE NOT EXISTS (SELECT 1 FROM provider_state WHERE provider = $1 AND last_webhook_at >= $3)
		ON CONFLICT (provider) DO UPDATE SET last_webhook_at = greatest(p.last_webhook_at, $2)`, providerName, now, now.Add(-time.Second))
}

// notes is when this process last noted a webhook of each provider, or began to.
type notes struct {
	mu sync.Mutex
	at map[string]time.Time
}

// due takes the note of a provider upon the caller, unless another one has done so within
// a second.
func (n *notes) due(providerName string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, noted := n.at[providerName]; noted && now.Sub(at).Abs() < time.Second {
		return false
	}
	if n.at == nil {
		n.at = map[string]time.Time{}
	}
	n.at[providerName] = now
	return true
}

// forget gives a note back that did not come about.
func (n *notes) forget(providerName string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, providerName)
}

// secretHeaders never reach the database.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "X-Auth-Token"}

// storedHeaders is the JSON object of the headers that are kept.
func storedHeaders(h http.Header) string {
	kept := map[string]any{}
	for name, values := range h {
		if !slices.Contains(secretHeaders, http.CanonicalHeaderKey(name)) {
			kept[clean(name)] = cleanValue(values)
		}
	}
	raw, err := json.Marshal(kept)
	if err != nil { // names and lists of strings always can be
		return "{}"
	}
	return string(raw)
}
