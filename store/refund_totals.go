package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A provider's running figure of what it refunded of a charge is a check of our refunds,
// never an addition to them. It may be ahead of the event about the refund, so a
// difference becomes a review reason only when it has lasted for totalsGrace.
const totalsGrace = 15 * time.Minute

// noteTotals keeps the latest running figure of a charge, by the provider's clock; of
// two at the same moment the higher one.
func (s *Store) noteTotals(ctx context.Context, tx pgx.Tx, providerName string, n observation) error {
	_, err := tx.Exec(ctx, `
		UPDATE provider_objects SET refunded_total = $3, refunded_total_at = $4,
			refunds_differ_since = CASE WHEN refunded_total = $3 THEN refunds_differ_since END -- another figure is new evidence
		WHERE provider = $1 AND object_id = $2
			AND (refunded_total_at IS NULL OR refunded_total_at < $4 OR refunded_total_at = $4 AND refunded_total < $3)`,
		providerName, n.ID, n.Totals.Refunded, n.at)
	return wrap(err, "note refunded total")
}

// reviewRefunds compares the refunds of a payment with what they are of. Too much
// refunded is a reason at once, if fresh says that a refund has just settled; a
// difference from the provider's running figure is noted and left to the sweep; and
// when both are right the reason goes.
func (s *Store) reviewRefunds(ctx context.Context, tx pgx.Tx, pay Payment, fresh bool, source string, by Actor) (Payment, error) {
	differ, err := s.noteDifferences(ctx, tx, pay, fresh)
	if err != nil {
		return Payment{}, err
	}
	var over bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM operations r WHERE payment_id = $1 AND kind = 'refund' AND status = 'succeeded'
		GROUP BY provider_payment_id HAVING sum(amount) > greatest($2, (SELECT o.amount FROM provider_objects o
			WHERE o.provider = $3 AND o.object_id = r.provider_payment_id AND o.payment_id = $1 AND o.succeeded_at IS NOT NULL
			AND r.provider_payment_id <> $4)))`, pay.ID, pay.Took().Amount, pay.Provider, pay.ProviderPaymentID).Scan(&over)
	if err != nil {
		return Payment{}, wrap(err, "add refunds up")
	}
	c := change{kind: "review", source: source, by: by, quiet: true}
	flagged := slices.Contains(pay.NeedsReview, ReviewRefundsDiffer)
	switch {
	case over && fresh && !flagged:
		c.add, c.detail = []string{ReviewRefundsDiffer}, map[string]any{"refunds": "more than was charged"}
	case flagged && !over && !differ:
		c.drop = []string{ReviewRefundsDiffer}
	default:
		return pay, nil
	}
	pay, _, err = s.apply(ctx, tx, pay, c)
	return pay, err
}

// noteDifferences marks the charges of a payment whose refunds, all of them settled, add
// up to something else than the provider's figure. A figure that is older than the
// newest refund and lower says nothing. fresh: a refund has just settled, so whatever
// differs now is told anew.
func (s *Store) noteDifferences(ctx context.Context, tx pgx.Tx, pay Payment, fresh bool) (differ bool, err error) {
	rows, err := tx.Query(ctx, `
		SELECT o.object_id, o.refunds_differ_since IS NOT NULL,
			r.open = 0 AND (o.refunded_total > r.sum OR o.refunded_total < r.sum AND o.refunded_total_at >= r.newest)
		FROM provider_objects o, LATERAL (
			SELECT coalesce(sum(amount) FILTER (WHERE status = 'succeeded'), 0) AS sum,
				count(*) FILTER (WHERE status IN ('pending', 'processing', 'unknown')) AS open,
				(SELECT coalesce(max(x.outcome_at), '-infinity') FROM operation_objects x JOIN operations i ON i.id = x.operation_id
					WHERE i.payment_id = o.payment_id AND i.kind = 'refund' AND i.provider_payment_id = o.object_id) AS newest
			FROM operations WHERE payment_id = o.payment_id AND kind = 'refund' AND provider_payment_id = o.object_id) r
		WHERE o.payment_id = $1 AND o.provider = $2 AND o.refunded_total IS NOT NULL`, pay.ID, pay.Provider)
	if err != nil {
		return false, wrap(err, "compare refunds")
	}
	type charge struct {
		ID       string
		Was, Now bool
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[charge])
	if err != nil {
		return false, wrap(err, "compare refunds")
	}
	for _, c := range list {
		differ = differ || c.Now
		if c.Was == c.Now && (!c.Now || !fresh) {
			continue
		}
		var since *time.Time
		if c.Now {
			now := s.Now()
			since = &now
		}
		_, err := tx.Exec(ctx, `UPDATE provider_objects SET refunds_differ_since = $3 WHERE provider = $1 AND object_id = $2`, pay.Provider, c.ID, since)
		if err != nil {
			return false, wrap(err, "mark differing refunds")
		}
	}
	return differ, nil
}

// sweepTotals opens the review of payments whose refunds have differed from the
// provider's figure for too long. Each difference is told once: what a person has
// cleared stays cleared.
func (s *Store) sweepTotals(ctx context.Context) (int, error) {
	limit := s.Now().Add(-totalsGrace)
	return s.eachPayment(ctx, `SELECT DISTINCT payment_id FROM provider_objects
			WHERE refunds_differ_since < $1 AND payment_id IS NOT NULL LIMIT $2`, []any{limit, sweepBatch},
		func(ctx context.Context, tx pgx.Tx, pay Payment) (bool, error) {
			told, err := s.tellDifference(ctx, tx, pay, limit)
			if err != nil || told == "" {
				return false, err
			}
			_, _, err = s.apply(ctx, tx, pay, change{add: []string{ReviewRefundsDiffer}, kind: "review", source: "sweep", by: System("sweep"),
				quiet: true, detail: map[string]any{"refunds": told}})
			return true, err
		})
}

func (s *Store) tellDifference(ctx context.Context, tx pgx.Tx, pay Payment, limit time.Time) (string, error) {
	rows, err := tx.Query(ctx, `UPDATE provider_objects SET refunds_differ_since = 'infinity'
		WHERE payment_id = $1 AND refunds_differ_since < $2 RETURNING object_id, refunded_total`, pay.ID, limit)
	if err != nil {
		return "", wrap(err, "tell differing refunds")
	}
	told, id, total := "", "", int64(0)
	_, err = pgx.ForEachRow(rows, []any{&id, &total}, func() error {
		told = fmt.Sprintf("the provider says %d refunded of %s", total, id)
		return nil
	})
	return told, wrap(err, "tell differing refunds")
}

// returned are the amounts given back of each charge of a payment, by the provider's id.
func returned(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID) (map[string]int64, error) {
	rows, err := tx.Query(ctx, `SELECT provider_payment_id, sum(amount)::bigint FROM operations
		WHERE payment_id = $1 AND kind = 'refund' AND status = 'succeeded' GROUP BY 1`, paymentID)
	if err != nil {
		return nil, wrap(err, "read what was given back")
	}
	out := map[string]int64{}
	var id string
	var sum int64
	_, err = pgx.ForEachRow(rows, []any{&id, &sum}, func() error {
		out[id] = sum
		return nil
	})
	return out, wrap(err, "read what was given back")
}
