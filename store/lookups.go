package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// absencesNeeded is how many counted "not found" answers in a row prove absence.
const absencesNeeded = 2

// maxRecharges bounds how often one payment's bytes go out again. A provider that
// keeps repeating a stored 500 while it says that there is no such charge is not going
// to make one; after the last resend the rule for absence is the usual one.
const maxRecharges = 3

// LookupPolicy is how a lookup's absence counts and what follows.
type LookupPolicy struct {
	AbsentHorizon time.Duration // a "not found" counts only this long after the last send
	OnAbsent      string        // fail | recharge
	NextAt        time.Time     // next lookup if this one does not settle it
	KeyLife       time.Duration
	RestAt        time.Time // next lookup of a payment whose money is only held (zero: NextAt)
	MaxLookups    int       // beyond it: needs_review aged, lookups go on at the low rate (0: never)
}

// Reason of a payment that failed because the provider never had it.
const reasonNotReceived = "not_received"

// RecordLookup applies what a lookup established, in tx. It returns the payment after it.
// A payment that is not final afterwards has its next lookup enqueued at pol.NextAt.
func (s *Store) RecordLookup(ctx context.Context, tx pgx.Tx, id uuid.UUID, l provider.LookedUp, pol LookupPolicy, by Actor) (Payment, error) {
	p, err := lockPayment(ctx, tx, id)
	if err != nil {
		return Payment{}, err
	}
	pr, err := priorAttempts(ctx, tx, id)
	if err != nil {
		return Payment{}, err
	}
	c := lookupChange(l, pol, by)
	c.rest = pol.RestAt
	if pol.MaxLookups > 0 && !l.More && !p.Authorised() && p.Lookups+1 >= pol.MaxLookups && !p.Status.Final() && p.Status != Pending {
		c.add = append(c.add, ReviewAged)
	}
	objects := ours(p, l.Objects)
	switch {
	case l.Verdict == provider.LookupFound && len(objects) > 0:
		p, err = s.found(ctx, tx, p, objects, c)
	case l.Verdict == provider.LookupAbsent:
		p, err = s.absent(ctx, tx, p, pr, l, pol, c)
	default: // no answer, or an answer about something else
		p, _, err = s.apply(ctx, tx, p, c)
	}
	if err != nil {
		return Payment{}, err
	}
	if err := s.alertCall(ctx, tx, p, l.Alert, clean(l.Reason)); err != nil {
		return Payment{}, err
	}
	if p.Status.Final() || p.Status == Pending {
		return p, nil
	}
	return p, s.enqueuer().Reconcile(ctx, tx, p.ID, p.Provider, pol.NextAt)
}

func lookupChange(l provider.LookedUp, pol LookupPolicy, by Actor) change {
	c := change{
		on: ByLookup, kind: "lookup", source: "job", by: by,
		next: next{at: pol.NextAt, why: whyReconcile},
		detail: map[string]any{
			"verdict": string(l.Verdict), "way": string(l.Way), "reason": l.Reason, "requests": l.Requests,
			"http_status": l.Exchange.Status, "provider_request_id": l.Exchange.RequestID, "objects": briefs(l.Objects),
		},
		set: func(q *Payment) { q.Lookups++ },
	}
	if l.More { // the lookup is not over
		c.set = nil
	}
	if cursor := clean(l.Cursor); cursor != "" {
		c.detail["cursor"] = cursor
	}
	return c
}

// LookupCursor is where the last lookup of a payment left a list that is read through, for
// the next one; empty when it left nothing.
func (s *Store) LookupCursor(ctx context.Context, paymentID uuid.UUID) (string, error) {
	var cursor string
	err := s.pool.QueryRow(ctx, `SELECT coalesce(evidence->>'cursor', '') FROM payment_events
		WHERE payment_id = $1 AND kind = 'lookup' ORDER BY id DESC LIMIT 1`, paymentID).Scan(&cursor)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("lookup cursor of payment %s: %w", paymentID, err)
	}
	return cursor, nil
}

// ours keeps the objects that are about this payment: by our reference or key, or by
// the id it already rests on when the provider carries neither.
func ours(p Payment, objects []provider.Object) []provider.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o provider.Object) bool {
		switch {
		case isChild(o):
			return true
		case o.Reference != "":
			return o.Reference != p.ID.String()
		case o.OperationKey != "":
			return o.OperationKey != operationKey(p.ID, operationCharge)
		}
		return o.ID == "" || o.ID != p.ProviderPaymentID
	})
}

func (s *Store) found(ctx context.Context, tx pgx.Tx, p Payment, objects []provider.Object, c change) (Payment, error) {
	c.set = func(q *Payment) { q.Lookups++; q.AbsentLookups = 0 }
	p, err := s.settle(ctx, tx, p, finding{on: ByLookup, observations: s.seen("lookup", s.Now(), objects...), change: c})
	if err != nil {
		return Payment{}, err
	}
	for _, o := range objects {
		if err := s.alertUnlisted(ctx, tx, p, o); err != nil {
			return Payment{}, err
		}
	}
	return p, nil
}

// absent weighs "there is no such payment". It counts only for an unknown payment, asked
// for by our own reference or key, after the horizon, with nothing in flight and no
// object ever seen; and only the second in a row decides.
func (s *Store) absent(ctx context.Context, tx pgx.Tx, p Payment, pr prior, l provider.LookedUp, pol LookupPolicy, c change) (Payment, error) {
	counts := (l.Way == provider.ByReference || l.Way == provider.ByKey) && pr.open == nil && pr.seq > 0 &&
		!s.Now().Before(pr.lastMark.Add(pol.AbsentHorizon))
	c.detail = with(c.detail, "counts", counts)
	if !counts || p.Status.Final() || p.Status == Pending {
		p, _, err := s.apply(ctx, tx, p, c)
		return p, err
	}
	count := p.AbsentLookups + 1
	c.set = func(q *Payment) {
		q.Lookups++
		if q.Status == p.Status {
			q.AbsentLookups = count
		}
	}
	if count < absencesNeeded {
		p, _, err := s.apply(ctx, tx, p, c)
		return p, err
	}
	objects, err := objectsOfPayment(ctx, tx, p)
	if err != nil {
		return Payment{}, err
	}
	if p.Status != Unknown || len(objects) > 0 || p.ProviderPaymentID != "" {
		// It was there once: that it is gone is for a person, not for a rule.
		c.add = append(c.add, ReviewContradiction)
		p, _, err := s.apply(ctx, tx, p, c)
		return p, err
	}
	return s.provenAbsent(ctx, tx, p, pr, pol, c)
}

// provenAbsent fails the payment, or sends the same key and bytes again.
func (s *Store) provenAbsent(ctx context.Context, tx pgx.Tx, p Payment, pr prior, pol LookupPolicy, c change) (Payment, error) {
	recharge := pol.OnAbsent == "recharge" && pol.KeyLife > 0 && pr.sends <= maxRecharges
	switch {
	case recharge && s.keyAlive(pr, pol.KeyLife):
		c.next.why = whyRecharge
		p, _, err := s.apply(ctx, tx, p, c)
		if err != nil {
			return Payment{}, err
		}
		return p, s.enqueuer().Recharge(ctx, tx, p.ID, p.Provider)
	case recharge:
		c.add, c.reason = append(c.add, ReviewKeyExpired), ReviewKeyExpired
	default:
		c.to, c.reason = Failed, reasonNotReceived
	}
	p, _, err := s.apply(ctx, tx, p, c)
	return p, err
}

// briefs is what the timeline keeps of objects.
func briefs(objects []provider.Object) []any {
	out := make([]any, 0, len(objects))
	for i, o := range objects {
		if i == 10 {
			break
		}
		out = append(out, brief(o))
	}
	return out
}

func brief(o provider.Object) map[string]any {
	return map[string]any{"id": o.ID, "status": o.Status, "amount": o.Money.Amount, "currency": o.Money.Currency, "reason": o.Reason}
}
