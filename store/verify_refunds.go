package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// refunds audits operations: what they add up to, what the wallets gave for them, and
// those nobody looks after.
func (b *Books) refunds(ctx context.Context, tx pgx.Tx, s *Store) error {
	b.OperationsByStatus = map[string]int{}
	for _, st := range OperationStatuses {
		b.OperationsByStatus[string(st)] = 0
	}
	rows, err := tx.Query(ctx, `SELECT status, count(*) FROM operations GROUP BY status`)
	if err != nil {
		return err
	}
	var status string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		b.OperationsByStatus[status], b.Operations = n, b.Operations+n
		return nil
	}); err != nil {
		return err
	}
	for _, part := range []struct {
		into  *[]string
		query string
		args  []any
	}{{&b.Refunds, refundFindings, nil}, {&b.WalletDrift, refundDrift, nil}, {&b.Stuck, stuckOperations, []any{s.Now(), stuckAfter}}} {
		rows, err := tx.Query(ctx, part.query, part.args...)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		*part.into = append(*part.into, list...)
	}
	return nil
}

const (
	// refundFindings: sums that cannot be. What a person was told of is no finding.
	refundFindings = `
		SELECT format('payment %s: refunds of %s add up to %s of %s', p.id, r.charge, r.sum, coalesce(p.capture_amount, p.amount))
		FROM (SELECT payment_id, provider_payment_id AS charge, sum(amount) AS sum FROM operations
			WHERE kind = 'refund' AND status <> 'failed' GROUP BY 1, 2) r JOIN payments p ON p.id = r.payment_id
		WHERE r.sum > greatest(coalesce(p.capture_amount, p.amount), (SELECT o.amount FROM provider_objects o
				WHERE o.provider = p.provider AND o.object_id = r.charge AND o.payment_id = p.id AND o.succeeded_at IS NOT NULL
				AND r.charge <> p.provider_payment_id)) AND NOT p.needs_review @> '{refunds_differ}'
			AND NOT EXISTS (SELECT 1 FROM audit_log a WHERE a.target = 'payment:' || p.id AND a.action = 'payment.resolve')
		UNION ALL
		SELECT format('payment %s: holds %s for refunds that add up to %s', p.id, p.refunds_held, refunds_of_charge(p.id, p.provider_payment_id))
		FROM payments p WHERE p.refunds_held <> 0 AND p.refunds_held <> refunds_of_charge(p.id, p.provider_payment_id)
		UNION ALL
		SELECT format('refund %s: at the provider of another payment', r.id)
		FROM operations r JOIN payments p ON p.id = r.payment_id WHERE r.provider <> p.provider OR r.currency <> p.currency
		ORDER BY 1`
	refundDrift = `
		SELECT format('refund %s: succeeded and its wallet was not debited', r.id)
		FROM operations r JOIN payments p ON p.id = r.payment_id LEFT JOIN wallet_entries e ON e.operation_id = 'refund:' || r.id
		WHERE r.kind = 'refund' AND r.status = 'succeeded' AND p.status = 'succeeded' AND p.wallet_id IS NOT NULL
			AND r.provider_payment_id = p.provider_payment_id AND r.needs_review = '{}' AND NOT r.wallet_waived
			AND (e.id IS NULL OR e.amount <> -r.amount OR e.wallet_id <> p.wallet_id)
		UNION ALL
		SELECT format('refund %s: %s and its wallet was debited', r.id, r.status)
		FROM wallet_entries e JOIN operations r ON e.operation_id = 'refund:' || r.id WHERE r.status <> 'succeeded'`
	stuckOperations = `
		SELECT format('%s %s: %s, next check %s', kind, id, status, coalesce(next_check_at::text, 'never'))
		FROM operations WHERE status IN ('pending', 'processing', 'unknown') AND needs_review = '{}'
		AND (next_check_at IS NULL OR next_check_at < $1::timestamptz - $2::interval) ORDER BY id`
)

// EachRefund calls fn with every refund, in id order, in keyset pages. It holds no
// connection while fn runs.
func (s *Store) EachRefund(ctx context.Context, fn func(Operation) error) error {
	last := uuid.Nil
	for {
		rows, err := s.pool.Query(ctx, `SELECT `+operationColumns+` FROM operations WHERE kind = $3 AND id > $1 ORDER BY id LIMIT $2`,
			last, paymentPage, provider.OpRefund)
		if err != nil {
			return wrap(err, "read refunds")
		}
		page, err := pgx.CollectRows(rows, rowToOperation)
		if err != nil {
			return wrap(err, "read refunds")
		}
		for _, op := range page {
			if err := fn(op); err != nil {
				return wrap(err, "refund "+op.ID.String())
			}
		}
		if len(page) < paymentPage {
			return nil
		}
		last = page[len(page)-1].ID
	}
}
