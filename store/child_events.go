package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// This file applies what providers say about objects that belong to a charge, refunds,
// captures, voids and disputes, to their own rows. None of it is ever applied to a payment.

// childSource is where a child object was seen.
type childSource struct {
	on     Evidence
	name   string // answer, lookup, webhook, sync
	at     time.Time
	key    string         // of the event; empty for a listed object
	detail map[string]any // of the timeline event
}

// Why a child object has to wait.
const (
	waitNoCharge = "no payment with this reference or charge yet"
	waitNoAction = "no capture or void with this reference yet"
	waitNoMoney  = "a refund that does not say how much"
	waitAnswer   = "may be a refund of ours whose answer is missing"
)

// isChild reports whether the object belongs to a charge instead of being one.
func isChild(o provider.Object) bool { return o.Kind != provider.ObjectCharge }

// applyChild applies an object that belongs to a charge. wait: nothing it could be
// applied to is known yet, and why. The payment's row is the first lock.
func (s *Store) applyChild(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object, src childSource) (payment uuid.UUID, wait string, err error) {
	o.ID, o.Reference, o.OperationKey = ident(o.ID), ident(o.Reference), ident(o.OperationKey)
	o.Child.ChargeID, o.Child.PaymentID = ident(o.Child.ChargeID), ident(o.Child.PaymentID)
	switch o.Kind {
	case provider.ObjectDispute:
		return s.applyDispute(ctx, tx, providerName, o, src)
	case provider.ObjectCapture, provider.ObjectVoid:
		return s.applyAction(ctx, tx, providerName, o, src)
	}
	id, err := matchOperation(ctx, tx, providerName, provider.OpRefund, o)
	if err != nil {
		return uuid.Nil, "", err
	}
	if id == uuid.Nil {
		return s.applyExternal(ctx, tx, providerName, o, src)
	}
	pay, op, err := lockOperation(ctx, tx, id)
	if err != nil {
		return uuid.Nil, "", err
	}
	return pay.ID, "", s.tellOperation(ctx, tx, pay, op, o, src, false)
}

// tellOperation lets an object have its say about an operation, held locked. fresh: its
// row was made for this object, and nothing looks after it yet.
func (s *Store) tellOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, o provider.Object, src childSource, fresh bool) error {
	before := op.Status
	c := operationChange{change: change{on: src.on, kind: op.event(src.name), source: src.name, by: System(src.name),
		detail: with(src.detail, "object", brief(o)), quiet: src.on == BySync}}
	op, err := s.settleOperation(ctx, tx, pay, op, operationFinding{on: src.on, observations: s.seen(src.name, src.at, o), change: c})
	if err != nil {
		return err
	}
	if err := s.alertUnlisted(ctx, tx, pay, o); err != nil {
		return err
	}
	if op.Status.Final() || op.Status == Pending || !fresh && before != Pending {
		return nil
	}
	return s.askOperation(ctx, tx, pay, op, src.name)
}

// askOperation gives an operation that an event moved its first lookup: nothing else
// would ever look at it if no further event came.
func (s *Store) askOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, source string) error {
	at := s.Now().Add(firstAsk)
	op, err := s.applyOperation(ctx, tx, pay, op, operationChange{change: change{next: next{at: at, why: whyReconcile},
		kind: op.event("snoozed"), source: source, by: System(source), quiet: true}})
	if err != nil {
		return err
	}
	return s.enqueuer().OperationLookup(ctx, tx, op.ID, op.Provider, at)
}

// matchOperation finds the operation an object is: by our own reference, by the key it
// was made with, then by what is known under (provider, object id). It takes no lock.
func matchOperation(ctx context.Context, tx pgx.Tx, providerName string, kind provider.OperationKind, o provider.Object) (id uuid.UUID, err error) {
	var ref *uuid.UUID
	if parsed, err := uuid.Parse(o.Reference); err == nil && len(o.Reference) == 36 {
		ref = &parsed
	}
	err = tx.QueryRow(ctx, `
		SELECT id FROM (
			SELECT 1 AS rank, id FROM operations WHERE id = $3 AND provider = $1 AND kind = $2
			UNION ALL SELECT 2, id FROM operations WHERE operation_key = nullif($4, '') AND provider = $1 AND kind = $2
			UNION ALL SELECT 3, operation_id FROM operation_objects WHERE provider = $1 AND kind = $2 AND object_id = $5
			UNION ALL SELECT 4, id FROM operations WHERE provider = $1 AND kind = $2 AND provider_object_id = $5
		) m ORDER BY rank LIMIT 1`, providerName, kind, ref, o.OperationKey, o.ID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	}
	return id, wrap(err, "match operation")
}

// matchCharge finds the payment whose charge an object belongs to: by the payment's own
// reference, then by the charge's id. It takes no lock.
func matchCharge(ctx context.Context, tx pgx.Tx, providerName string, c provider.Child) (id uuid.UUID, found bool, err error) {
	return matchPayment(ctx, tx, providerName, provider.Object{ID: c.ChargeID, Reference: c.PaymentID})
}

// applyExternal makes the row of a refund that nobody here asked for: somebody made it
// in the provider's own dashboard. Matching is done again under the payment's lock:
// two events of one refund take turns.
func (s *Store) applyExternal(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object, src childSource) (payment uuid.UUID, wait string, err error) {
	paymentID, found, err := matchCharge(ctx, tx, providerName, o.Child)
	if err != nil {
		return uuid.Nil, "", err
	}
	if !found {
		return uuid.Nil, waitNoCharge, nil
	}
	pay, err := lockPayment(ctx, tx, paymentID)
	if err != nil {
		return uuid.Nil, "", err
	}
	id, err := matchOperation(ctx, tx, providerName, provider.OpRefund, o)
	if err != nil {
		return uuid.Nil, "", err
	}
	var op Operation
	fresh := id == uuid.Nil
	if !fresh {
		if pay, op, err = lockOperation(ctx, tx, id); err != nil {
			return uuid.Nil, "", err
		}
	} else if op, wait, err = s.adopt(ctx, tx, pay, o, src); err != nil || wait != "" {
		return pay.ID, wait, err
	}
	if op.ID == uuid.Nil {
		return pay.ID, "", nil // noted for a person
	}
	return pay.ID, "", s.tellOperation(ctx, tx, pay, op, o, src, fresh)
}

// adopt inserts the row of an external refund.
func (s *Store) adopt(ctx context.Context, tx pgx.Tx, pay Payment, o provider.Object, src childSource) (op Operation, wait string, err error) {
	charge := o.Child.ChargeID
	if charge == "" {
		charge = pay.ProviderPaymentID
	}
	switch {
	case charge == "":
		return Operation{}, waitNoCharge, nil
	case o.Money.Amount <= 0:
		return Operation{}, waitNoMoney, nil
	case o.Money.Currency != pay.Currency:
		return Operation{}, "", s.foreignMoney(ctx, tx, pay, o, src)
	}
	mine, err := mayBeOurs(ctx, tx, pay, charge, o)
	if err != nil {
		return Operation{}, "", err
	}
	if mine {
		return Operation{}, waitAnswer, nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Operation{}, "", err
	}
	op = Operation{ID: id, PaymentID: pay.ID, Kind: provider.OpRefund, Origin: OriginExternal, Provider: pay.Provider, ProviderPaymentID: charge,
		Amount: o.Money.Amount, Currency: pay.Currency, Status: Processing, StatusEvidence: string(src.on), ProviderObjectID: o.ID,
		NextCheckWhy: whyReconcile, RequestedBy: System(src.name).String()}
	if op.Beyond, err = s.beyond(ctx, tx, pay, Operation{}, op); err != nil {
		return Operation{}, "", err
	}
	if op, err = s.insertOperation(ctx, tx, op, nil); err != nil {
		return Operation{}, "", wrap(err, "insert external refund")
	}
	if err := s.rebalance(ctx, tx, pay, &op); err != nil {
		return Operation{}, "", err
	}
	var b pgx.Batch
	queueEvent(&b, childEvent(pay, op, s.Now(), op.event("external"), src.name, System(src.name), "", with(src.detail, "object", brief(o))))
	queueAudit(&b, s.Now(), System(src.name), "refund.external", "payment:"+pay.ID.String(), "", nil, operationState(op))
	return op, "", wrap(tx.SendBatch(ctx, &b).Close(), "record external refund")
}

// foreignMoney is a refund in another currency than the payment's: nothing here can
// hold it, so a person is told.
func (s *Store) foreignMoney(ctx context.Context, tx pgx.Tx, pay Payment, o provider.Object, src childSource) error {
	_, _, err := s.apply(ctx, tx, pay, change{add: []string{ReviewRefundsDiffer}, kind: "review", source: src.name, by: System(src.name),
		detail: with(src.detail, "object", brief(o))})
	return err
}

// mayBeOurs reports whether a refund that carries neither our reference nor our key may
// be one of ours that went out and whose answer is missing. Then its row must not be
// made a second time; the event is applied again when that answer is there.
func mayBeOurs(ctx context.Context, tx pgx.Tx, pay Payment, charge string, o provider.Object) (bool, error) {
	if o.Reference != "" || o.OperationKey != "" {
		return false, nil
	}
	var mine bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM operations r WHERE payment_id = $1 AND kind = 'refund' AND provider_payment_id = $2 AND amount = $3
			AND origin <> 'external' AND provider_object_id IS NULL AND status IN ('pending', 'processing', 'unknown')
			AND EXISTS (SELECT 1 FROM attempts a WHERE a.payment_id = r.payment_id AND a.operation = r.kind || ':' || r.seq
				AND (a.outcome IS NULL OR a.outcome NOT IN ('not_sent', 'not_executed'))))`,
		pay.ID, charge, o.Money.Amount).Scan(&mine)
	return mine, wrap(err, "look for the refund's request")
}
