package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// finding is a set of observations about objects of one payment, from one source.
type finding struct {
	on           Evidence
	observations []observation
	reason       string // for the status the objects decide, if they say no more
	message      string
	change       change // kind, source, actor, next, detail; the rest is decided here
	answers      answering
}

// settle applies what a provider's objects say to the payment p, held locked: it
// merges them into what is known, judges all objects together, and lets apply move
// the payment. Every source of objects comes through here.
func (s *Store) settle(ctx context.Context, tx pgx.Tx, p Payment, f finding) (Payment, error) {
	var actions []Operation
	var err error
	if p.Manual() {
		if actions, err = actionsOf(ctx, tx, p.ID); err != nil {
			return Payment{}, err
		}
	}
	changed, foreign, err := s.observe(ctx, tx, p, actions, f.observations)
	if err != nil {
		return Payment{}, err
	}
	objects, err := objectsOfPayment(ctx, tx, p)
	if err != nil {
		return Payment{}, err
	}
	if p.Manual() {
		if p, err = s.settleActions(ctx, tx, p, actions, objects, f); err != nil {
			return Payment{}, err
		}
	}
	j := judge(objects, p.ProviderPaymentID)
	c := f.judged(p, j, changed)
	if len(foreign) > 0 {
		c.add = append(c.add, ReviewContradiction)
		c.detail = with(c.detail, "object_of_another_payment", foreign)
		if c.to == "" && p.Status == Pending {
			c.to, c.reason = Unknown, ReviewContradiction
		}
	}
	if j.own != "" && j.own != p.ProviderPaymentID {
		if c.objectID, err = freeObjectID(ctx, tx, p, j.own); err != nil {
			return Payment{}, err
		}
	}
	after, _, err := s.apply(ctx, tx, p, c)
	if err != nil || !slices.ContainsFunc(f.observations, func(o observation) bool { return o.Totals != nil }) {
		return after, err
	}
	return s.reviewRefunds(ctx, tx, after, false, c.source, c.by)
}

// judged is the change that a judgement of a payment's objects leads to. changed: they
// said something new.
func (f finding) judged(p Payment, j judgement, changed bool) change {
	c := f.change
	c.on, c.to, c.proof = f.on, j.to, j.to == Succeeded
	c.reason, c.message = f.wording(j, p)
	if j.to == Processing && p.Manual() && p.AuthorisedAmount > 0 {
		c.reason = provider.ReasonAuthorised
		if !c.rest.IsZero() {
			c.next = next{at: c.rest, why: whyAuthorised}
		}
	}
	if changed {
		// New evidence is judged afresh; without any, what a person cleared stays cleared.
		c.add, c.drop = append(c.add, j.reviews...), append(c.drop, objectReviews...)
	}
	return c
}

// wording finds the reason and the provider's words for the status the judgement
// leads to: those of the observation that says the same, else the finding's.
func (f finding) wording(j judgement, p Payment) (reason, message string) {
	if j.to == p.Status {
		return "", ""
	}
	for _, o := range f.observations {
		if Status(o.Outcome) == j.to && o.Reason+o.Message != "" {
			return o.Reason, o.Message
		}
	}
	switch {
	case j.to == Unknown && slices.Contains(j.reviews, ReviewAmountMismatch):
		return ReviewAmountMismatch, ""
	case j.to == Unknown:
		return ReviewUnmapped, ""
	case j.to == Succeeded:
		return "", "" // the evidence says it all
	}
	return f.reason, f.message
}

// observe merges observations into provider_objects. changed: something new was
// said. foreign: ids of objects that belong to another payment; they say nothing
// about this one.
func (s *Store) observe(ctx context.Context, tx pgx.Tx, p Payment, actions []Operation, obs []observation) (changed bool, foreign []string, err error) {
	obs = storable(obs)
	slices.SortStableFunc(obs, func(a, b observation) int { return strings.Compare(a.ID, b.ID) })
	for _, n := range obs {
		id := p.ID
		o, err := s.lockObject(ctx, tx, p.Provider, n, &id)
		if err != nil {
			return false, nil, err
		}
		if o.paymentID != nil && *o.paymentID != p.ID {
			foreign = append(foreign, n.ID)
			continue
		}
		isNew := o.outcomeAt.IsZero() || o.paymentID == nil
		o.paymentID = &id
		merged, diff := o.merge(n, wanted(p, actions, n))
		changed = changed || diff || isNew
		if err := s.saveObject(ctx, tx, merged); err != nil {
			return false, nil, err
		}
		if err := s.noteAuthorised(ctx, tx, p, n); err != nil {
			return false, nil, err
		}
		if n.Totals != nil {
			if err := s.noteTotals(ctx, tx, p.Provider, n); err != nil {
				return false, nil, err
			}
		}
	}
	return changed, foreign, nil
}

// storable returns the observations with their text made storable; without an id one
// is no evidence.
func storable(obs []observation) []observation {
	var out []observation
	for _, n := range obs {
		n.ID, n.Reference, n.OperationKey = ident(n.ID), ident(n.Reference), ident(n.OperationKey)
		n.Status, n.Money.Currency = clean(n.Status), clean(n.Money.Currency)
		n.at, n.CreatedAt = n.at.UTC().Truncate(time.Microsecond), n.CreatedAt.UTC().Truncate(time.Microsecond)
		if n.ID != "" {
			out = append(out, n)
		}
	}
	return out
}

const objectColumns = `provider, object_id, payment_id, reference, operation_key, status, outcome, amount, currency, source,
	outcome_at, status_at, succeeded_at, failed_at, equal_at, differs_at, made_at, raw`

func scanObject(row pgx.Row) (o object, err error) {
	var outcome string
	var succeeded, failed, equal, differs, made *time.Time
	err = row.Scan(&o.provider, &o.id, &o.paymentID, &o.reference, &o.key, &o.word, &outcome, &o.money.Amount, &o.money.Currency,
		&o.source, &o.outcomeAt, &o.wordAt, &succeeded, &failed, &equal, &differs, &made, &o.raw)
	o.outcome = provider.Outcome(outcome)
	for _, t := range []struct {
		to   *time.Time
		from *time.Time
	}{{&o.succeededAt, succeeded}, {&o.failedAt, failed}, {&o.equalAt, equal}, {&o.differsAt, differs}, {&o.madeAt, made}} {
		if t.from != nil {
			*t.to = t.from.UTC()
		}
	}
	return o, err
}

// lockObject returns the stored object under its row lock, or a blank one whose
// outcomeAt is zero after inserting a placeholder row, so that two sources at once
// take turns.
func (s *Store) lockObject(ctx context.Context, tx pgx.Tx, providerName string, n observation, paymentID *uuid.UUID) (object, error) {
	now := s.Now()
	tag, err := tx.Exec(ctx, `
		INSERT INTO provider_objects (provider, object_id, payment_id, status, outcome, amount, currency, source, first_seen_at, seen_at, outcome_at, status_at)
		VALUES ($1, $2, $3, $4, '', 0, '', $5, $6, $6, $6, $6)
		ON CONFLICT (provider, object_id) DO NOTHING`, providerName, n.ID, paymentID, n.Status, n.source, now)
	if err != nil {
		return object{}, wrap(err, "insert provider object")
	}
	if tag.RowsAffected() == 1 {
		return object{provider: providerName, id: n.ID, paymentID: paymentID}, nil
	}
	o, err := scanObject(tx.QueryRow(ctx, `SELECT `+objectColumns+` FROM provider_objects
		WHERE provider = $1 AND object_id = $2 FOR UPDATE`, providerName, n.ID))
	return o, wrap(err, "lock provider object")
}

func (s *Store) saveObject(ctx context.Context, tx pgx.Tx, o object) error {
	_, err := tx.Exec(ctx, `
		UPDATE provider_objects SET payment_id = $3, reference = $4, operation_key = $5, status = $6, outcome = $7,
			amount = $8, currency = $9, source = $10, outcome_at = $11, status_at = $12, succeeded_at = $13,
			failed_at = $14, equal_at = $15, differs_at = $16, made_at = $17, raw = $18, seen_at = $19
		WHERE provider = $1 AND object_id = $2`,
		o.provider, o.id, o.paymentID, o.reference, o.key, o.word, string(o.outcome),
		o.money.Amount, o.money.Currency, o.source, o.outcomeAt, o.wordAt, orNull(o.succeededAt),
		orNull(o.failedAt), orNull(o.equalAt), orNull(o.differsAt), orNull(o.madeAt), o.raw, s.Now())
	return wrap(err, "save provider object")
}

func objectsOfPayment(ctx context.Context, tx pgx.Tx, p Payment) ([]object, error) {
	rows, err := tx.Query(ctx, `SELECT `+objectColumns+` FROM provider_objects
		WHERE payment_id = $1 AND provider = $2 ORDER BY object_id`, p.ID, p.Provider)
	if err != nil {
		return nil, wrap(err, "read provider objects")
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (object, error) { return scanObject(r) })
	if err != nil || len(list) < 2 { // one object is no duplicate
		return list, wrap(err, "read provider objects")
	}
	back, err := returned(ctx, tx, p.ID)
	for i := range list {
		list[i].returned = back[list[i].id]
	}
	return list, err
}

// freeObjectID returns id unless another payment already rests on it: two payments
// never share one object.
func freeObjectID(ctx context.Context, tx pgx.Tx, p Payment, id string) (string, error) {
	var other uuid.UUID
	err := tx.QueryRow(ctx, `SELECT id FROM payments WHERE provider = $1 AND provider_payment_id = $2`, p.Provider, id).Scan(&other)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, nil
	}
	if err != nil {
		return "", wrap(err, "look for the object's payment")
	}
	return "", nil
}

// orNull stores a zero time as NULL.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
