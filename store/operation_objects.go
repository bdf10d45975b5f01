package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// operationFinding is a set of observations about objects of one operation.
type operationFinding struct {
	on           Evidence
	observations []observation
	reason       string
	message      string
	change       operationChange
}

// settleOperation applies what a provider's objects say to an operation, held locked:
// merged and judged as a payment's objects are, see settle.
func (s *Store) settleOperation(ctx context.Context, tx pgx.Tx, pay Payment, op Operation, f operationFinding) (Operation, error) {
	changed, foreign, err := s.observeOperation(ctx, tx, op, f.observations)
	if err != nil {
		return Operation{}, err
	}
	objects, err := objectsOfOperation(ctx, tx, op)
	if err != nil {
		return Operation{}, err
	}
	j := judge(objects, op.ProviderObjectID)
	c := f.change
	c.on, c.to, c.proof = f.on, j.to, j.to == Succeeded
	c.reason, c.message = finding{observations: f.observations, reason: f.reason, message: f.message}.wording(j, Payment{Status: op.Status})
	if changed {
		c.add, c.drop = append(slices.Clone(c.add), j.reviews...), append(slices.Clone(c.drop), objectReviews...)
	}
	if len(foreign) > 0 {
		c.add = append(slices.Clone(c.add), ReviewContradiction)
		c.detail = with(c.detail, "object_of_another_operation", foreign)
		if c.to == "" && op.Status == Pending {
			c.to, c.reason = Unknown, ReviewContradiction
		}
	}
	if j.own != "" && j.own != op.ProviderObjectID {
		c.objectID = j.own
	}
	return s.applyOperation(ctx, tx, pay, op, c)
}

// observeOperation merges observations into operation_objects, see observe.
func (s *Store) observeOperation(ctx context.Context, tx pgx.Tx, op Operation, obs []observation) (changed bool, foreign []string, err error) {
	obs = storable(obs)
	slices.SortStableFunc(obs, func(a, b observation) int { return strings.Compare(a.ID, b.ID) })
	for _, n := range obs {
		if n.Outcome == provider.RequiresAction {
			n.Outcome = "" // no customer can act on an operation: not on our list
		}
		o, owner, err := s.lockOperationObject(ctx, tx, op, n)
		if err != nil {
			return false, nil, err
		}
		if owner != op.ID {
			foreign = append(foreign, n.ID)
			continue
		}
		merged, diff := o.merge(n, op.Money())
		changed = changed || diff || o.outcomeAt.IsZero()
		if err := s.saveOperationObject(ctx, tx, op.Kind, merged); err != nil {
			return false, nil, err
		}
	}
	return changed, foreign, nil
}

// lockOperationObject returns the stored object under its row lock and the operation it
// belongs to; a blank one after inserting a placeholder, see lockObject.
func (s *Store) lockOperationObject(ctx context.Context, tx pgx.Tx, op Operation, n observation) (o object, owner uuid.UUID, err error) {
	now := s.Now()
	tag, err := tx.Exec(ctx, `
		INSERT INTO operation_objects (provider, kind, object_id, operation_id, status, outcome, amount, currency, source, first_seen_at, seen_at)
		VALUES ($1, $2, $3, $4, $5, '', 0, '', $6, $7, $7)
		ON CONFLICT (provider, kind, object_id) DO NOTHING`, op.Provider, op.Kind, n.ID, op.ID, n.Status, n.source, now)
	if err != nil {
		return object{}, uuid.Nil, wrap(err, "insert operation object")
	}
	if tag.RowsAffected() == 1 {
		return object{provider: op.Provider, id: n.ID}, op.ID, nil
	}
	err = tx.QueryRow(ctx, `SELECT operation_id FROM operation_objects WHERE provider = $1 AND kind = $2 AND object_id = $3 FOR UPDATE`,
		op.Provider, op.Kind, n.ID).Scan(&owner)
	if err != nil || owner != op.ID {
		return object{}, owner, wrap(err, "lock operation object")
	}
	o, err = scanOperationObject(tx.QueryRow(ctx, `SELECT `+operationObjectColumns+` FROM operation_objects
		WHERE provider = $1 AND kind = $2 AND object_id = $3`, op.Provider, op.Kind, n.ID))
	return o, owner, wrap(err, "read operation object")
}

const operationObjectColumns = `provider, object_id, reference, operation_key, status, outcome, amount, currency, source,
	outcome_at, status_at, succeeded_at, failed_at, equal_at, differs_at, made_at, raw`

func scanOperationObject(row pgx.Row) (o object, err error) {
	var outcome string
	var times [7]*time.Time
	err = row.Scan(&o.provider, &o.id, &o.reference, &o.key, &o.word, &outcome, &o.money.Amount, &o.money.Currency, &o.source,
		&times[0], &times[1], &times[2], &times[3], &times[4], &times[5], &times[6], &o.raw)
	o.outcome = provider.Outcome(outcome)
	for i, to := range []*time.Time{&o.outcomeAt, &o.wordAt, &o.succeededAt, &o.failedAt, &o.equalAt, &o.differsAt, &o.madeAt} {
		if times[i] != nil {
			*to = times[i].UTC()
		}
	}
	return o, err
}

func (s *Store) saveOperationObject(ctx context.Context, tx pgx.Tx, kind provider.OperationKind, o object) error {
	_, err := tx.Exec(ctx, `
		UPDATE operation_objects SET reference = $4, operation_key = $5, status = $6, outcome = $7, amount = $8, currency = $9, source = $10,
			outcome_at = $11, status_at = $12, succeeded_at = $13, failed_at = $14, equal_at = $15, differs_at = $16, made_at = $17, raw = $18, seen_at = $19
		WHERE provider = $1 AND kind = $2 AND object_id = $3`,
		o.provider, kind, o.id, o.reference, o.key, o.word, string(o.outcome), o.money.Amount, o.money.Currency, o.source,
		orNull(o.outcomeAt), orNull(o.wordAt), orNull(o.succeededAt), orNull(o.failedAt), orNull(o.equalAt), orNull(o.differsAt),
		orNull(o.madeAt), o.raw, s.Now())
	return wrap(err, "save operation object")
}

func objectsOfOperation(ctx context.Context, tx pgx.Tx, op Operation) ([]object, error) {
	rows, err := tx.Query(ctx, `SELECT `+operationObjectColumns+` FROM operation_objects WHERE operation_id = $1 ORDER BY object_id`, op.ID)
	if err != nil {
		return nil, wrap(err, "read operation objects")
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (object, error) { return scanOperationObject(r) })
	return list, wrap(err, "read operation objects")
}
