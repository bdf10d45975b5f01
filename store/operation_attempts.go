package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// BeginOperationParams of BeginOperation.
type BeginOperationParams struct {
	OperationID uuid.UUID
	Body        []byte        // frozen request bytes of a first attempt; else must hash the same (nil: the stored ones)
	KeyLife     time.Duration // provider's; 0: it keeps no keys
	Deadline    time.Duration // from now; after it an attempt without outcome belongs to nobody
	Worker      string
	Replay      bool // allowed from unknown while the key lives, and only from there: see ReplayOperation
	AskAfter    bool // past the key's life there is still something to ask
}

// BeginOperation marks "maybe sent" durably, before the first byte leaves, as
// BeginAttempt does for a charge. Only a pending operation may go: what may have been
// sent once goes out again as a replay at most. Errors: ErrSettled, ErrInFlight,
// ErrMaybeSent, ErrKeyExpired, ErrBytesChanged, ErrPaused, ErrNotFound; with ErrMaybeSent
// and ErrKeyExpired what it found out is committed.
func (s *Store) BeginOperation(ctx context.Context, p BeginOperationParams) (Attempt, Operation, error) {
	var a Attempt
	var op Operation
	var refusal error
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, refusal = Attempt{}, nil
		pay, o, err := lockOperation(ctx, tx, p.OperationID)
		if err != nil {
			return err
		}
		pr, err := attemptsBefore(ctx, tx, o.PaymentID, o.AttemptName())
		if err != nil {
			return err
		}
		if op, refusal, err = s.mayBeginOperation(ctx, tx, pay, o, pr, p); err != nil || refusal != nil {
			return err
		}
		a, op, err = s.markOperation(ctx, tx, pay, op, pr, p)
		return err
	})
	if err != nil {
		return Attempt{}, Operation{}, err
	}
	return a, op, refusal
}

func (s *Store) mayBeginOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, pr prior, p BeginOperationParams) (after Operation, refusal, err error) {
	if pr.open != nil {
		if s.Now().Before(pr.open.Deadline) {
			return op, ErrInFlight, nil
		}
		op, err = s.abandonOperation(ctx, tx, pay, op, pr.open.ID, System("operation"), "job")
		return op, ErrMaybeSent, err
	}
	switch {
	case op.Status == Unknown && p.Replay:
		if op, refusal, err = s.mayReplayOperation(ctx, tx, pay, op, pr, p); err != nil || refusal != nil {
			return op, refusal, err
		}
	case op.Status != Pending || p.Replay:
		return op, ErrSettled, nil
	}
	paused, err := chargesPaused(ctx, tx, op.Provider)
	if err != nil {
		return op, nil, err
	}
	switch {
	case paused: // the credentials are the same
		return op, ErrPaused, nil
	case !sameBytes(pr, p.Body):
		return op, ErrBytesChanged, nil
	}
	return op, nil, nil
}

// markOperation inserts the attempt: from its commit on it counts as maybe sent.
func (s *Store) markOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, pr prior, p BeginOperationParams) (Attempt, Operation, error) {
	a, err := s.insertAttempt(ctx, tx, pr, Attempt{PaymentID: op.PaymentID, Operation: op.AttemptName(), OperationKey: op.OperationKey,
		Request: p.Body, Worker: p.Worker}, p.KeyLife, p.Deadline)
	if err != nil {
		return Attempt{}, Operation{}, err
	}
	op, err = s.applyOperation(ctx, tx, pay, op, operationChange{change: change{
		next: next{at: a.Deadline, why: whyInFlight},
		kind: op.event(attemptKind(p.Replay)), source: "job", by: System("operation"), attemptID: &a.ID,
		detail: map[string]any{"seq": a.Seq, "operation_key": a.OperationKey, "worker": a.Worker},
	}, set: func(q *Operation) { q.AbsentLookups = 0 }})
	return a, op, err
}

// abandonOperation closes an attempt that passed its deadline without an outcome: only
// asking can tell what became of it.
func (s *Store) abandonOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, attemptID uuid.UUID, by Actor, source string) (Operation, error) {
	if err := s.closeAbandoned(ctx, tx, attemptID); err != nil {
		return Operation{}, err
	}
	to := op.Status
	if to == Pending {
		to = Unknown
	}
	op, err := s.applyOperation(ctx, tx, pay, op, operationChange{change: change{
		to: to, on: ByDeadline, reason: noOutcome, next: next{at: s.Now(), why: whyReconcile},
		kind: op.event("attempt_finished"), source: source, by: by, attemptID: &attemptID,
		detail: map[string]any{"outcome": "unknown", "error_class": noOutcome},
	}})
	if err != nil || op.Status.Final() {
		return op, err
	}
	return op, s.enqueuer().OperationLookup(ctx, tx, op.ID, op.Provider, time.Time{})
}

// FinishOperation writes the attempt's outcome and moves the operation, in tx, as
// FinishAttempt does for a charge. An outcome that comes after the attempt was given up
// still counts; one for an attempt that has an outcome changes nothing.
func (s *Store) FinishOperation(ctx context.Context, tx pgx.Tx, p FinishParams) (Operation, error) {
	pay, op, open, err := s.lockOperationAttempt(ctx, tx, p.AttemptID)
	if err != nil || !open {
		return op, err
	}
	if err := s.closeAttempt(ctx, tx, p); err != nil {
		return Operation{}, err
	}
	if op, err = s.operationOutcome(ctx, tx, pay, op, p); err != nil {
		return Operation{}, err
	}
	if err := s.alertAnswer(ctx, tx, pay, p); err != nil {
		return Operation{}, err
	}
	if op.Status.Final() || op.Status == Pending || (p.NoStatusAPI && op.Status == Unknown) {
		return op, nil
	}
	return op, s.enqueuer().OperationLookup(ctx, tx, op.ID, op.Provider, p.ReconcileAt)
}

// lockOperationAttempt locks payment, operation and attempt. open: the attempt still
// waits for its outcome, or was given up without one.
func (s *Store) lockOperationAttempt(ctx context.Context, tx pgx.Tx, attemptID uuid.UUID) (pay Payment, op Operation, open bool, err error) {
	var id uuid.UUID
	err = tx.QueryRow(ctx, `SELECT o.id FROM attempts a JOIN operations o ON o.payment_id = a.payment_id AND a.operation = o.kind || ':' || o.seq
		WHERE a.id = $1`, attemptID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Payment{}, Operation{}, false, fmt.Errorf("%w: attempt %s of an operation", ErrNotFound, attemptID)
	}
	if err != nil {
		return Payment{}, Operation{}, false, wrap(err, "read attempt")
	}
	if pay, op, err = lockOperation(ctx, tx, id); err != nil {
		return Payment{}, Operation{}, false, err
	}
	open, err = lockOpenAttempt(ctx, tx, attemptID)
	return pay, op, open, err
}

// operationOutcome moves the operation as the answer says.
func (s *Store) operationOutcome(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, p FinishParams) (Operation, error) {
	c := operationChange{change: s.answerChange(pay, p)}
	c.kind, c.by = op.event("attempt_finished"), System("operation")
	o := p.Charged
	switch {
	case o.Outcome == provider.NotSent, o.Outcome == provider.NotExecuted: // the status stays, and nothing returns to pending
		c.change = s.notExecutedChange(p, c.change)
		return s.applyOperation(ctx, tx, pay, op, c)
	case !op.refund():
		return s.actionOutcome(ctx, tx, pay, op, p, c)
	}
	switch o.Outcome {
	case provider.Processing, provider.Succeeded, provider.Failed:
		if o.Object != nil && ident(o.Object.ID) != "" {
			return s.settleOperation(ctx, tx, pay, op, operationFinding{on: ByAnswer, observations: s.seen("answer", s.Now(), *o.Object),
				reason: o.Reason, message: o.Message, change: c})
		}
		return s.bareOperationAnswer(ctx, tx, pay, op, p, c)
	case provider.RequiresAction: // no customer can act on an operation
		c.add = append(c.add, ReviewUnmapped)
	}
	return s.unknownOperation(ctx, tx, pay, op, p, c)
}

// bareOperationAnswer is a decided answer without an object: it decides only while no
// object says otherwise, and a success without an object is no success.
func (s *Store) bareOperationAnswer(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, p FinishParams, c operationChange) (Operation, error) {
	objects, err := objectsOfOperation(ctx, tx, op)
	if err != nil {
		return Operation{}, err
	}
	j := judge(objects, op.ProviderObjectID)
	o := p.Charged
	switch {
	case o.Outcome == provider.Succeeded:
		c.add = append(c.add, ReviewUnmapped)
		return s.unknownOperation(ctx, tx, pay, op, p, c)
	case o.Outcome == provider.Failed && j.to != "" && j.to != Failed:
		c.add = append(c.add, ReviewContradiction)
		c.detail = with(c.detail, "objects_say", j.to)
	case op.Status.Final() && op.Status != Status(o.Outcome):
		c.detail = with(c.detail, "note", "already "+string(op.Status))
	default:
		c.to, c.reason, c.message = Status(o.Outcome), o.Reason, o.Message
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}

// unknownOperation is an answer that decides nothing: see unknown.
func (s *Store) unknownOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, p FinishParams, c operationChange) (Operation, error) {
	o := p.Charged
	c.reason = o.Reason
	if op.Status == Pending {
		c.to, c.message = Unknown, o.Message
	}
	if p.NoStatusAPI && !op.Status.Final() {
		c.add = append(c.add, ReviewNoStatusAPI)
	}
	c.add = undecided(c.add, op.Status, o)
	if o.Object != nil && ident(o.Object.ID) != "" && slices.Contains(c.add, ReviewAmountMismatch) && o.Object.Outcome == provider.Succeeded {
		return s.settleOperation(ctx, tx, pay, op, operationFinding{on: ByAnswer, observations: s.seen("answer", s.Now(), *o.Object),
			reason: o.Reason, message: o.Message, change: c})
	}
	if o.Object != nil && op.ProviderObjectID == "" {
		id, err := freeOperationObject(ctx, tx, op, ident(o.Object.ID))
		if err != nil {
			return Operation{}, err
		}
		c.objectID = id // a hint for the lookup at most
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}

// freeOperationObject returns id unless another operation rests on it.
func freeOperationObject(ctx context.Context, tx pgx.Tx, op Operation, id string) (string, error) {
	var taken bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM operations WHERE provider = $1 AND kind = $2 AND provider_object_id = $3
			UNION ALL SELECT 1 FROM operation_objects WHERE provider = $1 AND kind = $2 AND object_id = $3 AND operation_id <> $4)`,
		op.Provider, op.Kind, id, op.ID).Scan(&taken)
	if err != nil || taken {
		return "", wrap(err, "look for the object's operation")
	}
	return id, nil
}

// RejectOperation moves a pending operation to failed because it was refused before
// anything was sent. One that is not pending any more stays as it is.
func (s *Store) RejectOperation(ctx context.Context, tx pgx.Tx, id uuid.UUID, field, reason string) (Operation, error) {
	pay, op, err := lockOperation(ctx, tx, id)
	if err != nil {
		return Operation{}, err
	}
	pr, err := attemptsBefore(ctx, tx, op.PaymentID, op.AttemptName())
	if err != nil || op.Status != Pending || pr.open != nil {
		return op, err
	}
	return s.applyOperation(ctx, tx, pay, op, operationChange{change: change{
		to: Failed, on: ByRefusal, reason: "refused_before_send", message: field + ": " + reason,
		kind: op.event("refused"), source: "job", by: System("operation"), detail: map[string]any{"field": field, "reason": reason},
	}})
}

// NoteOperationWaiting records that an operation's job waits, see NoteWaiting.
func (s *Store) NoteOperationWaiting(ctx context.Context, id uuid.UUID, until time.Time, why, detail string) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		pay, op, err := lockOperation(ctx, tx, id)
		if err != nil || op.Status.Final() {
			return err
		}
		_, err = s.applyOperation(ctx, tx, pay, op, operationChange{change: change{
			next: next{at: until, why: clean(why)},
			kind: op.event("snoozed"), source: "job", by: System("jobs"), quiet: op.NextCheckWhy == why,
			detail: map[string]any{"why": why, "until": until.UTC(), "detail": detail},
		}})
		return err
	})
}
