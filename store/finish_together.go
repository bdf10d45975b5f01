package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// finishing is an outcome on its way in.
type finishing struct {
	FinishParams
	payment uuid.UUID
	call    CallOutcome
}

// FinishTogether writes an attempt's outcome and its call in a transaction shared with
// others, and returns true once that is committed. Only an outcome that settles a
// payment and asks for nothing else is written so; false: nothing was written as far as
// this call knows, and FinishAttempt has to do it, which is safe to do again.
func (s *Store) FinishTogether(ctx context.Context, paymentID uuid.UUID, p FinishParams, call CallOutcome) bool {
	if !settles(p.Charged) {
		return false
	}
	_, did := s.finishes.do(ctx, finishing{p, paymentID, call})
	return did
}

// settles reports whether an answer decides a charge and says nothing that people or
// other rows have to be told.
func settles(c provider.Charged) bool {
	o := c.Object
	return (c.Outcome == provider.Succeeded || c.Outcome == provider.Failed) && c.Review == "" && c.Alert == "" &&
		c.Next != provider.NextPause && o != nil && ident(o.ID) != "" && (o.Totals == nil || o.Totals.Refunded == 0)
}

// finishTogether settles the pending payments whose first object this is. What any other
// evidence has touched goes alone.
func (s *Store) finishTogether(ctx context.Context, list []finishing) (out []struct{}, did []bool, err error) {
	out, did = make([]struct{}, len(list)), make([]bool, len(list))
	err = s.inExchange(ctx, func(ctx context.Context, x *exchange) error {
		clear(did)
		known, err := knownOf(ctx, x, list)
		if err != nil {
			return err
		}
		var moves []move
		var objects []firstObject
		var closes []FinishParams
		var calls []CallOutcome
		for i, f := range list {
			m, o, ok := s.settlePlainly(known, f)
			if !ok {
				continue
			}
			moves, objects, closes, calls = append(moves, m), append(objects, o), append(closes, f.FinishParams), append(calls, f.call)
			did[i] = true
		}
		if len(moves) == 0 {
			return nil
		}
		var b pgx.Batch
		s.queueCloses(&b, closes)
		s.queueObjects(&b, objects)
		s.queueMoves(&b, moves)
		s.queueCalls(&b, calls)
		return wrap(x.commit(ctx, &b, TopicProviders, TopicPayments), "finish attempts")
	})
	return out, did, err
}

// known is what the books say about a batch of outcomes.
type known struct {
	free    map[uuid.UUID]Payment // locked by this transaction
	open    map[uuid.UUID]bool    // attempts that wait for their outcome
	touched map[uuid.UUID]bool    // payments with objects or operations
	objects map[[2]string]bool    // provider and id: there already, or somebody waits for it
}

// knownOf locks the payments nobody holds and reads what could make an outcome more than
// plain. Attempts, objects and operations of a payment change under its lock only. That
// another payment rests on an object which is not in the books is left to their UNIQUE
// constraint, which sends the whole batch away.
func knownOf(ctx context.Context, x *exchange, list []finishing) (known, error) {
	k := known{open: map[uuid.UUID]bool{}, touched: map[uuid.UUID]bool{}, objects: map[[2]string]bool{}}
	seen, attempts, references := make([]Seen, len(list)), make([]uuid.UUID, len(list)), make([]string, len(list))
	providers, objects := make([]string, len(list)), make([]string, len(list))
	for i, f := range list {
		seen[i], attempts[i], references[i] = f.Seen.of(f.payment), f.AttemptID, f.payment.String()
		providers[i], objects[i] = f.call.Provider, ident(f.Charged.Object.ID)
	}
	var b pgx.Batch
	settings(&b)
	ids, locked := queueSeenLocks(&b, seen)
	b.Queue(`SELECT id FROM attempts WHERE id = ANY($1) AND (outcome IS NULL OR error_class = $2)`, attempts, noOutcome).Query(intoSet(k.open))
	b.Queue(`SELECT payment_id FROM provider_objects WHERE payment_id = ANY($1)
		UNION SELECT payment_id FROM operations WHERE payment_id = ANY($1)`, ids).Query(intoSet(k.touched))
	pair := func(rows pgx.Rows) error {
		var name, id string
		_, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error { k.objects[[2]string{name, id}] = true; return nil })
		return err
	}
	b.Queue(`SELECT o.provider, o.object_id FROM unnest($1::text[], $2::text[]) AS v (provider, id)
		JOIN provider_objects o ON o.provider = v.provider AND o.object_id = v.id`, providers, objects).Query(pair)
	// Events that wait for one of these: by the payment's id as the reference, by the object's id.
	b.Queue(`SELECT v.provider, v.id FROM webhook_events w JOIN unnest($1::text[], $2::text[], $3::text[]) AS v (provider, id, reference)
			ON w.provider = v.provider AND (w.reference = v.reference OR w.provider_object_id = v.id OR w.charge_id = v.id)
		WHERE w.state = 'unmatched' AND w.provider = ANY($1)`, providers, objects, references).Query(pair)
	if err := x.send(ctx, &b); err != nil {
		return k, wrap(err, "lock payments to settle")
	}
	var err error
	k.free, err = readLocked(ctx, x, seen, locked)
	return k, err
}

// firstObject is the first observation of a payment's first object.
type firstObject struct {
	object
	totals *provider.Totals
}

// settlePlainly judges one outcome as settle does. It takes from known what it uses, so a
// second outcome for the same payment or object goes alone.
func (s *Store) settlePlainly(k known, f finishing) (m move, o firstObject, ok bool) {
	p, here := k.free[f.payment]
	if !here || p.Status != Pending || p.Manual() || !k.open[f.AttemptID] || k.touched[f.payment] || p.Provider != f.call.Provider {
		return m, o, false
	}
	fi := finding{on: ByAnswer, observations: s.seen("answer", s.Now(), *f.Charged.Object), reason: f.Charged.Reason,
		message: f.Charged.Message, change: s.answerChange(p, f.FinishParams)}
	seen := storable(fi.observations)
	name := [2]string{p.Provider, seen[0].ID}
	if k.objects[name] {
		return m, o, false
	}
	id := p.ID
	o.object, _ = object{provider: p.Provider, id: seen[0].ID, paymentID: &id}.merge(seen[0], wanted(p, nil, seen[0]))
	o.totals = seen[0].Totals
	j := judge([]object{o.object}, p.ProviderPaymentID)
	c := fi.judged(p, j, true)
	c.objectID = j.own
	if m, ok = s.plainly(p, c); !ok || !m.after.Status.Final() {
		return m, o, false
	}
	delete(k.free, f.payment)
	k.objects[name] = true
	return m, o, true
}

// objectRows are objects column by column, as unnest takes them.
type objectRows struct {
	provider, id, reference, key, word, outcome, currency, source []string
	payment                                                       []uuid.NullUUID
	amount                                                        []int64
	outcomeAt, wordAt                                             []time.Time
	succeeded, failed, equal, differs, made                       []*time.Time
	raw                                                           [][]byte
}

func (c *objectRows) add(o object) {
	c.provider, c.id, c.payment = append(c.provider, o.provider), append(c.id, o.id), append(c.payment, nullUUID(o.paymentID))
	c.reference, c.key, c.word = append(c.reference, o.reference), append(c.key, o.key), append(c.word, o.word)
	c.outcome, c.currency, c.source = append(c.outcome, string(o.outcome)), append(c.currency, o.money.Currency), append(c.source, o.source)
	c.amount, c.raw = append(c.amount, o.money.Amount), append(c.raw, o.raw)
	c.outcomeAt, c.wordAt = append(c.outcomeAt, o.outcomeAt), append(c.wordAt, o.wordAt)
	c.succeeded, c.failed = append(c.succeeded, orNull(o.succeededAt)), append(c.failed, orNull(o.failedAt))
	c.equal, c.differs, c.made = append(c.equal, orNull(o.equalAt)), append(c.differs, orNull(o.differsAt)), append(c.made, orNull(o.madeAt))
}

// args are the columns in their order: $1 to $18.
func (c *objectRows) args() []any {
	return []any{c.provider, c.id, c.payment, c.reference, c.key, c.word, c.outcome, c.amount, c.currency, c.source,
		c.outcomeAt, c.wordAt, c.succeeded, c.failed, c.equal, c.differs, c.made, c.raw}
}

// queueObjects inserts objects that are seen for the first time.
func (s *Store) queueObjects(b *pgx.Batch, list []firstObject) {
	list = slices.SortedFunc(slices.Values(list), func(a, b firstObject) int { // as every transaction takes them
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.id, b.id))
	})
	var c objectRows
	var total []*int64
	var totalAt []*time.Time
	for _, o := range list {
		c.add(o.object)
		var sum *int64
		var at *time.Time
		if o.totals != nil {
			sum, at = &o.totals.Refunded, &o.outcomeAt
		}
		total, totalAt = append(total, sum), append(totalAt, at)
	}
	queueExactly(b, len(list), `
		INSERT INTO provider_objects (provider, object_id, payment_id, reference, operation_key, status, outcome, amount, currency, source,
			outcome_at, status_at, succeeded_at, failed_at, equal_at, differs_at, made_at, raw, refunded_total, refunded_total_at, first_seen_at, seen_at)
		SELECT v.*, $21, $21 FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
			$10::text[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[],
			$17::timestamptz[], $18::bytea[], $19::bigint[], $20::timestamptz[]) v
		ON CONFLICT (provider, object_id) DO NOTHING`, append(c.args(), total, totalAt, s.Now())...)
}
