package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// record writes the timeline event of a change and, when a status or a review reason
// changed, its audit row, and tells the consoles. One round trip.
func (s *Store) record(ctx context.Context, tx pgx.Tx, p, q Payment, c change) error {
	added, cleared := difference(q.NeedsReview, p.NeedsReview), difference(p.NeedsReview, q.NeedsReview)
	meant := q.Status != p.Status || len(added)+len(cleared) > 0
	var b pgx.Batch
	if meant || !c.quiet {
		detail := c.detail
		if len(added) > 0 {
			detail = with(detail, "review_added", added)
		}
		if len(cleared) > 0 {
			detail = with(detail, "review_cleared", cleared)
		}
		queueEvent(&b, TimelineEvent{PaymentID: p.ID, At: s.Now(), Kind: c.kind, Source: c.source, Actor: c.by.String(),
			FromStatus: p.Status, ToStatus: q.Status, Reason: c.reason, AttemptID: c.attemptID, Evidence: detail})
	}
	if meant {
		queueAudit(&b, s.Now(), c.by, auditAction(c), "payment:"+p.ID.String(), c.reason, state(p), state(q))
	}
	if b.Len() > 0 {
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return wrap(err, "record change")
		}
	}
	return Notify(ctx, tx, TopicPayments)
}

func auditAction(c change) string {
	if c.on == ByOperator {
		return "payment.resolve"
	}
	return "payment.status"
}

// state is what an audit row keeps of a payment.
func state(p Payment) map[string]any {
	return map[string]any{"status": p.Status, "needs_review": p.NeedsReview, "provider_payment_id": p.ProviderPaymentID, "version": p.Version}
}

func queueEvent(b *pgx.Batch, e TimelineEvent) {
	b.Queue(`INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status, reason, attempt_id, evidence)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		e.PaymentID, e.At, e.Kind, e.Source, e.Actor, string(e.FromStatus), string(e.ToStatus), clean(e.Reason), e.AttemptID, cleanMap(e.Evidence))
}

// effects are what follows from a change, once each: the wallet's credit is keyed by
// the payment's operation, alerts by their fact.
func (s *Store) effects(ctx context.Context, tx pgx.Tx, p Payment, q *Payment, c change) error {
	if q.Status == Succeeded && p.Status != Succeeded {
		if err := s.succeeded(ctx, tx, p, q, c); err != nil {
			return err
		}
	}
	if q.ProviderPaymentID != p.ProviderPaymentID {
		if err := s.wakeUnmatched(ctx, tx, *q); err != nil {
			return err
		}
	}
	for _, reason := range difference(q.NeedsReview, p.NeedsReview) {
		if err := s.alertReview(ctx, tx, *q, reason); err != nil {
			return err
		}
		if reason == ReviewContradiction && c.on.fromProvider() && c.on != ByLookup {
			// Whoever contradicts is asked; the answer may clear it.
			if err := s.enqueuer().Reconcile(ctx, tx, q.ID, q.Provider, s.Now().Add(contradictionDelay)); err != nil {
				return err
			}
		}
	}
	return nil
}

// contradictionDelay is the wait before a contradicting provider is asked.
const contradictionDelay = 10 * time.Second

func (s *Store) succeeded(ctx context.Context, tx pgx.Tx, p Payment, q *Payment, c change) error {
	if p.Status == Failed {
		_, err := s.RaiseAlert(ctx, tx, Alert{
			Kind: "paid_after_failed", Severity: "critical", Provider: q.Provider, PaymentID: &q.ID,
			Title:     "A payment that had failed was paid after all",
			Detail:    fmt.Sprintf("Order %s: the provider shows the money as taken (object %s). If the customer paid again, one of the two has to go back.", q.OrderRef, q.ProviderPaymentID),
			DedupeKey: "paid_after_failed:" + q.ID.String(),
		})
		if err != nil {
			return err
		}
	}
	err := s.topUp(ctx, tx, *q, c.by)
	if err == nil {
		return s.debitEarlier(ctx, tx, *q, c.by)
	}
	if !errors.Is(err, ErrOperationReused) && !errors.Is(err, ErrWalletFull) && !errors.Is(err, ErrWalletNotFound) {
		return err
	}
	// The money is there, but the wallet cannot take it as it should: a person has to look.
	*q, _, err = s.apply(ctx, tx, *q, change{
		on: c.on, reason: "wallet_not_credited", add: []string{ReviewContradiction},
		kind: "review", source: c.source, by: c.by, detail: map[string]any{"wallet": err.Error()},
	})
	return err
}

// alertReview raises one alert per payment and review reason.
func (s *Store) alertReview(ctx context.Context, tx pgx.Tx, p Payment, reason string) error {
	titles := map[string]string{
		ReviewAmountMismatch: "The provider's amount is not what was asked for",
		ReviewDuplicate:      "The provider shows more than one charge for a payment",
		ReviewContradiction:  "The provider contradicts what was known about a payment",
		ReviewKeyExpired:     "An unknown payment can no longer be resent safely",
		ReviewUnmapped:       "The provider answered with a status that is not on our list",
		ReviewAged:           "A payment has been open for too long",
		ReviewRefundsDiffer:  "The refunds of a payment are not what the provider says",
	}
	title, ok := titles[reason]
	if !ok {
		return nil // no_status_api: known from the provider's configuration, listed in the console
	}
	severity, kind := "warning", reason
	switch reason {
	case ReviewDuplicate, ReviewContradiction:
		severity = "critical"
	case ReviewAged:
		kind = "unknown_aged"
	}
	_, err := s.RaiseAlert(ctx, tx, Alert{
		Kind: kind, Severity: severity, Provider: p.Provider, PaymentID: &p.ID, Title: title,
		Detail:    fmt.Sprintf("Order %s, %d %s (minor units), status %s.", p.OrderRef, p.Amount, p.Currency, p.Status),
		DedupeKey: "review:" + reason + ":" + p.ID.String(),
	})
	return err
}

// difference lists what is in a and not in b.
func difference(a, b []string) []string {
	var out []string
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
