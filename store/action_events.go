package store

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// A capture or void that was made shows in its charge, and only there. That one was not
// made need not show anywhere: the charge stays held. So what a provider says of a capture
// or void itself is believed when it says that it failed, and touches no charge.

// operationKind is the kind of operation that an object which belongs to a charge is about;
// empty of a dispute.
func operationKind(o provider.Object) provider.OperationKind {
	switch o.Kind {
	case provider.ObjectRefund:
		return provider.OpRefund
	case provider.ObjectCapture:
		return provider.OpCapture
	case provider.ObjectVoid:
		return provider.OpVoid
	}
	return ""
}

// applyAction applies what an event or a list says of a capture or void itself.
func (s *Store) applyAction(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object, src childSource) (payment uuid.UUID, wait string, err error) {
	id, err := matchOperation(ctx, tx, providerName, operationKind(o), o)
	if err != nil {
		return uuid.Nil, "", err
	}
	if id == uuid.Nil {
		return uuid.Nil, waitNoAction, nil
	}
	pay, op, err := lockOperation(ctx, tx, id)
	if err != nil {
		return uuid.Nil, "", err
	}
	c := operationChange{change: change{on: src.on, kind: op.event(src.name), source: src.name, by: System(src.name),
		detail: with(src.detail, "object", brief(o)), quiet: src.on == BySync}}
	if _, err := s.failAction(ctx, tx, pay, op, s.seen(src.name, src.at, o), c); err != nil {
		return uuid.Nil, "", err
	}
	return pay.ID, "", s.alertUnlisted(ctx, tx, pay, o)
}

// failAction fails a capture or void, held locked, of which its own objects say that it
// failed, and notes what else they say. One that shows in its charge stays succeeded: of a
// void there is nothing to decide, and what a capture really took is for a person to see.
func (s *Store) failAction(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, seen []observation, c operationChange) (Operation, error) {
	changed, foreign, err := s.observeOperation(ctx, tx, op, seen)
	if err != nil {
		return Operation{}, err
	}
	i := slices.IndexFunc(seen, func(n observation) bool { return n.Outcome == provider.Failed })
	switch {
	case len(foreign) > 0:
		c.add, c.detail = append(slices.Clone(c.add), ReviewContradiction), with(c.detail, "object_of_another_operation", foreign)
	case i < 0:
	case op.Status == Succeeded && (op.Kind == provider.OpVoid || !changed):
		c.detail = with(c.detail, "note", "already "+string(op.Status))
	default:
		c.to, c.reason, c.message = Failed, seen[i].Reason, seen[i].Message
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}

// failedItself reports whether the provider has said of a capture or void itself that it
// failed.
func failedItself(ctx context.Context, tx pgx.Tx, op Operation) (failed bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM operation_objects WHERE operation_id = $1 AND failed_at IS NOT NULL)`, op.ID).Scan(&failed)
	return failed, wrap(err, "read operation objects")
}

// failures are the objects of a lookup that say of this capture or void itself that it
// failed.
func failures(op Operation, objects []provider.Object) []provider.Object {
	return slices.DeleteFunc(oursOperation(op, objects), func(o provider.Object) bool {
		return operationKind(o) != op.Kind || o.Outcome != provider.Failed || o.Child.Charge != nil
	})
}
