package store

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// applying is an inbox row on its way to its payment.
type applying struct {
	id     int64
	parser func(provider string) ParseEvents
}

// ApplyTogether applies an inbox row in a transaction shared with others, and returns
// true once that is committed or the row needs no work any more. Only an event that says
// something about the one known object of an untroubled payment is applied so; false:
// ApplyWebhook has to do it. parser gives the reader of a provider's bodies, nil: none.
func (s *Store) ApplyTogether(ctx context.Context, eventID int64, parser func(provider string) ParseEvents) bool {
	_, did := s.applies.do(ctx, applying{eventID, parser})
	return did
}

// told is an event with the inbox row it came in.
type told struct {
	inboxEntry
	event   provider.Event
	payment uuid.UUID
	at      int // in the batch
}

func (s *Store) applyTogether(ctx context.Context, list []applying) (out []struct{}, did []bool, err error) {
	out, did = make([]struct{}, len(list)), make([]bool, len(list))
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		clear(did)
		events, err := readTold(ctx, tx, list, did)
		if err != nil || len(events) == 0 {
			return err
		}
		ids := make([]uuid.UUID, len(events))
		for i, e := range events {
			ids[i] = e.payment
		}
		var read pgx.Batch
		st := queueStories(&read, ids)
		if err := tx.SendBatch(ctx, &read).Close(); err != nil {
			return wrap(err, "lock payments of events")
		}
		j := s.judgePlain(st, events)
		if len(j.events) == 0 {
			return nil
		}
		rows, owners := make([]int64, len(j.events)), make([]uuid.UUID, len(j.events))
		for i, e := range j.events {
			rows[i], owners[i], did[e.at] = e.id, e.payment, true
		}
		var b pgx.Batch
		j.queue(s, &b)
		queueExactly(&b, len(rows), `UPDATE webhook_events SET state = $3, state_reason = '', payment_id = v.payment, applied_at = $4, tries = tries + 1
			FROM unnest($1::bigint[], $2::uuid[]) AS v (id, payment) WHERE webhook_events.id = v.id`, rows, owners, inboxApplied, s.Now())
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return wrap(err, "apply events")
		}
		if err := Notify(ctx, tx, TopicWebhooks); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicPayments)
	})
	return out, did, err
}

// readTold locks the rows nobody holds and reads the events that name a payment of ours.
// Rows that need no work are done.
func readTold(ctx context.Context, tx pgx.Tx, list []applying, did []bool) (events []told, err error) {
	ids, at := make([]int64, len(list)), map[int64]int{}
	for i, a := range list {
		ids[i], at[a.id] = a.id, i
	}
	var b pgx.Batch
	settings(&b)
	b.Queue(`SELECT id, provider, coalesce(event_key, ''), state, raw, received_at, event_type = $2 FROM webhook_events
		WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED`, ids, hintType).Query(func(rows pgx.Rows) error {
		var in inboxEntry
		var hint bool
		_, err := pgx.ForEachRow(rows, []any{&in.id, &in.provider, &in.key, &in.state, &in.raw, &in.receivedAt, &hint}, func() error {
			if in.state != inboxReceived && in.state != inboxUnmatched {
				did[at[in.id]] = true
				return nil
			}
			parse := list[at[in.id]].parser(in.provider)
			if hint || parse == nil {
				return nil
			}
			row := in
			row.raw = slices.Clone(in.raw)
			e, err := row.event(parse)
			if id, ours := ownPayment(e.Object); ours && err == nil {
				events = append(events, told{row, e, id, at[in.id]})
			}
			return nil
		})
		return err
	})
	return events, wrap(tx.SendBatch(ctx, &b).Close(), "lock inbox rows")
}

// ownPayment returns the payment of ours that a charge's object names.
func ownPayment(o provider.Object) (id uuid.UUID, ok bool) {
	id, err := uuid.Parse(o.Reference)
	return id, err == nil && len(o.Reference) == 36 && !isChild(o)
}

// knownObject is a payment's only object; its running total of refunds with it.
type knownObject struct {
	object
	total   *int64
	totalAt *time.Time
}

// stories are what the books say about payments.
type stories struct {
	payments          map[uuid.UUID]Payment
	objects           map[uuid.UUID]knownObject
	troubled, several map[uuid.UUID]bool
}

// queueStories locks those payments that nobody holds; what it returns is filled when the
// batch has run.
func queueStories(b *pgx.Batch, ids []uuid.UUID) stories {
	st := stories{payments: queueLocks(b, ids), objects: map[uuid.UUID]knownObject{}, troubled: map[uuid.UUID]bool{}, several: map[uuid.UUID]bool{}}
	// Scalar subqueries are never planned as hashes of the whole table.
	b.Queue(`SELECT `+objectColumns+`, refunded_total, refunded_total_at, coalesce(
			(SELECT true FROM operations x WHERE x.payment_id = o.payment_id LIMIT 1), (SELECT true FROM disputes x WHERE x.payment_id = o.payment_id LIMIT 1), false)
		FROM provider_objects o WHERE payment_id = ANY($1)`, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var k knownObject
			var troubled bool
			var err error
			if k.object, err = scanObject(withMore{rows, []any{&k.total, &k.totalAt, &troubled}}); err != nil {
				return err
			}
			st.troubled[*k.paymentID] = troubled
			_, twice := st.objects[*k.paymentID]
			st.several[*k.paymentID] = st.several[*k.paymentID] || twice
			st.objects[*k.paymentID] = k
		}
		return rows.Err()
	})
	return st
}

// plain reports whether a payment is locked and its story has one object and no refund,
// capture or dispute in it.
func (st stories) plain(id uuid.UUID) bool {
	_, locked := st.payments[id]
	_, one := st.objects[id]
	return locked && one && !st.several[id] && !st.troubled[id]
}

// judged are events that were judged and are yet to be written.
type judged struct {
	events []told
	moves  []move
	seen   []seenAgain
}

// judgePlain judges those of the events that are plain.
func (s *Store) judgePlain(st stories, events []told) (j judged) {
	for _, e := range events {
		if !st.plain(e.payment) {
			continue
		}
		p := st.payments[e.payment]
		delete(st.payments, e.payment) // a second event about it goes alone
		if m, o, ok := s.applyPlainly(p, st.objects[e.payment], e); ok {
			j.events, j.moves, j.seen = append(j.events, e), append(j.moves, m), append(j.seen, o)
		}
	}
	return j
}

// queue writes what the events say about their payments, and leaves their own rows to the
// caller.
func (j judged) queue(s *Store, b *pgx.Batch) {
	s.queueSeen(b, j.seen)
	s.queueMoves(b, j.moves)
}

// withMore scans further columns behind those a scan function knows.
type withMore struct {
	row  pgx.Row
	more []any
}

// Scan implements pgx.Row.
func (w withMore) Scan(to ...any) error { return w.row.Scan(append(to, w.more...)...) }

// seenAgain is an object after one more observation.
type seenAgain struct {
	object
	totalAt *time.Time // of a running total of nothing refunded; nil: as it is
}

// applyPlainly judges one event as applyEvent does.
func (s *Store) applyPlainly(p Payment, o knownObject, e told) (m move, after seenAgain, ok bool) {
	said := e.event.Object
	if p.Provider != e.provider || len(p.NeedsReview) > 0 || o.provider != e.provider || p.Manual() || o.id != ident(said.ID) || said.Outcome == "" ||
		said.Totals != nil && (said.Totals.Refunded != 0 || o.total != nil && *o.total != 0) {
		return m, after, false
	}
	at := s.happened(e.inboxEntry, e.event)
	f := finding{on: ByEvent, observations: s.seen("webhook", at, said), change: change{
		on: ByEvent, kind: "webhook", source: "webhook", by: System("webhook"),
		detail: with(e.detail(e.event, at), "object", brief(said)),
	}}
	n := storable(f.observations)[0]
	merged, changed := o.merge(n, wanted(p, nil, n))
	j := judge([]object{merged}, p.ProviderPaymentID)
	if j.own != p.ProviderPaymentID {
		return m, after, false
	}
	m, ok = s.plainly(p, f.judged(p, j, changed))
	if !ok || p.Status == Pending && !m.after.Status.Final() {
		return m, after, false
	}
	after.object = merged
	if said.Totals != nil && (o.totalAt == nil || o.totalAt.Before(n.at)) {
		after.totalAt = &n.at
	}
	return m, after, true
}

// queueSeen writes objects after one more observation.
func (s *Store) queueSeen(b *pgx.Batch, list []seenAgain) {
	var c objectRows
	var totalAt []*time.Time
	for _, o := range list {
		c.add(o.object)
		totalAt = append(totalAt, o.totalAt)
	}
	queueExactly(b, len(list), `
		UPDATE provider_objects o SET reference = v.reference, operation_key = v.key, status = v.word, outcome = v.outcome,
			amount = v.amount, currency = v.currency, source = v.source, outcome_at = v.outcome_at, status_at = v.word_at,
			succeeded_at = v.succeeded, failed_at = v.failed, equal_at = v.equal, differs_at = v.differs, made_at = v.made, raw = v.raw, seen_at = $20,
			refunded_total = CASE WHEN v.total_at IS NULL THEN refunded_total ELSE 0 END, refunded_total_at = coalesce(v.total_at, refunded_total_at)
		FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
			$10::text[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[],
			$17::timestamptz[], $18::bytea[], $19::timestamptz[])
			AS v (provider, id, payment, reference, key, word, outcome, amount, currency, source, outcome_at, word_at, succeeded, failed, equal, differs, made, raw, total_at)
		WHERE o.provider = v.provider AND o.object_id = v.id`, append(c.args(), totalAt, s.Now())...)
}
