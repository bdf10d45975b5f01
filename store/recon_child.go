package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// childOfPayment finds the payment whose charge a listed object belongs to.
func childOfPayment(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object) (id uuid.UUID, found bool, err error) {
	if o.Kind == provider.ObjectDispute {
		return matchDispute(ctx, tx, providerName, o)
	}
	op, err := matchOperation(ctx, tx, providerName, operationKind(o), o)
	if err != nil {
		return uuid.Nil, false, err
	}
	if op == uuid.Nil {
		return matchCharge(ctx, tx, providerName, o.Child)
	}
	err = tx.QueryRow(ctx, `SELECT payment_id FROM operations WHERE id = $1`, op).Scan(&id)
	return id, err == nil, wrap(err, "read operation's payment")
}

// listedChild applies a refund or dispute that a provider listed. Its finding names no
// payment: that the list has a refund must not hide that it lacks the charge.
func (s *Store) listedChild(ctx context.Context, tx pgx.Tx, r Run, o provider.Object, counts map[string]int) error {
	payment, wait, err := s.applyChild(ctx, tx, r.Provider, o, childSource{on: BySync, name: "sync", at: s.Now(), detail: map[string]any{}})
	if err != nil {
		return err
	}
	if wait != "" {
		return s.addItem(ctx, tx, r.ID, findTheirsOnly, uuid.Nil, o.ID, string(o.Kind)+": "+wait, counts)
	}
	return s.addItem(ctx, tx, r.ID, findMatched, uuid.Nil, o.ID, string(o.Kind)+" of payment "+payment.String(), counts)
}
