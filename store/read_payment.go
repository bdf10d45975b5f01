package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ProviderObject is a provider's own view of one of its charges.
type ProviderObject struct {
	Provider     string
	ObjectID     string
	PaymentID    *uuid.UUID
	Reference    string
	OperationKey string
	Status       string // the provider's word; hostile text
	Outcome      string // our reading of it; empty when the word is not on the adapter's list
	Amount       int64  // minor units as the provider states them
	Currency     string
	Source       string // answer, lookup, webhook, sync
	FirstSeenAt  time.Time
	SeenAt       time.Time
	Raw          []byte // redacted JSON, may be nil
}

// Dossier is everything known about one payment, read in one snapshot so that the
// verdict and the evidence below it never disagree.
type Dossier struct {
	Payment  Payment
	Attempts []Attempt        // of the charge, oldest first
	Events   []TimelineEvent  // oldest first
	Webhooks []InboxEvent     // oldest first; without raw bodies
	Objects  []ProviderObject // first seen first
	Wallet   *Wallet          // nil without a wallet
	Entries  []WalletEntry    // the payment's effects on wallets
	// What was done to the charge, oldest first, the attempts of each by its id, what is
	// left to refund, and what the bank took back or may.
	Operations        []Operation
	OperationAttempts map[uuid.UUID][]Attempt
	Refundable        Refundable
	Disputes          []Dispute
	Names             map[string]string
}

// Dossier reads a payment with all its evidence. ErrNotFound.
func (s *Store) Dossier(ctx context.Context, id uuid.UUID) (Dossier, error) {
	var d Dossier
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return d.read(ctx, tx, id)
	})
	if err != nil {
		return Dossier{}, fmt.Errorf("dossier of payment %s: %w", id, err)
	}
	return d, nil
}

func (d *Dossier) read(ctx context.Context, tx pgx.Tx, id uuid.UUID) (err error) {
	rows, err := tx.Query(ctx, "SELECT "+paymentColumns+" FROM payments WHERE id = $1", id)
	if err != nil {
		return err
	}
	if d.Payment, err = pgx.CollectExactlyOneRow(rows, rowToPayment); err != nil {
		return notFound(err)
	}
	if err = d.readOperations(ctx, tx, id); err != nil {
		return err
	}
	if d.Events, err = timelineOf(ctx, tx, id); err != nil {
		return err
	}
	if d.Webhooks, err = webhooksOf(ctx, tx, id); err != nil {
		return err
	}
	if d.Objects, err = objectsOf(ctx, tx, id); err != nil {
		return err
	}
	if d.Entries, err = entriesOf(ctx, tx, id); err != nil {
		return err
	}
	if d.Payment.WalletID != nil {
		if d.Wallet, err = walletOf(ctx, tx, *d.Payment.WalletID); err != nil {
			return err
		}
	}
	actors := make([]string, 0, len(d.Events)+len(d.Operations))
	for _, e := range d.Events {
		actors = append(actors, e.Actor)
	}
	for _, o := range d.Operations {
		actors = append(actors, o.RequestedBy)
	}
	d.Names, err = actorNames(ctx, tx, actors)
	return err
}

// readOperations reads what was sent for the payment, and sorts it.
func (d *Dossier) readOperations(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	all, err := attemptsOf(ctx, tx, id)
	if err != nil {
		return err
	}
	if d.Operations, err = operationsOf(ctx, tx, id, ""); err != nil {
		return err
	}
	names := map[string]uuid.UUID{}
	for _, o := range d.Operations {
		names[o.AttemptName()] = o.ID
	}
	d.OperationAttempts = map[uuid.UUID][]Attempt{}
	for _, a := range all {
		if of, ok := names[a.Operation]; ok {
			d.OperationAttempts[of] = append(d.OperationAttempts[of], a)
		} else {
			d.Attempts = append(d.Attempts, a)
		}
	}
	if d.Refundable, err = refundable(ctx, tx, d.Payment, d.Payment.ProviderPaymentID); err != nil {
		return err
	}
	d.Disputes, err = disputesOf(ctx, tx, id)
	return err
}

func attemptsOf(ctx context.Context, tx pgx.Tx, id uuid.UUID) ([]Attempt, error) {
	rows, err := tx.Query(ctx, `SELECT id, payment_id, operation, seq, operation_key, request, worker,
		marked_at, first_sent_at, replay_until, deadline, wire_sends, http_status, content_type, server,
		provider_request_id, final_url, response_body, coalesce(outcome, ''), error_class, breaker_verdict,
		first_byte_sent_at, first_byte_at, finished_at
		FROM attempts WHERE payment_id = $1 ORDER BY marked_at, seq`, id)
	if err != nil {
		return nil, fmt.Errorf("attempts: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Attempt, err error) {
		err = row.Scan(&a.ID, &a.PaymentID, &a.Operation, &a.Seq, &a.OperationKey, &a.Request, &a.Worker,
			&a.MarkedAt, &a.FirstSentAt, &a.ReplayUntil, &a.Deadline, &a.WireSends, &a.HTTPStatus, &a.ContentType,
			&a.Server, &a.ProviderRequestID, &a.FinalURL, &a.ResponseBody, &a.Outcome, &a.ErrorClass,
			&a.BreakerVerdict, &a.FirstByteSentAt, &a.FirstByteAt, &a.FinishedAt)
		return a, err
	})
}

func timelineOf(ctx context.Context, tx pgx.Tx, id uuid.UUID) ([]TimelineEvent, error) {
	rows, err := tx.Query(ctx, `SELECT id, payment_id, at, kind, source, actor, from_status, to_status,
		reason, attempt_id, evidence FROM payment_events WHERE payment_id = $1 ORDER BY id`, id)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	return pgx.CollectRows(rows, scanTimeline)
}

func scanTimeline(row pgx.CollectableRow) (e TimelineEvent, err error) {
	err = row.Scan(&e.ID, &e.PaymentID, &e.At, &e.Kind, &e.Source, &e.Actor, &e.FromStatus, &e.ToStatus,
		&e.Reason, &e.AttemptID, &e.Evidence)
	return e, err
}

func objectsOf(ctx context.Context, tx pgx.Tx, id uuid.UUID) ([]ProviderObject, error) {
	rows, err := tx.Query(ctx, `SELECT provider, object_id, payment_id, reference, operation_key, status,
		outcome, amount, currency, source, first_seen_at, seen_at, raw
		FROM provider_objects WHERE payment_id = $1 ORDER BY first_seen_at, object_id`, id)
	if err != nil {
		return nil, fmt.Errorf("provider objects: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o ProviderObject, err error) {
		err = row.Scan(&o.Provider, &o.ObjectID, &o.PaymentID, &o.Reference, &o.OperationKey, &o.Status,
			&o.Outcome, &o.Amount, &o.Currency, &o.Source, &o.FirstSeenAt, &o.SeenAt, &o.Raw)
		return o, err
	})
}

const entryColumns = `id, wallet_id, operation_id, amount, balance_after, kind, payment_id, note, actor, created_at`

func scanEntry(row pgx.CollectableRow) (WalletEntry, error) { return readEntry(row) }

func entriesOf(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID) ([]WalletEntry, error) {
	// An entry of a payment is on the payment's own wallet, whose index bounds the search.
	rows, err := tx.Query(ctx, `SELECT `+entryColumns+` FROM wallet_entries
		WHERE payment_id = $1 AND wallet_id = (SELECT wallet_id FROM payments WHERE id = $1) ORDER BY id`, paymentID)
	if err != nil {
		return nil, fmt.Errorf("wallet entries: %w", err)
	}
	return pgx.CollectRows(rows, scanEntry)
}

func walletOf(ctx context.Context, tx pgx.Tx, id uuid.UUID) (*Wallet, error) {
	w, err := readWallet(tx.QueryRow(ctx, `SELECT `+walletColumns+` FROM wallets WHERE id = $1`, id))
	if err != nil {
		return nil, fmt.Errorf("wallet: %w", err)
	}
	return &w, nil
}
