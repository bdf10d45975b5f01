package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// record writes the timeline event of a change and, when a status or a review reason
// changed, its audit row, and tells the consoles. One round trip.
func (s *Store) record(ctx context.Context, tx pgx.Tx, p, q Payment, c change) error {
	event, audit := s.news(p, q, c)
	var b pgx.Batch
	if event != nil {
		queueEvents(&b, []TimelineEvent{*event})
	}
	if audit != nil {
		queueAudits(&b, []auditRow{*audit})
	}
	if b.Len() > 0 {
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return wrap(err, "record change")
		}
	}
	return Notify(ctx, tx, TopicPayments)
}

// news is what the timeline and the audit log get to know of a change; nil: nothing.
func (s *Store) news(p, q Payment, c change) (event *TimelineEvent, audit *auditRow) {
	added, cleared := difference(q.NeedsReview, p.NeedsReview), difference(p.NeedsReview, q.NeedsReview)
	meant := q.Status != p.Status || len(added)+len(cleared) > 0
	if meant || !c.quiet {
		detail := c.detail
		if len(added) > 0 {
			detail = with(detail, "review_added", added)
		}
		if len(cleared) > 0 {
			detail = with(detail, "review_cleared", cleared)
		}
		event = &TimelineEvent{PaymentID: p.ID, At: s.Now(), Kind: c.kind, Source: c.source, Actor: c.by.String(),
			FromStatus: p.Status, ToStatus: q.Status, Reason: c.reason, AttemptID: c.attemptID, Evidence: detail}
	}
	if meant {
		audit = &auditRow{s.Now(), c.by, auditAction(c), "payment:" + p.ID.String(), c.reason, state(p), state(q)}
	}
	return event, audit
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

func queueEvent(b *pgx.Batch, e TimelineEvent) { queueEvents(b, []TimelineEvent{e}) }

// queueEvents appends to the timelines of payments.
func queueEvents(b *pgx.Batch, list []TimelineEvent) {
	var e struct {
		payment                               []uuid.UUID
		at                                    []time.Time
		kind, source, actor, from, to, reason []string
		attempt                               []uuid.NullUUID
		evidence                              []map[string]any
	}
	for _, n := range list {
		e.payment, e.at, e.attempt = append(e.payment, n.PaymentID), append(e.at, n.At), append(e.attempt, nullUUID(n.AttemptID))
		e.kind, e.source, e.actor = append(e.kind, n.Kind), append(e.source, n.Source), append(e.actor, n.Actor)
		e.from, e.to, e.reason = append(e.from, string(n.FromStatus)), append(e.to, string(n.ToStatus)), append(e.reason, clean(n.Reason))
		e.evidence = append(e.evidence, cleanMap(n.Evidence))
	}
	b.Queue(`INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status, reason, attempt_id, evidence)
		SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::uuid[], $10::jsonb[])`,
		e.payment, e.at, e.kind, e.source, e.actor, e.from, e.to, e.reason, e.attempt, e.evidence)
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
