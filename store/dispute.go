package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// Dispute is a charge that a bank took back, or may.
type Dispute struct {
	ID        uuid.UUID
	Provider  string
	DisputeID string // the provider's
	PaymentID uuid.UUID
	ChargeID  string
	Amount    int64 // at risk, minor units; 0: the provider did not say
	Currency  string
	State     string // provider.DisputeOpened, DisputeWon, DisputeLost
	StateAt   time.Time
	Reason    string     // the provider's word; hostile text
	DueBy     *time.Time // when evidence has to be there
	OpenedAt  *time.Time // earliest mention by the provider's clock
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time

	amountAt, dueByAt *time.Time
}

const disputeColumns = `id, provider, dispute_id, payment_id, charge_id, amount, currency, state, state_at, reason,
	due_by, opened_at, version, created_at, updated_at, amount_at, due_by_at`

func scanDispute(row pgx.CollectableRow) (d Dispute, err error) {
	err = row.Scan(&d.ID, &d.Provider, &d.DisputeID, &d.PaymentID, &d.ChargeID, &d.Amount, &d.Currency, &d.State, &d.StateAt, &d.Reason,
		&d.DueBy, &d.OpenedAt, &d.Version, &d.CreatedAt, &d.UpdatedAt, &d.amountAt, &d.dueByAt)
	d.StateAt = d.StateAt.UTC()
	return d, err
}

// disputeRank breaks the tie of two states of one moment: an end outranks the opening,
// and what costs money outranks what does not.
var disputeRank = map[string]int{provider.DisputeOpened: 1, provider.DisputeWon: 2, provider.DisputeLost: 3}

// merge adds what an object says at a moment of the provider's clock. Every fact is the
// latest of its kind, so order and repetition do not matter.
func (d Dispute) merge(o provider.Object, at time.Time) Dispute {
	if at.After(d.StateAt) || at.Equal(d.StateAt) && disputeRank[o.Status] > disputeRank[d.State] {
		d.State, d.StateAt, d.Reason = o.Status, at, clean(o.Reason)
	}
	if newer(d.amountAt, at, o.Money.Amount > d.Amount) && o.Money.Amount > 0 {
		d.Amount, d.Currency, d.amountAt = o.Money.Amount, clean(o.Money.Currency), &at
	}
	if due := o.Child.DueBy.UTC().Truncate(time.Microsecond); !o.Child.DueBy.IsZero() && newer(d.dueByAt, at, d.DueBy != nil && due.After(*d.DueBy)) {
		d.DueBy, d.dueByAt = &due, &at
	}
	if d.OpenedAt == nil || at.Before(*d.OpenedAt) {
		d.OpenedAt = &at
	}
	if d.ChargeID == "" {
		d.ChargeID = o.Child.ChargeID
	}
	return d
}

// newer reports whether something seen at at replaces what was seen at was; wins decides
// between two of one moment.
func newer(was *time.Time, at time.Time, wins bool) bool {
	return was == nil || at.After(*was) || at.Equal(*was) && wins
}

// same compares what people see.
func (d Dispute) same(x Dispute) bool {
	equal := func(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }
	return d.State == x.State && d.Amount == x.Amount && d.Currency == x.Currency && d.Reason == x.Reason && equal(d.DueBy, x.DueBy)
}

// applyDispute merges what a provider says about a dispute. It moves no payment, no
// refund and no wallet: people are told, once per event that changed its state.
func (s *Store) applyDispute(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object, src childSource) (payment uuid.UUID, wait string, err error) {
	if disputeRank[o.Status] == 0 {
		return uuid.Nil, fmt.Sprintf("a dispute in a state that is not on our list: %q", clean(o.Status)), nil
	}
	paymentID, found, err := matchDispute(ctx, tx, providerName, o)
	if err != nil || !found {
		return uuid.Nil, waitNoCharge, err
	}
	pay, err := lockPayment(ctx, tx, paymentID)
	if err != nil {
		return uuid.Nil, "", err
	}
	before, err := lockDispute(ctx, tx, providerName, o.ID)
	if err != nil {
		return uuid.Nil, "", err
	}
	at := src.at.UTC().Truncate(time.Microsecond)
	after := before.merge(o, at)
	if before.ID == uuid.Nil {
		after.Provider, after.DisputeID, after.PaymentID = providerName, o.ID, pay.ID
	}
	if err := s.saveDispute(ctx, tx, &after, before); err != nil {
		return uuid.Nil, "", err
	}
	return pay.ID, "", s.disputeEffects(ctx, tx, pay, before, after, o, src)
}

func matchDispute(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object) (id uuid.UUID, found bool, err error) {
	err = tx.QueryRow(ctx, `SELECT payment_id FROM disputes WHERE provider = $1 AND dispute_id = $2`, providerName, o.ID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return matchCharge(ctx, tx, providerName, o.Child)
	}
	return id, err == nil, wrap(err, "match dispute")
}

// lockDispute returns a zero Dispute when there is none yet; the payment's lock makes
// two first events take turns.
func lockDispute(ctx context.Context, tx pgx.Tx, providerName, id string) (Dispute, error) {
	rows, err := tx.Query(ctx, `SELECT `+disputeColumns+` FROM disputes WHERE provider = $1 AND dispute_id = $2 FOR UPDATE`, providerName, id)
	if err != nil {
		return Dispute{}, wrap(err, "lock dispute")
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDispute)
	if errors.Is(err, pgx.ErrNoRows) {
		return Dispute{}, nil
	}
	return d, wrap(err, "lock dispute")
}

func (s *Store) saveDispute(ctx context.Context, tx pgx.Tx, d *Dispute, before Dispute) (err error) {
	now := s.Now()
	if d.ID == uuid.Nil {
		if d.ID, err = uuid.NewV7(); err != nil {
			return err
		}
		d.CreatedAt = now
	}
	if !d.same(before) {
		d.Version, d.UpdatedAt = before.Version+1, now
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO disputes (`+disputeColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
		ON CONFLICT ON CONSTRAINT disputes_provider_id DO UPDATE SET charge_id = excluded.charge_id, amount = excluded.amount,
			currency = excluded.currency, state = excluded.state, state_at = excluded.state_at, reason = excluded.reason, due_by = excluded.due_by,
			opened_at = excluded.opened_at, version = excluded.version, updated_at = excluded.updated_at,
			amount_at = excluded.amount_at, due_by_at = excluded.due_by_at`,
		d.ID, d.Provider, d.DisputeID, d.PaymentID, d.ChargeID, d.Amount, d.Currency, d.State, d.StateAt, d.Reason,
		d.DueBy, d.OpenedAt, d.Version, d.CreatedAt, d.UpdatedAt, d.amountAt, d.dueByAt)
	return wrap(err, "save dispute")
}

// disputeEffects are keyed by the event: the timeline has one entry per event, and an
// alert only for one that changed the state.
func (s *Store) disputeEffects(ctx context.Context, tx pgx.Tx, pay Payment, before, d Dispute, o provider.Object, src childSource) error {
	if src.key == "" && d.same(before) {
		return nil
	}
	detail := with(with(src.detail, "object", brief(o)), "dispute_id", d.DisputeID)
	detail = with(with(detail, "dispute_state", d.State), "amount", d.Amount)
	detail = with(detail, "currency", d.Currency)
	if d.DueBy != nil {
		detail = with(detail, "due_by", d.DueBy.Format(time.RFC3339))
	}
	by := System(src.name)
	var b pgx.Batch
	queueEvent(&b, TimelineEvent{PaymentID: pay.ID, At: s.Now(), Kind: "dispute_" + o.Status, Source: src.name, Actor: by.String(),
		FromStatus: pay.Status, ToStatus: pay.Status, Reason: o.Reason, Evidence: detail})
	if d.State != before.State {
		queueAudit(&b, s.Now(), by, "dispute.state", "payment:"+pay.ID.String(), clean(o.Reason),
			map[string]any{"state": before.State}, map[string]any{"dispute_id": d.DisputeID, "state": d.State, "amount": d.Amount, "currency": d.Currency})
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return wrap(err, "record dispute")
	}
	if err := Notify(ctx, tx, TopicPayments); err != nil || d.State == before.State {
		return err
	}
	return s.alertDispute(ctx, tx, pay, d, src)
}

func (s *Store) alertDispute(ctx context.Context, tx pgx.Tx, pay Payment, d Dispute, src childSource) error {
	key := src.key
	if key == "" {
		key = fmt.Sprintf("%s:%s:%d", d.DisputeID, d.State, d.StateAt.UnixMicro())
	}
	severity, due := "warning", ""
	switch d.State {
	case provider.DisputeLost:
		severity = "critical"
	case provider.DisputeWon:
		severity = "info"
	}
	if d.DueBy != nil && d.State == provider.DisputeOpened {
		due = " Evidence is due by " + d.DueBy.Format("2006-01-02 15:04 MST") + "."
	}
	_, err := s.RaiseAlert(ctx, tx, Alert{
		Kind: "dispute_" + d.State, Severity: severity, Provider: d.Provider, PaymentID: &pay.ID,
		Title:     "A dispute was " + d.State,
		Detail:    fmt.Sprintf("Order %s, dispute %s: %d %s (minor units).%s", pay.OrderRef, d.DisputeID, d.Amount, d.Currency, due),
		DedupeKey: "dispute:" + d.Provider + ":" + key,
	})
	return err
}

// DisputesOfPayment lists a payment's disputes, oldest first.
func (s *Store) DisputesOfPayment(ctx context.Context, paymentID uuid.UUID) ([]Dispute, error) {
	return disputesOf(ctx, s.pool, paymentID)
}

func disputesOf(ctx context.Context, q reader, paymentID uuid.UUID) ([]Dispute, error) {
	rows, err := q.Query(ctx, `SELECT `+disputeColumns+` FROM disputes WHERE payment_id = $1 ORDER BY id`, paymentID)
	if err != nil {
		return nil, wrap(err, "read disputes")
	}
	list, err := pgx.CollectRows(rows, scanDispute)
	return list, wrap(err, "read disputes")
}

// OpenDisputes lists disputes that are open, the one due first on top; those without a
// deadline come last. more: there are others beyond limit.
func (s *Store) OpenDisputes(ctx context.Context, limit int) (list []Dispute, more bool, err error) {
	rows, err := s.pool.Query(ctx, `SELECT `+disputeColumns+` FROM disputes WHERE state = 'opened'
		ORDER BY due_by NULLS LAST, id LIMIT $1`, limit+1)
	if err != nil {
		return nil, false, wrap(err, "read open disputes")
	}
	if list, err = pgx.CollectRows(rows, scanDispute); err != nil {
		return nil, false, wrap(err, "read open disputes")
	}
	if more = len(list) > limit; more {
		list = list[:limit]
	}
	return list, more, nil
}
