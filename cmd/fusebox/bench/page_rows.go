package bench

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Providers are the providers in the books that Page loads.
var Providers = []string{"atlas", "borealis", "cumulus"}

// bookLife is how far back the books go.
const bookLife = 30 * 24 * time.Hour

// books are made-up payments with everything that belongs to them. Row i is the same
// whoever asks for it and in whatever order, so that every table can be written at the
// same time as the others.
type books struct {
	payments int
	events   int // timeline rows of each payment; the first payment has bookLong more
	webhooks int
	now      time.Time
}

// bookLong is how many timeline rows the payment with the longest story has.
const bookLong = 3000

// bookPayment is what the other tables' rows depend on.
type bookPayment struct {
	id       uuid.UUID
	at       time.Time
	settled  *time.Time
	provider string
	status   string
	reason   string
	review   []string
	amount   int64
	currency string
	object   string
	unknown  *time.Time
	rnd      *rand.Rand
}

var bookMoney = []struct {
	currency string
	most     int64
}{{"EUR", 30000}, {"EUR", 9000}, {"USD", 25000}, {"GBP", 20000}, {"JPY", 30000}}

// at is when payment i was made: evenly over bookLife, the newest one second ago.
func (b books) at(i int) time.Time {
	step := bookLife / time.Duration(b.payments)
	return b.now.Add(-bookLife + time.Duration(i)*step).Truncate(time.Microsecond)
}

// payment returns payment i, 0 being the oldest. Of the last day's, one in fifty is not
// settled; of all, one in five thousand waits for a person.
func (b books) payment(i int) bookPayment {
	rnd := rand.New(rand.NewPCG(7, uint64(i)))
	p := bookPayment{at: b.at(i), rnd: rnd, status: "succeeded", reason: "answered"}
	p.id = bookID(p.at, rnd)
	p.provider = Providers[rnd.IntN(len(Providers))]
	money := bookMoney[rnd.IntN(len(bookMoney))]
	p.currency, p.amount = money.currency, 100+rnd.Int64N(money.most)
	p.object = fmt.Sprintf("pay_%010d", i)
	switch n := rnd.IntN(5000); {
	case n < 250:
		p.status, p.reason = "failed", "card_declined"
	case n < 251:
		p.review = []string{"duplicate_at_provider"}
	}
	if b.now.Sub(p.at) < 24*time.Hour {
		one := 400
		if i >= b.payments-40 { // small books have unsettled ones too
			one = 10
		}
		switch rnd.IntN(one) {
		case 0, 1:
			p.status, p.reason = "unknown", "timeout_after_send"
		case 2, 3:
			p.status, p.reason = "pending", "circuit_open"
		case 4, 5:
			p.status, p.reason = "processing", "processing"
		case 6, 7:
			p.status, p.reason = "requires_action", "requires_action"
		}
	}
	if p.status == "succeeded" || p.status == "failed" {
		at := p.at.Add(time.Second)
		p.settled = &at
	}
	if p.status == "unknown" {
		at := p.at.Add(10 * time.Second)
		p.unknown = &at
		p.object = ""
	}
	if p.status == "pending" {
		p.object = ""
	}
	return p
}

// bookID is a version 7 UUID of that moment.
func bookID(at time.Time, rnd *rand.Rand) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[0:], uint64(at.UnixMilli())<<16|rnd.Uint64()&0xfff)
	binary.BigEndian.PutUint64(id[8:], rnd.Uint64())
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// table is one table's rows in COPY's order.
type table struct {
	name    string
	columns []string
	rows    int
	row     func(i int) []any
}

// tables are all tables of the books. Rows of the first have to be there before those
// of the others.
func (b books) tables() (first, others []table) {
	first = []table{b.paymentRows()}
	others = []table{b.attemptRows(), b.eventRows(), b.objectRows(), b.webhookRows(), b.callRows(), b.refundRows(), b.auditRows()}
	return first, others
}

func (b books) paymentRows() table {
	return table{"payments", []string{"id", "client_id", "idempotency_key", "request_hash", "order_ref", "provider", "amount", "currency",
		"description", "customer_name", "customer_email", "status", "status_reason", "status_evidence", "needs_review",
		"provider_payment_id", "next_check_at", "next_check_why", "unknown_since", "unknown_seen", "created_at", "updated_at", "settled_at"},
		b.payments, func(i int) []any {
			p := b.payment(i)
			var next *time.Time
			why := ""
			if p.settled == nil {
				at := b.now.Add(time.Duration(p.rnd.IntN(3600)) * time.Second)
				next, why = &at, "reconcile"
			}
			updated, evidence, review := p.at, "", p.review
			if p.settled != nil {
				updated, evidence = *p.settled, "answer"
			}
			if review == nil {
				review = []string{}
			}
			return []any{p.id, "bench", fmt.Sprintf("key-%d", i), []byte("0123456789abcdef0123456789abcdef"), fmt.Sprintf("ORDER-%d", i),
				p.provider, p.amount, p.currency, "Two tickets, row 7", "Olena Kovalenko", fmt.Sprintf("olena.%d@example.com", i), p.status,
				p.reason, evidence, review, orNil(p.object), next, why, p.unknown, p.unknown != nil, p.at, updated, p.settled}
		}}
}

func (b books) attemptRows() table {
	body := []byte(`{"id":"pay_0000000000","status":"succeeded","amount":4900,"currency":"EUR","reference":"018f"}`)
	return table{"attempts", []string{"id", "payment_id", "seq", "operation_key", "request", "request_hash", "worker", "marked_at", "first_sent_at",
		"replay_until", "deadline", "wire_sends", "http_status", "content_type", "provider_request_id", "response_body", "outcome",
		"breaker_verdict", "first_byte_sent_at", "first_byte_at", "finished_at"},
		b.payments, func(i int) []any {
			p := b.payment(i)
			end := p.at.Add(800 * time.Millisecond)
			outcome, status := p.status, 200
			if p.status == "unknown" {
				status = 0
			}
			return []any{bookID(p.at, p.rnd), p.id, 1, "charge-" + p.id.String(), []byte(`{"amount":4900,"currency":"EUR"}`),
				[]byte("0123456789abcdef0123456789abcdef"), "host/1", p.at, p.at, p.at.Add(24 * time.Hour), p.at.Add(12 * time.Second), 1, status,
				"application/json", fmt.Sprintf("req_%d", i), body, outcome, "ok", p.at, end, end}
		}}
}

// eventRows are the timelines. Past the regular ones come those of the longest.
func (b books) eventRows() table {
	kinds := []struct{ kind, source, actor string }{{"created", "api", "client:bench"}, {"attempt_started", "job", "system:charge"},
		{"attempt_finished", "job", "system:charge"}, {"lookup", "job", "system:reconcile"}}
	evidence, _ := json.Marshal(map[string]any{"http_status": 200, "provider_payment_id": "pay_1"})
	return table{"payment_events", []string{"payment_id", "at", "kind", "source", "actor", "from_status", "to_status", "reason", "evidence"},
		b.payments*b.events + bookLong, func(n int) []any {
			i, k := n/b.events, n%b.events
			if n >= b.payments*b.events {
				i, k = b.payments-1, 3
			}
			p := b.payment(i)
			from, to := "processing", "processing"
			switch {
			case k == 0:
				from, to = "", "pending"
			case k == 1:
				from = "pending"
			case k == b.events-1:
				to = p.status
			}
			kind := kinds[min(k, len(kinds)-1)]
			return []any{p.id, p.at.Add(time.Duration(k) * 400 * time.Millisecond), kind.kind, kind.source, kind.actor, from, to, "", evidence}
		}}
}

func (b books) objectRows() table {
	return table{"provider_objects", []string{"provider", "object_id", "payment_id", "reference", "status", "outcome", "amount", "currency", "source",
		"first_seen_at", "seen_at", "succeeded_at", "equal_at"},
		b.payments, func(i int) []any {
			p := b.payment(i)
			object := p.object
			if object == "" { // the provider has it, and we have not heard yet
				object = fmt.Sprintf("late_%010d", i)
			}
			var ok *time.Time
			if p.status == "succeeded" {
				ok = p.settled
			}
			return []any{p.provider, object, p.id, p.id.String(), p.status, p.status, p.amount, p.currency, "answer", p.at, p.at, ok, ok}
		}}
}

func (b books) webhookRows() table {
	headers, _ := json.Marshal(map[string]string{"Content-Type": "application/json", "User-Agent": "atlas-hooks/1"})
	return table{"webhook_events", []string{"provider", "event_key", "event_type", "reference", "provider_object_id", "raw", "headers", "signature",
		"state", "state_reason", "payment_id", "duplicates", "occurred_at", "received_at", "verified_at", "applied_at", "last_delivery_at"},
		b.webhooks, func(i int) []any {
			p := b.payment(i % b.payments)
			at := p.at.Add(2 * time.Second)
			applied := at.Add(30 * time.Millisecond)
			key, state, reason, signature, payment := any(fmt.Sprintf("evt_%d", i)), "applied", "", "valid", any(p.id)
			done := &applied
			switch p.rnd.IntN(2000) {
			case 0:
				key, state, signature, payment, done = nil, "rejected", "invalid", nil, nil
			case 1:
				state, payment, done = "unmatched", nil, nil
			case 2:
				key, state, reason, payment, done = nil, "unparsed", "not JSON", nil, nil
			case 3, 4, 5, 6:
				state, reason = "ignored", "no new evidence"
			}
			return []any{p.provider, key, "payment.succeeded", p.id.String(), p.object,
				[]byte(`{"id":"evt_1","type":"payment.succeeded","data":{"id":"pay_0000000000","amount":4900,"currency":"EUR"}}`), headers,
				signature, state, reason, payment, p.rnd.IntN(2), at, at, at, done, at}
		}}
}

// callRows are the calls of the last fourteen days, as long as they are kept.
func (b books) callRows() table {
	kept := b.payments * 14 / 30
	return table{"call_outcomes", []string{"at", "provider", "class", "verdict", "outcome", "latency_us", "worker", "payment_id"},
		kept, func(n int) []any {
			p := b.payment(b.payments - kept + n)
			class, verdict := "charge", "ok"
			if p.rnd.IntN(20) == 0 {
				class = "status"
			}
			if p.status == "unknown" {
				verdict = "fail"
			}
			return []any{p.at, p.provider, class, verdict, p.status, 50_000 + p.rnd.Int64N(400_000), "host/1", p.id}
		}}
}

// refundRows give every fiftieth succeeded payment back in part.
func (b books) refundRows() table {
	return table{"operations", []string{"id", "payment_id", "kind", "seq", "origin", "client_id", "idempotency_key", "operation_key", "provider",
		"provider_payment_id", "amount", "currency", "status", "status_reason", "status_evidence", "requested_by", "created_at", "updated_at", "settled_at"},
		b.payments / 50, func(n int) []any {
			p := b.payment(n * 50)
			for i := n * 50; p.status != "succeeded"; i++ { // the next that has money to give back
				p = b.payment(i)
			}
			id := bookID(p.at.Add(time.Hour), p.rnd)
			return []any{id, p.id, "refund", n + 1, "api", "bench", fmt.Sprintf("refund-%d", n), "refund-" + id.String(), p.provider, p.object,
				int64(50), p.currency, "succeeded", "answered", "answer", "client:bench", p.at, p.at, p.settled}
		}}
}

func (b books) auditRows() table {
	before, _ := json.Marshal(map[string]string{"status": "unknown"})
	after, _ := json.Marshal(map[string]string{"status": "succeeded"})
	return table{"audit_log", []string{"at", "actor", "action", "target", "before", "after", "reason", "request_id"},
		b.payments / 4, func(n int) []any {
			p := b.payment(n * 4)
			actor, action := "system:reconcile", "payment.settle"
			if n%50 == 0 {
				actor, action = "user:018f0000-0000-7000-8000-00000000000"+fmt.Sprint(n/50%10), "payment.resolve"
			}
			return []any{p.at, actor, action, "payment:" + p.id.String(), before, after, "", fmt.Sprintf("req-%d", n)}
		}}
}
