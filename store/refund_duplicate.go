package store

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reasons of NotRefundableError for a charge named by its id.
const (
	RefusedOwnCharge   = "own_charge"   // it is the charge the payment rests on
	RefusedNoDuplicate = "no_duplicate" // there is no evidence that it took the money a second time
	RefusedPart        = "part"         // a duplicate goes back whole
)

// TakenCharge is a charge of a payment that took money, by the provider's word, and was
// not undone since.
type TakenCharge struct {
	ID      string    // at the provider
	Own     bool      // the payment rests on it; any other is a duplicate
	MadeAt  time.Time // by the provider's clock, or when it was first seen here
	Figures Refundable
}

// takenCharges reads the charges of a payment that took money in its currency, the
// payment's own first. The figures of a duplicate are what the provider said it took.
func takenCharges(ctx context.Context, q reader, pay Payment) ([]TakenCharge, error) {
	rows, err := q.Query(ctx, `
		SELECT o.object_id, o.object_id = p.provider_payment_id, coalesce(o.made_at, o.first_seen_at),
			CASE WHEN o.object_id = p.provider_payment_id THEN p.captured_amount ELSE o.amount END,
			r.refunded, r.pending, r.unknown
		FROM payments p JOIN provider_objects o ON o.payment_id = p.id AND o.provider = p.provider AND o.currency = p.currency,
			LATERAL (SELECT coalesce(sum(amount) FILTER (WHERE status = 'succeeded'), 0) AS refunded,
				coalesce(sum(amount) FILTER (WHERE status IN ('pending', 'processing')), 0) AS pending,
				coalesce(sum(amount) FILTER (WHERE status = 'unknown'), 0) AS unknown
				FROM operations WHERE payment_id = p.id AND kind = 'refund' AND provider_payment_id = o.object_id) r
		WHERE p.id = $1 AND o.succeeded_at IS NOT NULL AND (o.failed_at IS NULL OR o.failed_at < o.succeeded_at)
		ORDER BY 2 DESC, 3, 1`, pay.ID)
	if err != nil {
		return nil, wrap(err, "read charges")
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c TakenCharge, err error) {
		f := &c.Figures
		err = row.Scan(&c.ID, &c.Own, &c.MadeAt, &f.Captured, &f.Refunded, &f.Pending, &f.Unknown)
		f.ChargeID, f.Currency = c.ID, pay.Currency
		f.Refundable = max(f.Captured-f.Refunded-f.Pending-f.Unknown, 0)
		return c, err
	})
	return list, wrap(err, "read charges")
}

// mayRefundDuplicate refuses what is not the whole of a charge that the provider made
// beside the payment's own. Which one is the payment's own is looked at under the lock:
// evidence may have turned them round since the form was opened.
func mayRefundDuplicate(ctx context.Context, tx pgx.Tx, pay Payment, n NewRefund) (Refundable, error) {
	charges, err := takenCharges(ctx, tx, pay)
	if err != nil {
		return Refundable{}, err
	}
	charges = duplicates(pay, charges)
	f := Refundable{ChargeID: n.ChargeID, Currency: pay.Currency}
	extra := slices.IndexFunc(charges, func(c TakenCharge) bool { return c.ID == n.ChargeID })
	if extra >= 0 {
		f = charges[extra].Figures
	}
	no := func(why string) (Refundable, error) {
		return f, &NotRefundableError{Why: why, Status: pay.Status, Figures: f}
	}
	switch {
	case pay.Status != Succeeded:
		return no(RefusedNotSucceeded)
	case n.ChargeID == pay.ProviderPaymentID:
		return no(RefusedOwnCharge)
	case extra < 0:
		return no(RefusedNoDuplicate) // or, without the payment's own, it may be all there is
	case n.Currency != "" && n.Currency != pay.Currency:
		return no(RefusedCurrency)
	case n.ExpectedRefundable != nil && *n.ExpectedRefundable != f.Refundable:
		return f, &RefundableChangedError{Expected: *n.ExpectedRefundable, Figures: f}
	case n.Amount <= 0:
		return no(RefusedAmount)
	case n.Amount > f.Refundable:
		return no(RefusedTooMuch)
	case n.Amount < f.Refundable:
		return no(RefusedPart)
	}
	return f, nil
}

// Duplicates are the charges of a payment beside its own, oldest first, if the payment's
// own took money too: only then is one of them too many.
func (d Dossier) Duplicates() []TakenCharge { return duplicates(d.Payment, d.Charges) }

func duplicates(pay Payment, charges []TakenCharge) []TakenCharge {
	if pay.Status != Succeeded || len(charges) < 2 || !charges[0].Own {
		return nil
	}
	return charges[1:]
}

// Duplicates reads the charges of a payment beside its own. ErrNotFound.
func (s *Store) Duplicates(ctx context.Context, paymentID uuid.UUID) ([]TakenCharge, error) {
	pay, err := s.Payment(ctx, paymentID)
	if err != nil {
		return nil, err
	}
	charges, err := takenCharges(ctx, s.pool, pay)
	return duplicates(pay, charges), err
}
