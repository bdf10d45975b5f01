package store

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// Providers keep no object for a capture or void: both show in the charge. So every
// source of the charge's state, the answer to either of them among them, comes through
// settle, and what became of a capture or void is judged from the charge's object. The
// order of what is said does not matter.

// Reasons of a void that came too late, and of a capture of what was let go.
const (
	reasonCaptured = "captured"
	reasonReleased = "released"
)

// answering is the capture or void whose own answer or lookup brought the observations,
// and what that wants of it; the zero value: they came another way.
type answering struct {
	id     uuid.UUID
	change operationChange
}

// wanted is the money an observation of a charge has to be about. While the charge is
// open that is what was asked for. Once it took money, it is what its capture asked for;
// with no capture under way, that of a failed one that was made after all, or all of it.
func wanted(p Payment, actions []Operation, n observation) provider.Money {
	if !p.Manual() || n.Outcome != provider.Succeeded {
		return p.Money()
	}
	if i := slices.IndexFunc(actions, liveCapture); i >= 0 {
		return actions[i].Money()
	}
	for _, op := range actions {
		if op.Kind == provider.OpCapture && op.Money() == n.Money && op.ProviderPaymentID == n.ID {
			return op.Money()
		}
	}
	return p.Money()
}

func liveCapture(op Operation) bool { return op.Kind == provider.OpCapture && op.Status != Failed }

// noteAuthorised keeps what the provider says it holds, and until when; of several
// figures the highest, whichever came first.
func (s *Store) noteAuthorised(ctx context.Context, tx pgx.Tx, p Payment, n observation) error {
	if !p.Manual() || n.Totals == nil || n.Totals.Authorised <= 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE payments SET authorised_amount = greatest(authorised_amount, $2), authorised_until = greatest(authorised_until, $3)
		WHERE id = $1`, p.ID, n.Totals.Authorised, orNull(n.Totals.AuthorisedUntil.UTC()))
	return wrap(err, "note authorisation")
}

// judgeAction is what the charge's object says became of a capture or void; empty while
// it is open.
func judgeAction(kind provider.OperationKind, o object) (to Status, reason string) {
	switch {
	case kind == provider.OpVoid && !o.failedAt.IsZero():
		return Succeeded, ""
	case kind == provider.OpVoid && o.took():
		return Failed, reasonCaptured
	case kind == provider.OpVoid:
		return "", ""
	case o.took() && o.matches() && !o.differs():
		return Succeeded, ""
	case o.took():
		return Unknown, ReviewAmountMismatch
	case !o.failedAt.IsZero():
		return Failed, reasonReleased
	}
	return "", ""
}

// settleActions moves the captures and voids of a payment, held locked, as its objects
// say. Those that fail go first: the money one of them did not take may be another's.
// It returns the payment as the database's own rules left it.
func (s *Store) settleActions(ctx context.Context, tx pgx.Tx, p Payment, actions []Operation, objects []object, f finding) (Payment, error) {
	type move struct {
		op Operation
		c  operationChange
	}
	var moves []move
	actions = slices.Clone(actions)
	for i, op := range actions {
		c, own := f.answers.change, op.ID == f.answers.id
		if !own {
			c = operationChange{change: change{kind: op.event(f.change.source), source: f.change.source, by: f.change.by, quiet: true}}
		}
		at := slices.IndexFunc(objects, func(o object) bool { return o.id == op.ProviderPaymentID })
		if at >= 0 && (op.Status != Failed || revived(op, f.observations, actions)) {
			var err error
			if c, err = s.shown(ctx, tx, op, c, f.on, objects[at]); err != nil {
				return Payment{}, err
			}
			if c.to != "" {
				actions[i].Status = c.to // of those that failed, one at most was made after all
			}
		}
		if own || c.to != "" && c.to != op.Status {
			moves = append(moves, move{op, c})
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int { return boolCmp(a.c.to == Failed, b.c.to == Failed) })
	for _, m := range moves {
		if _, err := s.applyOperation(ctx, tx, p, m.op, m.c); err != nil {
			return Payment{}, err
		}
	}
	return lockPayment(ctx, tx, p.ID)
}

// shown adds to the change of a capture or void what the charge's object says became of
// it, if that is decided. That the charge took a capture which failed by the provider's own
// word is for a person.
func (s *Store) shown(ctx context.Context, tx pgx.Tx, op Operation, c operationChange, on Evidence, charge object) (operationChange, error) {
	to, reason := judgeAction(op.Kind, charge)
	if to == "" {
		return c, nil
	}
	c.to, c.reason, c.on, c.proof = to, reason, on, to == Succeeded
	c.add, c.drop = slices.Clone(c.add), append(slices.Clone(c.drop), ReviewAmountMismatch, ReviewUnmapped)
	if to == Unknown {
		c.add = append(c.add, ReviewAmountMismatch)
	}
	if op.Kind != provider.OpCapture || op.Status != Failed || to == Failed {
		return c, nil
	}
	failed, err := failedItself(ctx, tx, op)
	if failed {
		c.add = append(c.add, ReviewContradiction)
	}
	return c, err
}

// revived reports whether a failed capture or void was made after all: the charge was let
// go, or took just what the capture had asked for, and no other one of its kind did it.
func revived(op Operation, seen []observation, actions []Operation) bool {
	if slices.ContainsFunc(actions, func(x Operation) bool { return x.Kind == op.Kind && x.Status != Failed }) {
		return false
	}
	return op.Kind == provider.OpVoid || slices.ContainsFunc(seen, func(n observation) bool {
		return n.Outcome == provider.Succeeded && n.ID == op.ProviderPaymentID && n.Money == op.Money()
	})
}

// actionOutcome moves a capture or void as the answer to it says. What the charge shows
// decides; an answer without one only while the charge does not say otherwise.
func (s *Store) actionOutcome(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, p FinishParams, c operationChange) (Operation, error) {
	o := p.Charged
	switch o.Outcome {
	case provider.Failed, provider.Processing:
		c.to, c.reason, c.message, c.on = Status(o.Outcome), o.Reason, o.Message, ByAnswer
	default: // succeeded is for the charge to show
		c.reason = o.Reason
		if op.Status == Pending {
			c.to, c.message, c.on = Unknown, o.Message, ByAnswer
		}
		if p.NoStatusAPI && !op.Status.Final() {
			c.add = append(c.add, ReviewNoStatusAPI)
		}
	}
	if op.Status.Final() && c.to != op.Status {
		c.to, c.detail = "", with(c.detail, "note", "already "+string(op.Status))
	}
	c.add = undecided(c.add, op.Status, o)
	var err error
	if c.objectID, err = s.ownObject(ctx, tx, op, o.Object); err != nil {
		return Operation{}, err
	}
	charge, said := chargeOf(o.Object, op)
	if !said {
		if o.Outcome == provider.Succeeded {
			c.add = append(c.add, ReviewUnmapped)
		}
		return s.applyOperation(ctx, tx, pay, op, c)
	}
	_, err = s.settle(ctx, tx, pay, finding{on: ByAnswer, observations: s.seen("answer", s.Now(), charge), answers: answering{op.ID, c},
		change: change{kind: op.event("answer"), source: "job", by: c.by, quiet: true, detail: map[string]any{"object": brief(charge)}}})
	if err != nil {
		return Operation{}, err
	}
	return s.LockOperation(ctx, tx, op.ID)
}

// ownObject is the id under which the provider keeps a capture or void itself, as the answer
// to it says; empty where it keeps none, or that is known. What is said later about it may
// name nothing else of ours.
func (s *Store) ownObject(ctx context.Context, tx pgx.Tx, op Operation, o *provider.Object) (string, error) {
	if o == nil || op.ProviderObjectID != "" || operationKind(*o) != op.Kind || o.ID == op.ProviderPaymentID || ident(o.ID) == "" {
		return "", nil
	}
	return freeOperationObject(ctx, tx, op, ident(o.ID))
}

// chargeOf returns the charge that an object about a capture or void shows. A word that is
// not on the adapter's list says nothing.
func chargeOf(o *provider.Object, op Operation) (provider.Object, bool) {
	if o == nil || o.Child.Charge == nil || o.Child.Charge.ID != op.ProviderPaymentID || o.Child.Charge.Outcome == "" {
		return provider.Object{}, false
	}
	return *o.Child.Charge, true
}

// actionFound applies what a lookup of a capture or void found.
func (s *Store) actionFound(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, l provider.LookedUp, c operationChange) (Operation, error) {
	var charges []provider.Object
	for _, o := range l.Objects {
		if charge, ok := chargeOf(&o, op); ok {
			charges = append(charges, charge)
		}
	}
	if len(charges) == 0 {
		return s.failAction(ctx, tx, pay, op, s.seen("lookup", s.Now(), failures(op, l.Objects)...), c)
	}
	_, err := s.settle(ctx, tx, pay, finding{on: ByLookup, observations: s.seen("lookup", s.Now(), charges...), answers: answering{op.ID, c},
		change: change{kind: op.event("lookup"), source: "job", by: c.by, quiet: true}})
	if err != nil {
		return Operation{}, err
	}
	return s.LockOperation(ctx, tx, op.ID)
}

// actionTitles are the alerts of captures and voids, by review reason.
var actionTitles = map[string]string{
	ReviewAmountMismatch: "The provider captured another amount than was asked for",
	ReviewContradiction:  "The provider contradicts what was known about a capture or void",
	ReviewUnmapped:       "The provider answered a capture or void with a status that is not on our list",
	ReviewAged:           "A capture or void has been without an answer for too long",
}

// resolveActions settles what is unknown or in review of a payment's captures and voids
// once a person has said what became of the payment: money that was taken was captured,
// and money that was not was let go.
func (s *Store) resolveActions(ctx context.Context, tx pgx.Tx, p Payment, r ResolveParams) (Payment, error) {
	actions, err := actionsOf(ctx, tx, p.ID)
	if err != nil {
		return Payment{}, err
	}
	for _, op := range actions {
		if op.Status != Unknown && len(op.NeedsReview) == 0 {
			continue
		}
		c := operationChange{change: change{on: ByOperator, reason: clean(r.Reason), drop: op.NeedsReview, kind: op.event("operator"), source: "operator",
			by: r.By, detail: map[string]any{"action": "resolve", "reason": r.Reason, "evidence": r.Evidence}}}
		if op.Status == Unknown || op.Status == Processing {
			c.to = Failed
			if (op.Kind == provider.OpCapture) == (p.Status == Succeeded) {
				c.to = Succeeded
			}
		}
		if _, err := s.applyOperation(ctx, tx, p, op, c); err != nil {
			return Payment{}, err
		}
	}
	return lockPayment(ctx, tx, p.ID)
}
