package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// OperationObjects reads the provider's views of a payment's operations, by operation,
// first seen first.
func (s *Store) OperationObjects(ctx context.Context, paymentID uuid.UUID) (map[uuid.UUID][]ProviderObject, error) {
	rows, err := s.pool.Query(ctx, `SELECT x.operation_id, x.provider, x.object_id, x.reference, x.operation_key, x.status, x.outcome,
			x.amount, x.currency, x.source, x.first_seen_at, x.seen_at
		FROM operation_objects x JOIN operations o ON o.id = x.operation_id WHERE o.payment_id = $1 ORDER BY x.first_seen_at, x.object_id`, paymentID)
	if err != nil {
		return nil, wrap(err, "read operation objects")
	}
	out := map[uuid.UUID][]ProviderObject{}
	var id uuid.UUID
	var o ProviderObject
	_, err = pgx.ForEachRow(rows, []any{&id, &o.Provider, &o.ObjectID, &o.Reference, &o.OperationKey, &o.Status, &o.Outcome,
		&o.Amount, &o.Currency, &o.Source, &o.FirstSeenAt, &o.SeenAt}, func() error {
		out[id] = append(out[id], o)
		return nil
	})
	return out, wrap(err, "read operation objects")
}

// OperationByKey reads the operation a client made under an idempotency key. ErrNotFound.
func (s *Store) OperationByKey(ctx context.Context, clientID, key string) (Operation, error) {
	o, err := scanOperation(s.pool.QueryRow(ctx, `SELECT `+operationColumns+` FROM operations
		WHERE client_id = $1 AND idempotency_key = $2`, clientID, key))
	if err != nil {
		return Operation{}, wrap(notFound(err), "read operation by key")
	}
	return o, nil
}

// RefundTotals reads the figures of refunds of many payments at once, each on the
// charge the payment rests on. Every id that exists is in the result.
func (s *Store) RefundTotals(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Refundable, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT p.id, coalesce(p.provider_payment_id, ''), p.currency, p.captured_amount,
			coalesce(sum(r.amount) FILTER (WHERE r.status = 'succeeded'), 0)::bigint,
			coalesce(sum(r.amount) FILTER (WHERE r.status IN ('pending', 'processing')), 0)::bigint,
			coalesce(sum(r.amount) FILTER (WHERE r.status = 'unknown'), 0)::bigint
		FROM payments p LEFT JOIN operations r ON r.payment_id = p.id AND r.kind = 'refund' AND r.provider_payment_id = p.provider_payment_id
		WHERE p.id = ANY($1) GROUP BY p.id`, ids)
	if err != nil {
		return nil, wrap(err, "read refund totals")
	}
	out := make(map[uuid.UUID]Refundable, len(ids))
	var id uuid.UUID
	var f Refundable
	_, err = pgx.ForEachRow(rows, []any{&id, &f.ChargeID, &f.Currency, &f.Captured, &f.Refunded, &f.Pending, &f.Unknown}, func() error {
		f.Refundable = max(f.Captured-f.Refunded-f.Pending-f.Unknown, 0)
		if f.ChargeID == "" {
			f.Captured, f.Refundable = 0, 0 // as Refundable: no charge is known to give back
		}
		out[id] = f
		return nil
	})
	return out, wrap(err, "read refund totals")
}

// WaitingOperation is a refund, capture or void that needs a person's answer.
type WaitingOperation struct {
	Operation
	OrderRef string
	Since    time.Time // unknown since, or created when only the review reasons wait
}

// OperationQueue lists unknown and needs-review operations, oldest first; providerName empty:
// of all. total is bounded by CountCap+1.
func (s *Store) OperationQueue(ctx context.Context, providerName string, limit int) (list []WaitingOperation, total int, err error) {
	const waiting = `(status = 'unknown' AND status IN ('pending', 'processing', 'unknown') OR needs_review <> '{}') AND (provider = $1 OR $1 = '')`
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM operations WHERE `+waiting+` LIMIT $2) x`, providerName, CountCap+1).Scan(&total)
	if err != nil || total == 0 {
		return nil, 0, wrap(err, "count waiting operations")
	}
	rows, err := s.pool.Query(ctx, `SELECT `+operationColumns+` FROM operations WHERE `+waiting+`
		ORDER BY coalesce(unknown_since, created_at), id LIMIT $2`, providerName, limit)
	if err != nil {
		return nil, 0, wrap(err, "read waiting operations")
	}
	ops, err := pgx.CollectRows(rows, rowToOperation)
	if err != nil {
		return nil, 0, wrap(err, "read waiting operations")
	}
	ids := make([]uuid.UUID, len(ops))
	for i, o := range ops {
		ids[i] = o.PaymentID
	}
	orders, err := s.orderRefs(ctx, ids)
	for _, o := range ops {
		w := WaitingOperation{Operation: o, OrderRef: orders[o.PaymentID], Since: o.CreatedAt}
		if o.UnknownSince != nil {
			w.Since = *o.UnknownSince
		}
		list = append(list, w)
	}
	return list, total, err
}

// OrderDispute is an open dispute with the order it is about.
type OrderDispute struct {
	Dispute  Dispute
	OrderRef string
}

// DisputeQueue lists open disputes of one provider, or of all, as OpenDisputes does.
func (s *Store) DisputeQueue(ctx context.Context, providerName string, limit int) (list []OrderDispute, more bool, err error) {
	rows, err := s.pool.Query(ctx, `SELECT `+disputeColumns+` FROM disputes WHERE state = 'opened' AND (provider = $1 OR $1 = '')
		ORDER BY due_by NULLS LAST, id LIMIT $2`, providerName, limit+1)
	if err != nil {
		return nil, false, wrap(err, "read open disputes")
	}
	all, err := pgx.CollectRows(rows, scanDispute)
	if err != nil {
		return nil, false, wrap(err, "read open disputes")
	}
	all, more = pageOf(all, limit)
	ids := make([]uuid.UUID, len(all))
	for i, d := range all {
		ids[i] = d.PaymentID
	}
	orders, err := s.orderRefs(ctx, ids)
	for _, d := range all {
		list = append(list, OrderDispute{Dispute: d, OrderRef: orders[d.PaymentID]})
	}
	return list, more, err
}

// orderRefs reads the order references of payments.
func (s *Store) orderRefs(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	out := make(map[uuid.UUID]string, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := s.pool.Query(ctx, `SELECT id, order_ref FROM payments WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, wrap(err, "read order references")
	}
	var id uuid.UUID
	var ref string
	_, err = pgx.ForEachRow(rows, []any{&id, &ref}, func() error {
		out[id] = ref
		return nil
	})
	return out, wrap(err, "read order references")
}

// ChildCounts are the refunds, captures, voids and disputes that wait for a person.
type ChildCounts struct {
	Unknown      int // operations that are unknown
	Review       int // not unknown, with a review reason
	OpenDisputes int
	NextDue      *time.Time // the nearest deadline of an open dispute
}

// Waiting is how many operations need an answer.
func (c ChildCounts) Waiting() int { return c.Unknown + c.Review }

// ChildCounts counts along the partial indexes of what is open.
func (s *Store) ChildCounts(ctx context.Context) (c ChildCounts, err error) {
	err = s.pool.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM operations WHERE status IN ('pending', 'processing', 'unknown') AND status = 'unknown'),
			(SELECT count(*) FROM operations WHERE needs_review <> '{}' AND status <> 'unknown'),
			(SELECT count(*) FROM disputes WHERE state = 'opened'), (SELECT min(due_by) FROM disputes WHERE state = 'opened')`).
		Scan(&c.Unknown, &c.Review, &c.OpenDisputes, &c.NextDue)
	return c, wrap(err, "count children")
}
