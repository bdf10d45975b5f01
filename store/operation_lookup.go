package store

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// RecordOperationLookup applies what a lookup of an operation established, in tx, as
// RecordLookup does for a payment. Proven absence fails it: nothing is ever resent by
// itself, whatever LookupPolicy.OnAbsent says, because a person can order another one.
// One that is not final afterwards has its next lookup enqueued at pol.NextAt.
func (s *Store) RecordOperationLookup(ctx context.Context, tx pgx.Tx, id uuid.UUID, l provider.LookedUp, pol LookupPolicy, by Actor) (Operation, error) {
	pay, op, err := lockOperation(ctx, tx, id)
	if err != nil {
		return Operation{}, err
	}
	pr, err := attemptsBefore(ctx, tx, op.PaymentID, op.AttemptName())
	if err != nil {
		return Operation{}, err
	}
	c := operationChange{change: lookupChange(l, pol, by), set: func(q *Operation) { q.Lookups++ }}
	c.kind = op.event("lookup")
	if pol.MaxLookups > 0 && op.Lookups+1 >= pol.MaxLookups && !op.Status.Final() && op.Status != Pending {
		c.add = append(c.add, ReviewAged)
	}
	objects := oursOperation(op, l.Objects)
	switch {
	case l.Verdict == provider.LookupFound && !op.refund():
		c.set = func(q *Operation) { q.Lookups++; q.AbsentLookups = 0 }
		op, err = s.actionFound(ctx, tx, pay, op, l, c)
	case l.Verdict == provider.LookupFound && len(objects) > 0:
		c.set = func(q *Operation) { q.Lookups++; q.AbsentLookups = 0 }
		op, err = s.settleOperation(ctx, tx, pay, op, operationFinding{on: ByLookup, observations: s.seen("lookup", s.Now(), objects...), change: c})
		for i := 0; err == nil && i < len(objects); i++ {
			err = s.alertUnlisted(ctx, tx, pay, objects[i])
		}
	case l.Verdict == provider.LookupAbsent:
		op, err = s.operationAbsent(ctx, tx, pay, op, pr, l, pol, c)
	default:
		op, err = s.applyOperation(ctx, tx, pay, op, c)
	}
	if err != nil {
		return Operation{}, err
	}
	if err := s.alertCall(ctx, tx, pay, l.Alert, clean(l.Reason)); err != nil {
		return Operation{}, err
	}
	if op.Status.Final() || op.Status == Pending {
		return op, nil
	}
	return op, s.enqueuer().OperationLookup(ctx, tx, op.ID, op.Provider, pol.NextAt)
}

// oursOperation keeps the objects that are about this operation: by our reference or
// key, or by the id it already rests on.
func oursOperation(op Operation, objects []provider.Object) []provider.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o provider.Object) bool {
		switch {
		case op.Kind == provider.OpRefund && o.Kind != provider.ObjectRefund:
			return true
		case o.ID == "":
			return true
		case op.Origin == OriginExternal:
			return o.ID != op.ProviderObjectID
		case o.Reference != "":
			return o.Reference != op.ID.String()
		case o.OperationKey != "":
			return o.OperationKey != op.OperationKey
		}
		return o.ID != op.ProviderObjectID
	})
}

// operationAbsent weighs "there is no such refund", by the rules of absent: asked by our
// own reference or key, after the horizon, twice in a row, and never seen before. Of a
// capture or void it is the charge that says so, and may be asked by its id; one that was
// acknowledged is not there yet.
func (s *Store) operationAbsent(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, pr prior, l provider.LookedUp, pol LookupPolicy, c operationChange) (Operation, error) {
	counts := (l.Way == provider.ByReference || l.Way == provider.ByKey || l.Way == provider.ByID && !op.refund()) &&
		(op.refund() || op.Status == Unknown) && pr.open == nil && pr.seq > 0 &&
		!s.Now().Before(pr.lastMark.Add(pol.AbsentHorizon))
	c.detail = with(c.detail, "counts", counts)
	if !counts || op.Status.Final() || op.Status == Pending {
		return s.applyOperation(ctx, tx, pay, op, c)
	}
	count := op.AbsentLookups + 1
	c.set = func(q *Operation) {
		q.Lookups++
		if q.Status == op.Status {
			q.AbsentLookups = count
		}
	}
	if count < absencesNeeded {
		return s.applyOperation(ctx, tx, pay, op, c)
	}
	objects, err := objectsOfOperation(ctx, tx, op)
	if err != nil {
		return Operation{}, err
	}
	if op.Status != Unknown || len(objects) > 0 || op.ProviderObjectID != "" {
		c.add = append(c.add, ReviewContradiction) // it was there once
	} else {
		c.to, c.reason = Failed, reasonNotReceived
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}
