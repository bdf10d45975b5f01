package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// This file is the state machine of operations and the only one whose SQL writes
// operations.status. Every way in locks the payment, then the operation, and calls
// applyOperation once per piece of evidence; its steps are those of apply, see
// transitions.go. None of them touches the payment's status.

// allowedOperation is the whole state machine of an operation: from, to, and on what.
// Whatever is not in it is refused and written to the timeline.
//
//	from        to                                          on
//	pending     processing, succeeded, failed, unknown      answer, lookup, event, sync
//	pending     failed                                      refusal before sending
//	pending     unknown                                     deadline of an attempt
//	processing  succeeded, failed, unknown                  answer, lookup, event, sync
//	processing  succeeded, failed                           operator: of one in review
//	unknown     processing, succeeded, failed               answer, lookup, event, sync
//	unknown     succeeded, failed                           operator
//	failed      succeeded                                   answer, lookup, event, sync: with proof of money
//	succeeded   –                                           never leaves
//
// A refund that a bank sends back after it had succeeded stays succeeded and opens a
// contradiction: the money is with the merchant again, but not by way of a second
// refund of ours, which only a person may order.
func allowedOperation(from, to Status, on Evidence, proof bool) bool {
	switch from {
	case Pending:
		switch on {
		case ByRefusal:
			return to == Failed
		case ByDeadline:
			return to == Unknown
		}
		return on.fromProvider() && oneOf(to, Processing, Succeeded, Failed, Unknown)
	case Processing:
		if on == ByOperator { // no provider has to say that what it acknowledged was not made
			return oneOf(to, Succeeded, Failed)
		}
		return on.fromProvider() && oneOf(to, Succeeded, Failed, Unknown)
	case Unknown:
		if on == ByOperator {
			return oneOf(to, Succeeded, Failed)
		}
		return on.fromProvider() && oneOf(to, Processing, Succeeded, Failed)
	case Failed:
		return on.fromProvider() && to == Succeeded && proof
	}
	return false
}

// operationSources lists the statuses from which to is allowed: the guard of the UPDATE.
func operationSources(to Status, on Evidence, proof bool) []string {
	var out []string
	for _, from := range OperationStatuses {
		if allowedOperation(from, to, on, proof) {
			out = append(out, string(from))
		}
	}
	return out
}

// operationChange is what a piece of evidence wants of an operation: a change, whose
// set is about the operation.
type operationChange struct {
	change
	set func(*Operation)
}

// applyOperation makes one change to the operation op of pay; the caller holds both
// locked. A change that is not allowed is no error: the evidence goes to the timeline,
// and if it contradicts a final status a person is asked.
func (s *Store) applyOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, c operationChange) (Operation, error) {
	if c.to == "" {
		c.to = op.Status
	}
	if c.to != op.Status && !allowedOperation(op.Status, c.to, c.on, c.proof) {
		return s.refuseOperation(ctx, tx, pay, op, c)
	}
	q := s.changedOperation(op, c)
	var err error
	if q.Beyond, err = s.beyond(ctx, tx, pay, op, q); err != nil {
		return Operation{}, err
	}
	after, err := s.writeOperation(ctx, tx, op, q, c)
	if err != nil {
		return Operation{}, err
	}
	if err := s.recordOperation(ctx, tx, pay, op, after, c); err != nil {
		return Operation{}, err
	}
	return s.operationEffects(ctx, tx, pay, op, after, c)
}

// refuseOperation keeps the status; evidence of the provider against a final one opens
// a contradiction.
func (s *Store) refuseOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, c operationChange) (Operation, error) {
	s.log.WarnContext(ctx, "transition of an operation refused", "operation", op.ID, "from", op.Status, "to", c.to, "on", c.on)
	c.detail = with(c.detail, "refused", fmt.Sprintf("%s to %s", op.Status, c.to))
	c.to, c.message, c.objectID, c.quiet = op.Status, "", "", false
	if op.Status.Final() && c.on.fromProvider() {
		c.add = append(slices.Clone(c.add), ReviewContradiction)
		c.drop = without(c.drop, ReviewContradiction)
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}

// changedOperation computes the row after the change, as changed does a payment's.
func (s *Store) changedOperation(op Operation, c operationChange) Operation {
	q, now := op, s.Now()
	q.Status = c.to
	if c.to != op.Status {
		q.StatusReason, q.StatusEvidence, q.ProviderMessage = c.reason, string(c.on), c.message
	} else if c.reason != "" && !op.Status.Final() {
		q.StatusReason = c.reason
	}
	if c.objectID != "" {
		q.ProviderObjectID = c.objectID
	}
	q.NeedsReview = reviews(op.NeedsReview, c.change)
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
	if q.Status != op.Status {
		q.UnknownSince, q.SettledAt, q.AbsentLookups = nil, nil, 0
		if q.Status == Unknown {
			q.UnknownSince, q.UnknownSeen, q.Lookups = &now, true, 0
		}
		if q.Status.Final() {
			q.SettledAt = &now
		}
	}
	if q.Status != op.Status || q.StatusReason != op.StatusReason || q.ProviderObjectID != op.ProviderObjectID ||
		!slices.Equal(without(q.NeedsReview, ReviewAged), without(op.NeedsReview, ReviewAged)) {
		q.Version, q.UpdatedAt = op.Version+1, now
	}
	return q
}

// writeOperation is the guarded UPDATE, the second fence after the row lock.
func (s *Store) writeOperation(ctx context.Context, tx pgx.Tx, op, q Operation, c operationChange) (Operation, error) {
	from := []string{string(op.Status)}
	if q.Status != op.Status {
		from = operationSources(q.Status, c.on, c.proof)
	}
	after, err := scanOperation(tx.QueryRow(ctx, `
		UPDATE operations SET status = $2, status_reason = $3, status_evidence = $4, needs_review = $5,
			provider_object_id = nullif($6, ''), provider_message = $7, next_check_at = $8, next_check_why = $9,
			lookups = $10, absent_lookups = $11, unknown_since = $12, unknown_seen = $13,
			version = $14, updated_at = $15, settled_at = $16, beyond = $17, wallet_waived = $18
		WHERE id = $1 AND status = ANY($19)
		RETURNING `+operationColumns,
		op.ID, q.Status, clean(q.StatusReason), q.StatusEvidence, q.NeedsReview,
		q.ProviderObjectID, clean(q.ProviderMessage), q.NextCheckAt, q.NextCheckWhy,
		q.Lookups, q.AbsentLookups, q.UnknownSince, q.UnknownSeen,
		q.Version, q.UpdatedAt, q.SettledAt, q.Beyond, q.WalletWaived, from))
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, fmt.Errorf("%w: operation %s is not %v", ErrNotAllowed, op.ID, from)
	}
	return after, wrap(err, "write operation")
}

// recordOperation writes the timeline event on the payment and, when a status or a
// review reason changed, the audit row.
func (s *Store) recordOperation(ctx context.Context, tx pgx.Tx, pay Payment, op, q Operation, c operationChange) error {
	added, cleared := difference(q.NeedsReview, op.NeedsReview), difference(op.NeedsReview, q.NeedsReview)
	meant := q.Status != op.Status || len(added)+len(cleared) > 0
	var b pgx.Batch
	if meant || !c.quiet {
		detail := c.detail
		if q.Status != op.Status {
			detail = with(with(detail, "from", op.Status), "to", q.Status)
		}
		if len(added) > 0 {
			detail = with(detail, "operation_review_added", added)
		}
		if len(cleared) > 0 {
			detail = with(detail, "operation_review_cleared", cleared)
		}
		e := childEvent(pay, q, s.Now(), c.kind, c.source, c.by, c.reason, detail)
		e.AttemptID = c.attemptID
		queueEvent(&b, e)
	}
	if meant {
		action := string(op.Kind) + ".status"
		if c.on == ByOperator {
			action = string(op.Kind) + ".resolve"
		}
		queueAudit(&b, s.Now(), c.by, action, string(op.Kind)+":"+op.ID.String(), c.reason, operationState(op), operationState(q))
	}
	if b.Len() > 0 {
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return wrap(err, "record change of operation")
		}
	}
	return Notify(ctx, tx, TopicPayments)
}

// childEvent is a timeline event about an operation of a payment, whose own status is
// as it is.
func childEvent(pay Payment, op Operation, at time.Time, kind, source string, by Actor, reason string, detail map[string]any) TimelineEvent {
	e := map[string]any{"operation_id": op.ID.String(), "operation_kind": string(op.Kind), "operation_seq": op.Seq,
		"operation_status": op.Status, "amount": op.Amount, "currency": op.Currency}
	for k, v := range detail {
		e[k] = v
	}
	return TimelineEvent{PaymentID: pay.ID, At: at, Kind: kind, Source: source, Actor: by.String(),
		FromStatus: pay.Status, ToStatus: pay.Status, Reason: reason, Evidence: e}
}

// operationState is what an audit row keeps of an operation.
func operationState(o Operation) map[string]any {
	return map[string]any{"payment_id": o.PaymentID.String(), "kind": string(o.Kind), "seq": o.Seq, "amount": o.Amount, "currency": o.Currency,
		"status": o.Status, "needs_review": o.NeedsReview, "provider_object_id": o.ProviderObjectID, "version": o.Version}
}
