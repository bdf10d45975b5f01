package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
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
// verdict and the evidence below it never disagree. Of a long story it holds one part.
type Dossier struct {
	Payment  Payment
	Attempts []Attempt        // of the charge, oldest first
	Objects  []ProviderObject // first seen first
	Charges  []TakenCharge    // those that took money, the payment's own first; nil without several objects
	Wallet   *Wallet          // nil without a wallet
	Entries  []WalletEntry    // the payment's effects on wallets
	// What was done to the charge, oldest first, the attempts of each by its id, what is
	// left to refund, and what the bank took back or may.
	Operations        []Operation
	OperationAttempts map[uuid.UUID][]Attempt
	Refundable        Refundable
	Disputes          []Dispute
	// Webhooks are the newest deliveries, oldest first and without raw bodies; there are
	// others when MoreWebhooks is set.
	Webhooks     []InboxEvent
	MoreWebhooks bool
	// Events and Received are the asked part of the timeline, oldest first. Earlier is
	// where the part before it ends; nil: there is none.
	Events    []TimelineEvent
	Received  []InboxEvent
	Earlier   *TimelineCursor
	Decisions []TimelineEvent // newest decisions of people, oldest first
	Notes     int             // how many notes people wrote
	Names     map[string]string
}

// Dossier reads a payment with its evidence and the newest part of its timeline.
// ErrNotFound.
func (s *Store) Dossier(ctx context.Context, id uuid.UUID) (Dossier, error) {
	return s.DossierAt(ctx, id, TimelineQuery{})
}

// DossierAt is Dossier with another part of the timeline. ErrNotFound.
func (s *Store) DossierAt(ctx context.Context, id uuid.UUID, q TimelineQuery) (Dossier, error) {
	var d Dossier
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		err := d.read(ctx, tx, id, q)
		if err == nil && d.Payment.Status == Succeeded && len(d.Objects) > 1 {
			d.Charges, err = takenCharges(ctx, tx, d.Payment)
		}
		return err
	})
	if err != nil {
		return Dossier{}, fmt.Errorf("dossier of payment %s: %w", id, err)
	}
	return d, nil
}

// Bounds of what a dossier holds of lists that can grow without end.
const (
	dossierAttempts  = 200
	dossierWebhooks  = 50
	dossierDecisions = 50
)

// read asks for everything at once: one round trip, however much there is.
func (d *Dossier) read(ctx context.Context, tx pgx.Tx, id uuid.UUID, q TimelineQuery) error {
	var b pgx.Batch
	var found []Payment
	var wallets []Wallet
	var attempts []Attempt
	queue(&b, &found, rowToPayment, "SELECT "+paymentColumns+" FROM payments WHERE id = $1", id)
	queue(&b, &attempts, scanAttempt, "SELECT * FROM (SELECT "+attemptColumns+` FROM attempts WHERE payment_id = $1
		ORDER BY marked_at DESC, seq DESC LIMIT $2) a ORDER BY marked_at, seq`, id, dossierAttempts)
	queue(&b, &d.Operations, rowToOperation, "SELECT "+operationColumns+" FROM operations WHERE payment_id = $1 ORDER BY created_at, id", id)
	queue(&b, &d.Disputes, scanDispute, "SELECT "+disputeColumns+" FROM disputes WHERE payment_id = $1 ORDER BY id", id)
	queue(&b, &d.Objects, scanSeenObject, objectsSQL, id)
	queue(&b, &d.Entries, scanEntry, entriesSQL, id)
	queue(&b, &wallets, rowToWallet, "SELECT "+walletColumns+" FROM wallets WHERE id = (SELECT wallet_id FROM payments WHERE id = $1)", id)
	queue(&b, &d.Webhooks, scanInbox, "SELECT "+inboxColumns+" FROM webhook_events WHERE payment_id = $1 ORDER BY id DESC LIMIT $2", id, dossierWebhooks+1)
	queue(&b, &d.Decisions, scanTimeline, "SELECT "+timelineColumns+` FROM payment_events WHERE payment_id = $1 AND actor LIKE 'user:%'
		AND source = 'operator' AND (from_status <> to_status OR evidence ? 'to') ORDER BY id DESC LIMIT $2`, id, dossierDecisions)
	d.queueTimeline(&b, id, q)
	b.Queue("SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = 'note'", id).
		QueryRow(func(row pgx.Row) error { return row.Scan(&d.Notes) })
	d.queueNames(&b, id)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if len(found) == 0 {
		return ErrNotFound
	}
	d.Payment = found[0]
	if len(wallets) > 0 {
		d.Wallet = &wallets[0]
	}
	d.Webhooks, d.MoreWebhooks = pageOf(d.Webhooks, dossierWebhooks)
	slices.Reverse(d.Webhooks)
	slices.Reverse(d.Decisions)
	d.cutTimeline(q)
	d.sortAttempts(attempts)
	d.Refundable = d.refundable()
	d.nameOthers()
	return nil
}

// queue adds a query whose rows land in dst when the batch is read.
func queue[T any](b *pgx.Batch, dst *[]T, fn pgx.RowToFunc[T], sql string, args ...any) {
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*dst, err = pgx.CollectRows(rows, fn)
		return err
	})
}

// sortAttempts tells the attempts of the charge from those of its operations.
func (d *Dossier) sortAttempts(all []Attempt) {
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
}

// refundable adds up what Refundable asks the database for, from what was read already.
func (d *Dossier) refundable() Refundable {
	charge := d.Payment.ProviderPaymentID
	f := Refundable{ChargeID: charge, Currency: d.Payment.Currency}
	if charge != "" {
		f.Captured = d.Payment.CapturedAmount
	}
	for _, o := range d.Operations {
		if o.Kind != provider.OpRefund || o.ProviderPaymentID != charge {
			continue
		}
		switch o.Status {
		case Succeeded:
			f.Refunded += o.Amount
		case Pending, Processing:
			f.Pending += o.Amount
		case Unknown:
			f.Unknown += o.Amount
		}
	}
	f.Refundable = max(f.Captured-f.Refunded-f.Pending-f.Unknown, 0)
	return f
}

// queueNames reads the names of whoever had a hand in the payment.
func (d *Dossier) queueNames(b *pgx.Batch, id uuid.UUID) {
	d.Names = map[string]string{}
	b.Queue(`WITH actors AS (
			SELECT DISTINCT actor FROM payment_events WHERE payment_id = $1 AND actor LIKE 'user:%'
			UNION SELECT requested_by FROM operations WHERE payment_id = $1
			UNION SELECT 'client:' || client_id FROM payments WHERE id = $1),
		ids AS (SELECT actor, substr(actor, strpos(actor, ':') + 1)::uuid AS id FROM actors
			WHERE actor ~ '^(user|client):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
		SELECT i.actor, u.name FROM ids i JOIN users u ON u.id = i.id WHERE i.actor LIKE 'user:%'
		UNION ALL SELECT i.actor, k.name FROM ids i JOIN api_keys k ON k.id = i.id WHERE i.actor LIKE 'client:%'`, id).
		Query(func(rows pgx.Rows) error {
			var actor, name string
			_, err := pgx.ForEachRow(rows, []any{&actor, &name}, func() error {
				d.Names[actor] = name
				return nil
			})
			return err
		})
}

// nameOthers calls whoever has no name by what stands after the colon.
func (d *Dossier) nameOthers() {
	for _, list := range [][]TimelineEvent{d.Events, d.Decisions} {
		for _, e := range list {
			d.nameOther(e.Actor)
		}
	}
	for _, o := range d.Operations {
		d.nameOther(o.RequestedBy)
	}
}

func (d *Dossier) nameOther(actor string) {
	if _, ok := d.Names[actor]; !ok {
		_, d.Names[actor], _ = strings.Cut(actor, ":")
	}
}

const attemptColumns = `id, payment_id, operation, seq, operation_key, request, worker,
		marked_at, first_sent_at, replay_until, deadline, wire_sends, http_status, content_type, server,
		provider_request_id, final_url, response_body, coalesce(outcome, ''), error_class, breaker_verdict,
		first_byte_sent_at, first_byte_at, finished_at`

func attemptsOf(ctx context.Context, tx pgx.Tx, id uuid.UUID) ([]Attempt, error) {
	rows, err := tx.Query(ctx, "SELECT "+attemptColumns+" FROM attempts WHERE payment_id = $1 ORDER BY marked_at, seq", id)
	if err != nil {
		return nil, fmt.Errorf("attempts: %w", err)
	}
	return pgx.CollectRows(rows, scanAttempt)
}

func scanAttempt(row pgx.CollectableRow) (a Attempt, err error) {
	err = row.Scan(&a.ID, &a.PaymentID, &a.Operation, &a.Seq, &a.OperationKey, &a.Request, &a.Worker,
		&a.MarkedAt, &a.FirstSentAt, &a.ReplayUntil, &a.Deadline, &a.WireSends, &a.HTTPStatus, &a.ContentType,
		&a.Server, &a.ProviderRequestID, &a.FinalURL, &a.ResponseBody, &a.Outcome, &a.ErrorClass,
		&a.BreakerVerdict, &a.FirstByteSentAt, &a.FirstByteAt, &a.FinishedAt)
	return a, err
}

const seenObjectColumns = `provider, object_id, payment_id, reference, operation_key, status,
	outcome, amount, currency, source, first_seen_at, seen_at, raw`

const objectsSQL = `SELECT ` + seenObjectColumns + `
	FROM provider_objects WHERE payment_id = $1 ORDER BY first_seen_at, object_id`

func scanSeenObject(row pgx.CollectableRow) (o ProviderObject, err error) {
	err = row.Scan(&o.Provider, &o.ObjectID, &o.PaymentID, &o.Reference, &o.OperationKey, &o.Status,
		&o.Outcome, &o.Amount, &o.Currency, &o.Source, &o.FirstSeenAt, &o.SeenAt, &o.Raw)
	return o, err
}

const entryColumns = `id, wallet_id, operation_id, amount, balance_after, kind, payment_id, note, actor, created_at`

// An entry of a payment is on the payment's own wallet, whose index bounds the search.
const entriesSQL = `SELECT ` + entryColumns + ` FROM wallet_entries
	WHERE payment_id = $1 AND wallet_id = (SELECT wallet_id FROM payments WHERE id = $1) ORDER BY id`

func scanEntry(row pgx.CollectableRow) (WalletEntry, error) { return readEntry(row) }
