package store

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ResolveParams of Resolve.
type ResolveParams struct {
	ActionID  uuid.UUID // one-time id from the form; a repeat returns the first result
	PaymentID uuid.UUID
	Version   int64 // the version the person saw
	To        Status
	Reason    string
	Evidence  string // reference: ticket, provider dashboard id, ...
	By        Actor
}

// Resolve settles an unknown or needs-review payment on a person's word. To is the
// status it is in, which clears its review reasons, or for an unknown one succeeded or
// failed. A reason is required. It ends the lease of whoever did it; a live one of
// somebody else's refuses it. Errors: *ConflictError, *HeldError, ErrNotAllowed,
// ErrNotFound; after any of them nothing is changed.
func (s *Store) Resolve(ctx context.Context, r ResolveParams) (Payment, error) {
	var out Payment
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p, first, err := s.act(ctx, tx, r.ActionID, r.PaymentID, r.Version, "payment.resolve", r.By)
		if out = p; err != nil || !first {
			return err
		}
		out, err = s.resolve(ctx, tx, p, r, nil)
		return err
	})
	if err != nil {
		return Payment{}, err
	}
	return out, nil
}

// resolve does it to a locked payment; more goes into the timeline.
func (s *Store) resolve(ctx context.Context, tx pgx.Tx, p Payment, r ResolveParams, more map[string]any) (Payment, error) {
	if strings.TrimSpace(r.Reason) == "" || (p.Status != Unknown && len(p.NeedsReview) == 0) {
		return p, ErrNotAllowed
	}
	if r.To != p.Status {
		if err := mayBecome(p.Status, r.To, ByOperator, false); err != nil {
			return p, err
		}
	} else if len(p.NeedsReview) == 0 {
		return p, ErrNotAllowed // nothing to settle
	}
	if err := s.heldByOther(ctx, tx, p.ID, r.By); err != nil {
		return p, err
	}
	if err := endLease(ctx, tx, p.ID); err != nil {
		return p, err
	}
	detail := map[string]any{"action": "resolve", "reason": r.Reason, "evidence": r.Evidence}
	maps.Copy(detail, more)
	out, _, err := s.apply(ctx, tx, p, change{
		to: r.To, on: ByOperator, reason: clean(r.Reason), drop: p.NeedsReview,
		kind: "operator", source: "operator", by: r.By,
		detail: detail,
	})
	if err != nil || !p.Manual() || !out.Status.Final() {
		return out, err
	}
	return s.resolveActions(ctx, tx, out, r)
}

// ReconcileNow enqueues a lookup at once on a person's wish. Errors: *ConflictError, ErrNotFound,
// ErrNotAllowed (final and nothing to review).
func (s *Store) ReconcileNow(ctx context.Context, actionID, paymentID uuid.UUID, version int64, by Actor) (Payment, error) {
	var out Payment
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p, first, err := s.act(ctx, tx, actionID, paymentID, version, "payment.reconcile", by)
		if out = p; err != nil || !first {
			return err
		}
		if p.Status.Final() && len(p.NeedsReview) == 0 {
			return ErrNotAllowed
		}
		now := s.Now()
		c := change{on: ByOperator, kind: "operator", source: "operator", by: by, detail: map[string]any{"action": "reconcile"}}
		if p.Status != Pending {
			c.next = next{at: now, why: whyOperator}
		}
		if out, _, err = s.apply(ctx, tx, p, c); err != nil {
			return err
		}
		if err := s.Audit(ctx, tx, by, "payment.reconcile", "payment:"+p.ID.String(), "", state(p), nil); err != nil {
			return err
		}
		if err := s.renew(ctx, tx, p.ID, by); err != nil {
			return err
		}
		return s.enqueuer().Reconcile(ctx, tx, p.ID, p.Provider, time.Time{})
	})
	if err != nil {
		return Payment{}, err
	}
	return out, nil
}

// act begins a person's action on a payment: the payment is locked, the action claimed
// once, and the version must be the one the person saw. first is false on a repeat,
// with the payment as it is now.
func (s *Store) act(ctx context.Context, tx pgx.Tx, actionID, paymentID uuid.UUID, version int64, action string, by Actor) (p Payment, first bool, err error) {
	if p, err = lockPayment(ctx, tx, paymentID); err != nil {
		return Payment{}, false, err
	}
	first, _, err = s.ClaimAction(ctx, tx, actionID, by, action, "payment:"+paymentID.String(), "done")
	if err != nil || !first {
		return p, false, err
	}
	if p.Version != version {
		return Payment{}, false, s.conflict(ctx, tx, p)
	}
	return p, true, nil
}

// conflict says who changed the payment meanwhile.
func (s *Store) conflict(ctx context.Context, tx pgx.Tx, p Payment) error {
	c := &ConflictError{At: p.UpdatedAt, Status: p.Status}
	err := tx.QueryRow(ctx, `
		SELECT actor, kind, at FROM payment_events
		WHERE payment_id = $1 AND (from_status <> to_status OR evidence ?| ARRAY['review_added', 'review_cleared'])
		ORDER BY id DESC LIMIT 1`, p.ID).Scan(&c.By, &c.What, &c.At)
	if err != nil && notFound(err) != ErrNotFound {
		return wrap(err, "read last change")
	}
	names, err := actorNames(ctx, tx, []string{c.By})
	if err != nil {
		return err
	}
	if name := names[c.By]; name != "" {
		c.By = name
	}
	return c
}
