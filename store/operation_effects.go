package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// Review reasons of refunds, beside those of payments.
const (
	// ReviewWalletShort: the refund left the provider and the wallet it was topped up
	// from no longer covers it. A balance is never negative, so a person has to decide.
	ReviewWalletShort = "wallet_short"
	// ReviewRefundsDiffer, of a payment: the provider's running figure of refunds is not
	// the sum of the refunds here, or they exceed what was charged.
	ReviewRefundsDiffer = "refunds_differ"
)

// operationEffects are what follows from a change, once each.
func (s *Store) operationEffects(ctx context.Context, tx pgx.Tx, pay Payment, op, q Operation, c operationChange) (Operation, error) {
	moved := q.Status != op.Status
	if moved && q.refund() {
		if err := s.refundMoved(ctx, tx, pay, op, &q, c); err != nil {
			return Operation{}, err
		}
	}
	if q.ProviderObjectID != op.ProviderObjectID || moved && q.Status.Final() {
		if err := s.wakeChildren(ctx, tx, q.Provider, q.ProviderObjectID, q.ProviderPaymentID); err != nil {
			return Operation{}, err
		}
	}
	for _, reason := range difference(q.NeedsReview, op.NeedsReview) {
		if err := s.alertOperation(ctx, tx, pay, q, reason); err != nil {
			return Operation{}, err
		}
		if reason == ReviewContradiction && c.on.fromProvider() && c.on != ByLookup {
			if err := s.enqueuer().OperationLookup(ctx, tx, q.ID, q.Provider, s.Now().Add(contradictionDelay)); err != nil {
				return Operation{}, err
			}
		}
	}
	return q, nil
}

// refundMoved are the effects of a refund's new status.
func (s *Store) refundMoved(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, q *Operation, c operationChange) (err error) {
	if q.Status == Succeeded {
		if op.Status == Failed {
			if err := s.alertRevived(ctx, tx, pay, *q); err != nil {
				return err
			}
		}
		if *q, err = s.debitRefund(ctx, tx, pay, *q, c.by); err != nil {
			return err
		}
	}
	if q.Status == Failed || op.Status == Failed {
		if err := s.rebalance(ctx, tx, pay, q); err != nil {
			return err
		}
	}
	if !q.Status.Final() {
		return nil
	}
	return s.afterRefund(ctx, tx, pay.ID, c.source, c.by)
}

// afterRefund looks at the payment again once a refund of it settled: a duplicate that
// was given back is none any more, and the provider's running figure may agree now.
func (s *Store) afterRefund(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, source string, by Actor) error {
	pay, err := lockPayment(ctx, tx, paymentID)
	if err != nil {
		return err
	}
	if slices.Contains(pay.NeedsReview, ReviewDuplicate) {
		objects, err := objectsOfPayment(ctx, tx, pay)
		if err != nil {
			return err
		}
		if !slices.Contains(judge(objects, pay.ProviderPaymentID).reviews, ReviewDuplicate) {
			pay, _, err = s.apply(ctx, tx, pay, change{drop: []string{ReviewDuplicate}, kind: "review", source: source, by: by, quiet: true})
			if err != nil {
				return err
			}
		}
	}
	_, err = s.reviewRefunds(ctx, tx, pay, true, source, by)
	return err
}

// debitRefund takes a refund of the payment's own charge out of the wallet the payment
// was credited to, once: the entry is keyed by the refund. What the wallet does not
// cover any more is for a person.
func (s *Store) debitRefund(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, by Actor) (Operation, error) {
	if !owesWallet(pay, op) {
		return op, nil
	}
	review, err := s.takeFromWallet(ctx, tx, pay, op, by)
	if err != nil || review == "" {
		return op, err
	}
	return s.applyOperation(ctx, tx, pay, op, operationChange{change: change{
		reason: "wallet_not_debited", add: []string{review}, kind: op.event("review"), source: "job", by: by,
	}})
}

// owesWallet reports whether the wallet has to give the refund's money back: it was
// credited by this payment, and the refund is of the charge the credit rests on.
func owesWallet(pay Payment, op Operation) bool {
	return pay.WalletID != nil && pay.Status == Succeeded && op.refund() && op.Status == Succeeded && !op.WalletWaived &&
		op.ProviderPaymentID == pay.ProviderPaymentID
}

// takeFromWallet books the refund. review is the reason why it could not be booked.
func (s *Store) takeFromWallet(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, by Actor) (review string, err error) {
	_, _, err = s.move(ctx, tx, WalletEntry{WalletID: *pay.WalletID, OperationID: refundOperations + op.ID.String(), Amount: -op.Amount,
		Kind: "refund", PaymentID: &pay.ID, Note: pay.OrderRef}, by)
	switch {
	case errors.Is(err, ErrInsufficient):
		return ReviewWalletShort, nil
	case errors.Is(err, ErrOperationReused), errors.Is(err, ErrWalletNotFound):
		return ReviewContradiction, nil
	}
	return "", err
}

// debitEarlier takes out what was refunded before the payment itself was known to have
// succeeded: events come in any order.
func (s *Store) debitEarlier(ctx context.Context, tx pgx.Tx, pay Payment, by Actor) error {
	if pay.WalletID == nil {
		return nil
	}
	list, err := operationsOf(ctx, tx, pay.ID, provider.OpRefund)
	if err != nil {
		return err
	}
	for _, op := range list {
		if _, err := s.debitRefund(ctx, tx, pay, op, by); err != nil {
			return err
		}
	}
	return nil
}

// beyond computes what of a refund that becomes a fact has nothing left to come from.
func (s *Store) beyond(ctx context.Context, tx pgx.Tx, pay Payment, op, q Operation) (int64, error) {
	switch {
	case !q.refund() || q.Status == Failed:
		return 0, nil
	case op.Status != Failed && op.Status != "":
		return op.Beyond, nil
	}
	took, err := chargeTook(ctx, tx, pay, q.ProviderPaymentID)
	if err != nil {
		return 0, err
	}
	var held int64
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(amount - beyond), 0) FROM operations
		WHERE payment_id = $1 AND kind = 'refund' AND status <> 'failed' AND provider_payment_id = $2 AND id <> $3`,
		pay.ID, q.ProviderPaymentID, q.ID).Scan(&held)
	return min(max(held+q.Amount-took, 0), q.Amount), wrap(err, "read refunds held")
}

// chargeTook is what can have been refunded of a charge at most: the payment's amount,
// or what a duplicate of it took, if that was more.
func chargeTook(ctx context.Context, tx pgx.Tx, pay Payment, charge string) (int64, error) {
	took := pay.Took().Amount
	if charge == pay.ProviderPaymentID {
		return took, nil
	}
	err := tx.QueryRow(ctx, `SELECT greatest($4, max(amount)) FROM provider_objects
		WHERE provider = $1 AND object_id = $2 AND payment_id = $3 AND succeeded_at IS NOT NULL`, pay.Provider, charge, pay.ID, took).Scan(&took)
	return took, wrap(err, "read what a charge took")
}

// rebalance spreads what was refunded beyond a charge over its refunds, the same
// whichever came first. It can only shrink here, when one has failed, or move. Parts
// that grow are written first: the sum never passes the charge in between.
func (s *Store) rebalance(ctx context.Context, tx pgx.Tx, pay Payment, q *Operation) error {
	list, err := operationsOf(ctx, tx, pay.ID, provider.OpRefund)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(o Operation) bool {
		return o.Status == Failed || o.ProviderPaymentID != q.ProviderPaymentID
	})
	took, err := chargeTook(ctx, tx, pay, q.ProviderPaymentID)
	if err != nil {
		return err
	}
	excess := -took
	for _, o := range list {
		excess += o.Amount
	}
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(b.ProviderObjectID, a.ProviderObjectID) })
	var grow, shrink []Operation
	for _, o := range list {
		part := int64(0)
		if o.ProviderObjectID != "" {
			part = min(max(excess, 0), o.Amount)
			excess -= part
		}
		was := o.Beyond
		o.Beyond = part
		switch {
		case part > was:
			grow = append(grow, o)
		case part < was:
			shrink = append(shrink, o)
		}
		if o.ID == q.ID {
			q.Beyond = part
		}
	}
	for _, o := range slices.Concat(grow, shrink) {
		if _, err := tx.Exec(ctx, `UPDATE operations SET beyond = $2 WHERE id = $1`, o.ID, o.Beyond); err != nil {
			return wrap(err, "rebalance refunds")
		}
	}
	return nil
}

// wakeChildren enqueues the unmatched events that may be about an operation whose
// provider id just became known, or that settled without one.
func (s *Store) wakeChildren(ctx context.Context, tx pgx.Tx, providerName, objectID, charge string) error {
	rows, err := tx.Query(ctx, `SELECT id FROM webhook_events WHERE state = 'unmatched' AND provider = $1
		AND (provider_object_id = $2 AND $2 <> '' OR charge_id = $3 AND $3 <> '') ORDER BY id`, providerName, objectID, charge)
	if err != nil {
		return wrap(err, "read unmatched events")
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return wrap(err, "read unmatched events")
	}
	for _, id := range ids {
		if err := s.enqueuer().Webhook(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) alertRevived(ctx context.Context, tx pgx.Tx, pay Payment, op Operation) error {
	_, err := s.RaiseAlert(ctx, tx, Alert{
		Kind: "refunded_after_failed", Severity: "critical", Provider: op.Provider, PaymentID: &pay.ID,
		Title:     "A refund that had failed was made after all",
		Detail:    fmt.Sprintf("Order %s: the provider shows refund %s as made. If another refund was made instead of it, the customer has both.", pay.OrderRef, op.ProviderObjectID),
		DedupeKey: "refunded_after_failed:" + op.ID.String(),
	})
	return err
}

// alertOperation raises one alert per operation and review reason.
func (s *Store) alertOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, reason string) error {
	titles := map[string]string{
		ReviewAmountMismatch: "The provider refunded another amount than was asked for",
		ReviewDuplicate:      "The provider shows more than one refund for one request",
		ReviewContradiction:  "The provider contradicts what was known about a refund",
		ReviewUnmapped:       "The provider answered a refund with a status that is not on our list",
		ReviewAged:           "A refund has been without an answer for too long",
		ReviewWalletShort:    "A wallet does not cover the refund of its top-up",
	}
	if !op.refund() {
		titles = actionTitles
	}
	title, ok := titles[reason]
	if !ok {
		return nil // no_status_api: known from the provider's configuration
	}
	if reason == ReviewAged && op.Status == Processing {
		title = "A refund, capture or void was acknowledged and has been undecided for too long"
	}
	severity, kind := "warning", reason
	switch reason {
	case ReviewDuplicate, ReviewContradiction, ReviewWalletShort:
		severity = "critical"
	case ReviewAged:
		kind = "operation_aged"
	}
	_, err := s.RaiseAlert(ctx, tx, Alert{
		Kind: kind, Severity: severity, Provider: op.Provider, PaymentID: &pay.ID, Title: title,
		Detail:    fmt.Sprintf("Order %s, %s %d of %d %s (minor units), status %s.", pay.OrderRef, op.Kind, op.Seq, op.Amount, op.Currency, op.Status),
		DedupeKey: "review:" + reason + ":" + op.ID.String(),
	})
	return err
}
