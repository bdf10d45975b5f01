package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// This file is the state machine and the only one whose SQL writes payments.status.
// Every way in (API, charge job, webhook, lookup, sync, sweep, operator) locks the
// payment with lockPayment and then calls apply, once per piece of evidence. apply
// takes these steps, in this order:
//
//  1. the allow-list (status.go); a refused change is written to the timeline
//  2. UPDATE ... WHERE status = ANY(statuses it is allowed from)
//  3. timeline event
//  4. audit row, when a status or a review reason changed
//  5. effects: wallet on success, alerts, follow-up work
//
// all in the caller's transaction.

// change is what a piece of evidence wants of a payment.
type change struct {
	to       Status // empty: as it is
	on       Evidence
	proof    bool   // the provider showed an object that took exactly our money; or a person settles the capture or void of what is held
	reason   string // machine-readable
	message  string // the provider's words, if they belong to the new status
	objectID string // the provider's id the payment rests on; empty: as it is
	add      []string
	drop     []string
	next     next
	rest     time.Time // of a lookup: when to ask again about money that is only held

	kind      string // of the timeline event
	source    string
	by        Actor
	attemptID *uuid.UUID
	detail    map[string]any // evidence of the timeline event
	quiet     bool           // no timeline event unless something changed
	set       func(*Payment) // counters beside the status (lookups, absences)
}

// next is when something will look at the payment again, if it is not final after
// the change. The zero value leaves it as it is.
type next struct {
	at  time.Time
	why string
}

// lockPayment reads a payment under its row lock, the first lock of every change.
func lockPayment(ctx context.Context, tx pgx.Tx, id uuid.UUID) (Payment, error) {
	p, err := scanPayment(tx.QueryRow(ctx, `SELECT `+paymentColumns+` FROM payments WHERE id = $1 FOR UPDATE`, id))
	if err != nil {
		return Payment{}, wrap(notFound(err), "lock payment")
	}
	return p, nil
}

// apply makes one change to the payment p, which the caller holds locked. moved tells
// whether the status changed. A change that is not allowed is no error: the evidence
// goes to the timeline, and if it contradicts a final status a person is asked.
func (s *Store) apply(ctx context.Context, tx pgx.Tx, p Payment, c change) (after Payment, moved bool, err error) {
	if c.to == "" {
		c.to = p.Status
	}
	if c.to != p.Status {
		if refusal := mayBecome(p.Status, c.to, c.on, c.proof); refusal != nil {
			after, err = s.refuse(ctx, tx, p, c, refusal)
			return after, false, err
		}
		moved = true
	}
	after, err = s.write(ctx, tx, p, s.changed(p, c), c)
	if err != nil {
		return Payment{}, false, err
	}
	if err := s.record(ctx, tx, p, after, c); err != nil {
		return Payment{}, false, err
	}
	if err := s.effects(ctx, tx, p, &after, c); err != nil {
		return Payment{}, false, err
	}
	return after, moved, nil
}

// refuse keeps the status. Evidence of the provider against a final status opens a
// contradiction: only a person (or the provider, asked again) resolves it.
func (s *Store) refuse(ctx context.Context, tx pgx.Tx, p Payment, c change, refusal error) (Payment, error) {
	s.log.WarnContext(ctx, "transition refused", "payment", p.ID, "err", refusal)
	wanted := c.to
	c.to, c.message, c.objectID = p.Status, "", ""
	c.detail = with(c.detail, "refused", fmt.Sprintf("%s to %s", p.Status, wanted))
	c.quiet = false
	if p.Status.Final() && c.on.fromProvider() {
		c.add = append(slices.Clone(c.add), ReviewContradiction)
		c.drop = without(c.drop, ReviewContradiction)
	}
	after, _, err := s.apply(ctx, tx, p, c)
	return after, err
}

// changed computes the row after the change. It reads nothing and writes nothing.
func (s *Store) changed(p Payment, c change) Payment {
	q, now := p, s.Now()
	q.Status = c.to
	if c.to != p.Status {
		q.StatusReason, q.StatusEvidence, q.ProviderMessage = c.reason, string(c.on), c.message
	} else if c.reason != "" && !p.Status.Final() {
		q.StatusReason = c.reason
	}
	if c.objectID != "" {
		q.ProviderPaymentID = c.objectID
	}
	q.NeedsReview = reviews(p.NeedsReview, c)
	if c.set != nil {
		c.set(&q)
	}
	switch {
	case q.Status.Final():
		q.NextCheckAt, q.NextCheckWhy = nil, ""
	case !c.next.at.IsZero():
		at := c.next.at.UTC().Truncate(time.Microsecond)
		q.NextCheckAt, q.NextCheckWhy = &at, c.next.why
	}
	stamp(p, &q, now)
	return q
}

// stamp keeps the facts that follow from a status change.
func stamp(p Payment, q *Payment, now time.Time) {
	if q.Status != p.Status {
		q.UnknownSince, q.SettledAt = nil, nil
		q.AbsentLookups = 0
		if q.Status == Unknown {
			q.UnknownSince, q.UnknownSeen, q.Lookups = &now, true, 0
		}
		if q.Status.Final() {
			q.SettledAt = &now
		}
	}
	// The version guards what people decide on, so waiting, asking and growing old do
	// not move it: an operator who writes a reason meanwhile must not lose it.
	if q.Status != p.Status || q.StatusReason != p.StatusReason || q.ProviderPaymentID != p.ProviderPaymentID ||
		!slices.Equal(without(q.NeedsReview, ReviewAged), without(p.NeedsReview, ReviewAged)) {
		q.Version, q.UpdatedAt = p.Version+1, now
	}
}

// openReviews only ask what became of something: at a final status there is nothing left
// to ask, even when the change that ends it is the one that would have asked.
var openReviews = []string{ReviewAged, ReviewKeyExpired, ReviewNoStatusAPI}

// reviews applies add and drop, and clears at a final status what only asked for one.
func reviews(have []string, c change) []string {
	out := []string{}
	for _, r := range slices.Concat(have, c.add) {
		dropped := slices.Contains(c.drop, r) && !slices.Contains(c.add, r)
		answered := c.to.Final() && slices.Contains(openReviews, r)
		if !dropped && !answered && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	slices.Sort(out)
	return out
}

// write is the guarded UPDATE. Zero rows is an answer: the row is gone, already
// there, or in a status the allow-list does not lead from. The caller holds the row
// lock, so this is the second fence, not the first.
func (s *Store) write(ctx context.Context, tx pgx.Tx, p, q Payment, c change) (Payment, error) {
	from := []string{string(p.Status)}
	if q.Status != p.Status {
		from = sources(q.Status, c.on, c.proof)
	}
	after, err := scanPayment(tx.QueryRow(ctx, `
		UPDATE payments SET status = $2, status_reason = $3, status_evidence = $4, needs_review = $5,
			provider_payment_id = nullif($6, ''), provider_message = $7, next_check_at = $8, next_check_why = $9,
			lookups = $10, absent_lookups = $11, unknown_since = $12, unknown_seen = $13,
			version = $14, updated_at = $15, settled_at = $16
		WHERE id = $1 AND status = ANY($17)
		RETURNING `+paymentColumns,
		p.ID, q.Status, clean(q.StatusReason), q.StatusEvidence, q.NeedsReview,
		q.ProviderPaymentID, clean(q.ProviderMessage), q.NextCheckAt, q.NextCheckWhy,
		q.Lookups, q.AbsentLookups, q.UnknownSince, q.UnknownSeen,
		q.Version, q.UpdatedAt, q.SettledAt, from))
	if errors.Is(err, pgx.ErrNoRows) {
		return s.reread(ctx, tx, p.ID, q.Status)
	}
	return after, wrap(err, "write payment")
}

// move is a change to a payment that was computed and is yet to be written.
type move struct {
	before, after Payment
	change        change
}

// plainly computes a change that may be written together with those of other payments:
// allowed, with no effect beyond the row, its timeline and its audit row. The caller
// holds the payment locked.
func (s *Store) plainly(p Payment, c change) (m move, ok bool) {
	if c.to == "" {
		c.to = p.Status
	}
	if c.to != p.Status && mayBecome(p.Status, c.to, c.on, c.proof) != nil {
		return move{}, false
	}
	q := s.changed(p, c)
	settled := q.Status == Succeeded && p.Status != Succeeded
	if !slices.Equal(q.NeedsReview, p.NeedsReview) || settled && (p.Status == Failed || p.WalletID != nil) {
		return move{}, false
	}
	return move{p, q, c}, true
}

// queueMoves is apply for many payments: the same steps, a statement each for all of them.
func (s *Store) queueMoves(b *pgx.Batch, moves []move) {
	var v struct {
		id                                                   []uuid.UUID
		status, reason, evidence, object, message, why, from []string
		checkAt, unknownSince, settledAt                     []*time.Time
		lookups, absent                                      []int
		version                                              []int64
		unknownSeen                                          []bool
		updatedAt                                            []time.Time
	}
	var events []TimelineEvent
	var audits []auditRow
	for _, m := range moves {
		p, q, c := m.before, m.after, m.change
		event, audit := s.news(p, q, c)
		if event != nil {
			events = append(events, *event)
		}
		if audit != nil {
			audits = append(audits, *audit)
		}
		if reflect.DeepEqual(p, q) {
			continue // evidence that changes nothing
		}
		from := []string{string(p.Status)}
		if q.Status != p.Status {
			from = sources(q.Status, c.on, c.proof)
		}
		v.id, v.status, v.reason = append(v.id, p.ID), append(v.status, string(q.Status)), append(v.reason, clean(q.StatusReason))
		v.evidence, v.object, v.message = append(v.evidence, q.StatusEvidence), append(v.object, q.ProviderPaymentID), append(v.message, clean(q.ProviderMessage))
		v.checkAt, v.why, v.from = append(v.checkAt, q.NextCheckAt), append(v.why, q.NextCheckWhy), append(v.from, strings.Join(from, ","))
		v.lookups, v.absent, v.version = append(v.lookups, q.Lookups), append(v.absent, q.AbsentLookups), append(v.version, q.Version)
		v.unknownSince, v.unknownSeen = append(v.unknownSince, q.UnknownSince), append(v.unknownSeen, q.UnknownSeen)
		v.updatedAt, v.settledAt = append(v.updatedAt, q.UpdatedAt), append(v.settledAt, q.SettledAt)
	}
	if len(v.id) > 0 {
		queueExactly(b, len(v.id), `
		UPDATE payments SET status = v.status, status_reason = v.reason, status_evidence = v.evidence,
			provider_payment_id = nullif(v.object, ''), provider_message = v.message, next_check_at = v.check_at, next_check_why = v.why,
			lookups = v.lookups, absent_lookups = v.absent, unknown_since = v.unknown_since, unknown_seen = v.unknown_seen,
			version = v.version, updated_at = v.updated_at, settled_at = v.settled_at
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::int[], $10::int[],
			$11::timestamptz[], $12::boolean[], $13::bigint[], $14::timestamptz[], $15::timestamptz[], $16::text[])
			AS v (id, status, reason, evidence, object, message, check_at, why, lookups, absent, unknown_since, unknown_seen, version, updated_at, settled_at, allowed_from)
		WHERE payments.id = v.id AND payments.status = ANY(string_to_array(v.allowed_from, ','))`,
			v.id, v.status, v.reason, v.evidence, v.object, v.message, v.checkAt, v.why, v.lookups, v.absent,
			v.unknownSince, v.unknownSeen, v.version, v.updatedAt, v.settledAt, v.from)
	}
	if len(events) > 0 {
		queueEvents(b, events)
	}
	if len(audits) > 0 {
		queueAudits(b, audits)
	}
}

// reread explains zero rows.
func (s *Store) reread(ctx context.Context, tx pgx.Tx, id uuid.UUID, to Status) (Payment, error) {
	now, err := lockPayment(ctx, tx, id)
	if err != nil {
		return Payment{}, err
	}
	if now.Status == to {
		return now, nil
	}
	return Payment{}, fmt.Errorf("%w: payment %s is %s", ErrNotAllowed, id, now.Status)
}

// with returns m with one more entry.
func with(m map[string]any, key string, value any) map[string]any {
	out := make(map[string]any, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	out[key] = value
	return out
}

// without returns list less item.
func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}
