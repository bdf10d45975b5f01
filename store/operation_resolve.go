package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// ResolveOperationParams of ResolveOperation.
type ResolveOperationParams struct {
	ActionID    uuid.UUID // one-time id from the form; a repeat returns the first result
	OperationID uuid.UUID
	Version     int64 // the version the person saw
	To          Status
	Reason      string
	Evidence    string // reference: ticket, provider dashboard id, ...
	WaiveWallet bool   // with wallet_short: let the wallet keep what it cannot give back
	By          Actor
}

// ResolveOperation settles an unknown or needs-review operation on a person's word, as
// Resolve does a payment; a capture or void that was made takes its payment along. To is
// the status it is in, which clears its review reasons, or for an unknown one, and one in
// review that was acknowledged and never decided, succeeded or failed. With wallet_short
// the wallet is asked again first. Errors: *ConflictError, ErrNotAllowed, ErrNotFound,
// ErrInsufficient (the wallet is still short, and WaiveWallet was not said); after any of
// them nothing is changed.
func (s *Store) ResolveOperation(ctx context.Context, r ResolveOperationParams) (Operation, error) {
	var out Operation
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		pay, op, first, err := s.actOnOperation(ctx, tx, r.ActionID, r.OperationID, r.Version, "resolve", r.By)
		if out = op; err != nil || !first {
			return err
		}
		if strings.TrimSpace(r.Reason) == "" || op.Status != Unknown && len(op.NeedsReview) == 0 {
			return ErrNotAllowed
		}
		if r.To != op.Status && !allowedOperation(op.Status, r.To, ByOperator, false) || r.To == op.Status && len(op.NeedsReview) == 0 {
			return ErrNotAllowed
		}
		c := operationChange{change: change{
			to: r.To, on: ByOperator, reason: clean(r.Reason), drop: op.NeedsReview,
			kind: op.event("operator"), source: "operator", by: r.By,
			detail: map[string]any{"action": "resolve", "reason": r.Reason, "evidence": r.Evidence},
		}}
		if slices.Contains(op.NeedsReview, ReviewWalletShort) {
			if err := s.squareWallet(ctx, tx, pay, op, r, &c); err != nil {
				return err
			}
		}
		if out, err = s.applyOperation(ctx, tx, pay, op, c); err != nil || op.refund() || r.To != Succeeded || op.Status == Succeeded {
			return err
		}
		return s.resolveHeld(ctx, tx, op, r)
	})
	if err != nil {
		return Operation{}, err
	}
	return out, nil
}

// resolveHeld moves the payment with a capture or void that a person says was made:
// both show in the charge, so it cannot stay as it was. One that was not made leaves the
// money held, to be captured or let go by another.
func (s *Store) resolveHeld(ctx context.Context, tx pgx.Tx, op Operation, r ResolveOperationParams) error {
	pay, err := lockPayment(ctx, tx, op.PaymentID)
	if err != nil || pay.Status.Final() {
		return err
	}
	to := Failed
	if op.Kind == provider.OpCapture {
		to = Succeeded
	}
	_, _, err = s.apply(ctx, tx, pay, change{to: to, on: ByOperator, proof: true, reason: clean(r.Reason), kind: "operator", source: "operator", by: r.By,
		detail: map[string]any{"action": "resolve", "reason": r.Reason, "evidence": r.Evidence, "operation_id": op.ID.String()}})
	return err
}

// squareWallet takes what is owed out of the wallet if it is there by now, or lets the
// wallet keep it on a person's word.
func (s *Store) squareWallet(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, r ResolveOperationParams, c *operationChange) error {
	if !owesWallet(pay, op) {
		return nil
	}
	review, err := s.takeFromWallet(ctx, tx, pay, op, r.By)
	switch {
	case err != nil:
		return err
	case review == "":
		c.detail = with(c.detail, "wallet", "debited")
	case !r.WaiveWallet:
		return ErrInsufficient
	default:
		c.detail = with(c.detail, "wallet", "waived")
		c.set = func(q *Operation) { q.WalletWaived = true }
	}
	return nil
}

// LookUpOperationNow enqueues a lookup at once on a person's wish. Errors:
// *ConflictError, ErrNotFound, ErrNotAllowed (pending, or final and nothing to review).
func (s *Store) LookUpOperationNow(ctx context.Context, actionID, id uuid.UUID, version int64, by Actor) (Operation, error) {
	var out Operation
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		pay, op, first, err := s.actOnOperation(ctx, tx, actionID, id, version, "lookup", by)
		if out = op; err != nil || !first {
			return err
		}
		if op.Status == Pending || op.Status.Final() && len(op.NeedsReview) == 0 {
			return ErrNotAllowed
		}
		out, err = s.applyOperation(ctx, tx, pay, op, operationChange{change: change{on: ByOperator, kind: op.event("operator"), source: "operator", by: by,
			next: next{at: s.Now(), why: whyOperator}, detail: map[string]any{"action": "lookup"}}})
		if err != nil {
			return err
		}
		if err := s.Audit(ctx, tx, by, string(op.Kind)+".lookup", string(op.Kind)+":"+id.String(), "", operationState(op), nil); err != nil {
			return err
		}
		return s.enqueuer().OperationLookup(ctx, tx, id, op.Provider, time.Time{})
	})
	if err != nil {
		return Operation{}, err
	}
	return out, nil
}

// actOnOperation begins a person's action, see act.
func (s *Store) actOnOperation(ctx context.Context, tx pgx.Tx, actionID, id uuid.UUID, version int64, what string, by Actor) (pay Payment, op Operation, first bool, err error) {
	if pay, op, err = lockOperation(ctx, tx, id); err != nil {
		return Payment{}, Operation{}, false, err
	}
	first, _, err = s.ClaimAction(ctx, tx, actionID, by, string(op.Kind)+"."+what, string(op.Kind)+":"+id.String(), "done")
	if err != nil || !first {
		return pay, op, false, err
	}
	if op.Version != version {
		return Payment{}, Operation{}, false, s.operationConflict(ctx, tx, op)
	}
	return pay, op, true, nil
}

// operationConflict says who changed the operation meanwhile.
func (s *Store) operationConflict(ctx context.Context, tx pgx.Tx, op Operation) error {
	c := &ConflictError{At: op.UpdatedAt, Status: op.Status}
	err := tx.QueryRow(ctx, `
		SELECT actor, kind, at FROM payment_events
		WHERE payment_id = $1 AND evidence ->> 'operation_id' = $2
			AND evidence ?| ARRAY['to', 'operation_review_added', 'operation_review_cleared']
		ORDER BY id DESC LIMIT 1`, op.PaymentID, op.ID.String()).Scan(&c.By, &c.What, &c.At)
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
