package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// plain reports whether a delivery is signed and tells one event that concerns us: what
// may be stored together with others. Whether the event is new only its row can tell.
func (d Delivery) plain() bool {
	return d.Verification.Verdict == provider.SignatureValid && d.ParseError == "" && len(d.Events) == 1 &&
		d.Events[0].Interesting && ident(d.Events[0].Key) != ""
}

// receiveTogether stores plain deliveries whose event is new, with their work. A repeat,
// here or of an earlier one, goes alone and is counted.
func (s *Store) receiveTogether(ctx context.Context, list []Delivery) (ids []int64, did []bool, err error) {
	r := receiving{s: s, ids: make([]int64, len(list)), did: make([]bool, len(list)), known: map[eventName]bool{}}
	at := map[eventName]bool{}
	for i, d := range list {
		name := d.name()
		if at[name] {
			continue
		}
		at[name] = true
		r.first, r.at = append(r.first, d), append(r.at, i)
		if s.noted.due(d.Provider, s.Now()) {
			r.notes = append(r.notes, d.Provider)
		}
	}
	slices.Sort(r.notes)
	atOnce := slices.ContainsFunc(r.first, func(d Delivery) bool { return d.AtOnce })
	err = errKnownEvents
	for try := 0; atOnce && try < 2 && errors.Is(err, errKnownEvents); try++ { // again without the repeats
		err = s.inExchange(ctx, func(ctx context.Context, x *exchange) error { return r.run(ctx, x, true) })
	}
	if !atOnce || err != nil { // what stands in the way of applying must not stand in the way of keeping
		err = s.inExchange(ctx, func(ctx context.Context, x *exchange) error { return r.run(ctx, x, false) })
	}
	if err != nil {
		for _, name := range r.notes {
			s.noted.forget(name)
		}
	}
	return r.ids, r.did, err
}

// name is what a plain delivery's event is known by.
func (d Delivery) name() eventName { return eventName{d.Provider, ident(d.Events[0].Key)} }

// receiving is a batch of plain deliveries on its way in.
type receiving struct {
	s     *Store
	ids   []int64 // results, by call
	did   []bool
	first []Delivery // of each event
	at    []int      // their calls
	notes []string   // providers that are noted with it
	known map[eventName]bool
}

// errKnownEvents ends a transaction that applied events which it then could not store: they
// are known.
var errKnownEvents = errors.New("store: an event is known already")

// run stores the deliveries. What is plain of those to be applied at once is: its row says
// so from the beginning. The others get a job.
func (r *receiving) run(ctx context.Context, x *exchange, atOnce bool) error {
	clear(r.did)
	now := r.s.Now()
	rows := make([]inboxRow, len(r.first))
	for i, d := range r.first {
		e := d.Events[0]
		rows[i] = inboxRow{event: e, state: inboxReceived, facts: facts(e)}
	}
	var j judged
	if atOnce {
		var err error
		if j, err = r.judge(ctx, x, rows, now); err != nil {
			return err
		}
	}
	var b pgx.Batch
	made := queueInbox(&b, r.first, rows, now)
	if len(j.events) > 0 {
		j.queue(r.s, &b)
	}
	for _, name := range r.notes {
		queueNote(&b, name, now)
	}
	all := len(j.events) == len(rows) // nothing is left to do after it
	var err error
	if all {
		queueAllStored(&b, j.events)
		err = x.commit(ctx, &b, TopicWebhooks, TopicPayments)
	} else {
		err = x.send(ctx, &b)
	}
	if err != nil && !(all && sqlState(err) == codeText) {
		return wrap(err, "store events")
	}
	var work []int64
	repeated := false
	for i, d := range r.first {
		id, fresh := made[d.name()]
		switch {
		case !fresh:
			r.known[d.name()] = true
			repeated = repeated || rows[i].state == inboxApplied
			continue
		case rows[i].state == inboxReceived:
			work = append(work, id)
		}
		r.ids[r.at[i]], r.did[r.at[i]] = id, true
	}
	if repeated {
		return errKnownEvents
	}
	if all {
		return wrap(err, "store events")
	}
	var rest pgx.Batch
	if err := r.s.enqueuer().QueueWebhooks(ctx, &rest, work); err != nil {
		return err
	}
	topics := []string{TopicWebhooks}
	if len(j.events) > 0 {
		topics = append(topics, TopicPayments)
	}
	return wrap(x.commit(ctx, &rest, topics...), "store events")
}

// queueAllStored fails in the server unless all events were stored.
func queueAllStored(b *pgx.Batch, events []told) {
	ids := make([]int64, len(events))
	for i, e := range events {
		ids[i] = e.id
	}
	b.Queue(`SELECT `+orFail("count(*)", 2)+` FROM webhook_events WHERE id = ANY($1)`, ids, len(ids))
}

// judge locks the payments that the events name and judges those that are plain, as
// applyTogether does; their rows get an id and are marked as applied. Here a payment
// is locked before the inbox row is made. Only a fetched hint waits for a payment with a
// new event key of its own in hand, and the deliveries of such a provider are not AtOnce.
func (r *receiving) judge(ctx context.Context, x *exchange, rows []inboxRow, now time.Time) (judged, error) {
	var events []told
	var payments []uuid.UUID
	for i, d := range r.first {
		e := d.Events[0]
		payment, ours := ownPayment(e.Object)
		if !d.AtOnce || r.known[d.name()] || !ours || ident(e.Object.ID) == "" || e.Type == hintType {
			continue
		}
		in := inboxEntry{provider: d.Provider, key: ident(e.Key), state: inboxReceived, raw: d.Raw, receivedAt: now}
		events, payments = append(events, told{in, e, payment, i}), append(payments, payment)
	}
	if len(events) == 0 {
		return judged{}, nil
	}
	var b pgx.Batch
	settings(&b)
	b.Queue(`SELECT nextval('webhook_events_id_seq') FROM generate_series(1, $1::int)`, len(events)).Query(func(ids pgx.Rows) error {
		var id int64
		i := 0
		_, err := pgx.ForEachRow(ids, []any{&id}, func() error { events[i].id = id; i++; return nil })
		return err
	})
	st := queueStories(&b, payments)
	if err := x.send(ctx, &b); err != nil {
		return judged{}, wrap(err, "lock payments of events")
	}
	j := r.s.judgePlain(st, events)
	for _, e := range j.events {
		row := &rows[e.at]
		row.id, row.state, row.payment = e.id, inboxApplied, e.payment
	}
	return j, nil
}
