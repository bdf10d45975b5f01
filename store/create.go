package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// CreatePayment inserts the payment, its created event and its charge job in one
// transaction, shared with others that come at the same time. The key decides first:
// with the same content it returns the stored payment (Replayed), whatever else would
// refuse a new one. Errors: ErrKeyReused, *OrderBusyError, ErrWalletNotFound,
// ErrWalletCurrency; after any of them nothing is stored.
func (s *Store) CreatePayment(ctx context.Context, n NewPayment, by Actor) (Created, error) {
	c, err := newCreating(n, by)
	if err != nil {
		return Created{}, err
	}
	if p, did := s.creates.do(ctx, c); did {
		return Created{Payment: p}, nil
	}
	// What was done together may be committed though its answer was lost: with an id of its
	// own, this payment's job cannot meet that one's.
	if c.id, err = uuid.NewV7(); err != nil {
		return Created{}, err
	}
	var out Created
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out, err = s.create(ctx, tx, c)
		return err
	})
	if err != nil {
		return Created{}, err
	}
	return out, nil
}

// creating is a payment on its way in.
type creating struct {
	NewPayment
	id   uuid.UUID
	hash []byte
	by   Actor
}

func newCreating(n NewPayment, by Actor) (c creating, err error) {
	c = creating{NewPayment: n, by: by}
	if c.hash, err = n.hash(); err != nil {
		return c, err
	}
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Capture = cmp.Or(c.Capture, CaptureAutomatic) // after the hash, which tells them apart
	c.id, err = uuid.NewV7()
	return c, err
}

// create is one payment in a transaction of its own, which finds out what is in the way.
func (s *Store) create(ctx context.Context, tx pgx.Tx, c creating) (Created, error) {
	// Payments of one order are created one after another, or two at once would both
	// see no other one open. Every statement after this sees what the one before committed.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('order:' || $1, 0))`, c.OrderRef); err != nil {
		return Created{}, wrap(err, "lock order")
	}
	var b pgx.Batch
	now := s.Now()
	made := queuePayments(&b, []creating{c}, now, false)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return Created{}, wrap(err, "create payment")
	}
	if !made[c.id] {
		return replay(ctx, tx, c.NewPayment, c.hash)
	}
	p := c.payment(now)
	if !c.AllowConcurrent {
		if err := orderBusy(ctx, tx, p); err != nil {
			return Created{}, err
		}
	}
	if err := checkWallet(ctx, tx, p); err != nil {
		return Created{}, err
	}
	var job pgx.Batch
	if err := s.enqueuer().QueueCharges(ctx, &job, chargeJobs([]creating{c})); err != nil {
		return Created{}, err
	}
	if err := tx.SendBatch(ctx, &job).Close(); err != nil {
		return Created{}, wrap(err, "enqueue charge")
	}
	return Created{Payment: p}, Notify(ctx, tx, TopicPayments)
}

// createTogether makes those payments that nothing is in the way of: the first of each
// order and key here, whose order no other transaction works on and has no open payment,
// whose key is new and whose wallet fits. It takes one round trip.
func (s *Store) createTogether(ctx context.Context, list []creating) (out []Payment, did []bool, err error) {
	out, did = make([]Payment, len(list)), make([]bool, len(list))
	orders, keys, at := map[string]bool{}, map[[2]string]bool{}, map[uuid.UUID]int{}
	var first []creating
	for i, c := range list {
		key := [2]string{c.ClientID, c.IdempotencyKey}
		if orders[c.OrderRef] || keys[key] {
			continue
		}
		orders[c.OrderRef], keys[key], at[c.id] = true, true, i
		first = append(first, c)
	}
	err = s.inExchange(ctx, func(ctx context.Context, x *exchange) error {
		clear(did)
		var b pgx.Batch
		settings(&b)
		queueOrderLocks(&b, first)
		now := s.Now()
		made := queuePayments(&b, first, now, true)
		if err := s.enqueuer().QueueCharges(ctx, &b, chargeJobs(first)); err != nil {
			return err
		}
		if err := x.commit(ctx, &b, TopicPayments); err != nil {
			return wrap(err, "create payments")
		}
		for _, c := range first {
			if made[c.id] {
				out[at[c.id]], did[at[c.id]] = c.payment(now), true
			}
		}
		return nil
	})
	return out, did, err
}

// queueOrderLocks locks the orders that can be locked now, and notes which of the list they
// are for queuePayments. One that another transaction works on is left to it: nobody else
// waits for that.
func queueOrderLocks(b *pgx.Batch, list []creating) {
	orders := make([]string, len(list))
	for i, c := range list {
		orders[i] = c.OrderRef
	}
	b.Queue(`SELECT set_config('fusebox.free', coalesce('{' || string_agg(o.at::text, ',') || '}', '{}'), true)
		FROM unnest($1::text[]) WITH ORDINALITY AS o (ref, at) WHERE pg_try_advisory_xact_lock(hashtextextended('order:' || o.ref, 0))`, orders)
}

// queuePayments makes payments and their first event. The set of those it made is filled
// when the batch has run; the key of one that is missing is known.
// Never SELECT first: two at once would both find nothing. ON CONFLICT waits for the
// other one's commit, in the order of the keys, so that no two wait for each other.
// plain leaves out what create would refuse, and what queueOrderLocks could not lock.
func queuePayments(b *pgx.Batch, list []creating, now time.Time, plain bool) (made map[uuid.UUID]bool) {
	var c struct {
		id                                                    []uuid.UUID
		client, key, order, provider, currency, text, capture []string
		name, email, actor                                    []string
		hash                                                  [][]byte
		amount                                                []int64
		metadata                                              []map[string]string
		wallet                                                []uuid.NullUUID
		concurrent                                            []bool
	}
	for _, n := range list {
		c.id, c.hash, c.amount = append(c.id, n.id), append(c.hash, n.hash), append(c.amount, n.Amount)
		c.client, c.key = append(c.client, n.ClientID), append(c.key, n.IdempotencyKey)
		c.order, c.provider, c.currency = append(c.order, n.OrderRef), append(c.provider, n.Provider), append(c.currency, n.Currency)
		c.text, c.name, c.email = append(c.text, n.Description), append(c.name, n.CustomerName), append(c.email, n.CustomerEmail)
		c.metadata, c.wallet = append(c.metadata, n.Metadata), append(c.wallet, nullUUID(n.WalletID))
		c.capture, c.concurrent, c.actor = append(c.capture, n.Capture), append(c.concurrent, n.AllowConcurrent), append(c.actor, n.by.String())
	}
	made = map[uuid.UUID]bool{}
	b.Queue(`
		WITH c AS (
			SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], $8::text[],
				$9::text[], $10::text[], $11::text[], $12::jsonb[], $13::uuid[], $14::text[], $15::boolean[], $16::text[]) WITH ORDINALITY
				AS c (id, client, key, hash, order_ref, provider, amount, currency, description, name, email, metadata, wallet, capture, concurrent, actor, at)
		), made AS (
			INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency,
				description, customer_name, customer_email, metadata, wallet_id, status, next_check_at, next_check_why,
				created_at, updated_at, capture)
			SELECT c.id, c.client, c.key, c.hash, c.order_ref, c.provider, c.amount, c.currency,
				c.description, c.name, c.email, c.metadata, c.wallet, 'pending', $17, $18, $17, $17, c.capture
			FROM c
			WHERE NOT $19 OR c.at = ANY ((SELECT nullif(current_setting('fusebox.free', true), '')::int[])::int[]) AND
				(c.concurrent OR (SELECT o.id FROM payments o WHERE `+sameOrder("c.order_ref")+` AND `+movingPayment+` LIMIT 1) IS NULL)
				AND (c.wallet IS NULL OR (SELECT w.currency FROM wallets w WHERE w.id = c.wallet) = c.currency)
			ORDER BY c.client, c.key
			ON CONFLICT ON CONSTRAINT payments_idempotency DO NOTHING
			RETURNING id
		), told AS (
			INSERT INTO payment_events (payment_id, at, kind, source, actor, to_status)
			SELECT made.id, $17, 'created', 'api', c.actor, 'pending' FROM made JOIN c USING (id)
		)
		SELECT id FROM made`,
		c.id, c.client, c.key, c.hash, c.order, c.provider, c.amount, c.currency, c.text, c.name, c.email, c.metadata, c.wallet,
		c.capture, c.concurrent, c.actor, now, whyCharge, plain).Query(intoSet(made))
	return made
}

// payment is the row of a payment that was just made.
func (c creating) payment(at time.Time) Payment {
	return Payment{ID: c.id, ClientID: c.ClientID, IdempotencyKey: c.IdempotencyKey, OrderRef: c.OrderRef, Provider: c.Provider,
		Amount: c.Amount, Currency: c.Currency, Description: c.Description, CustomerName: c.CustomerName, CustomerEmail: c.CustomerEmail,
		Metadata: c.Metadata, WalletID: c.WalletID, Status: Pending, NeedsReview: []string{}, NextCheckAt: &at, NextCheckWhy: whyCharge,
		Version: 1, CreatedAt: at, UpdatedAt: at, Capture: c.Capture}
}

// chargeJobs are the jobs of new payments.
func chargeJobs(list []creating) []ChargeJob {
	work := make([]ChargeJob, len(list))
	for i, c := range list {
		work[i] = ChargeJob{PaymentID: c.id, Provider: c.Provider}
	}
	return work
}

// replay answers a known key: the stored payment as it is now, or ErrKeyReused.
//
// The lock is there to be written: a transaction that only reads waits for nobody at its
// commit. Where commits wait for a synchronous standby, one whose wait was broken off is
// seen here and may be lost with this server; it must not be acknowledged before the
// standby has it, and a lock comes after it in the log.
func replay(ctx context.Context, tx pgx.Tx, n NewPayment, hash []byte) (Created, error) {
	var same bool
	err := tx.QueryRow(ctx, `SELECT request_hash = $3 FROM payments WHERE client_id = $1 AND idempotency_key = $2 FOR KEY SHARE`,
		n.ClientID, n.IdempotencyKey, hash).Scan(&same)
	if err != nil {
		return Created{}, wrap(err, "read request hash")
	}
	if !same {
		return Created{}, ErrKeyReused
	}
	p, err := scanPayment(tx.QueryRow(ctx, `SELECT `+paymentColumns+` FROM payments WHERE client_id = $1 AND idempotency_key = $2`,
		n.ClientID, n.IdempotencyKey))
	return Created{Payment: p, Replayed: true}, wrap(err, "read payment")
}

// movingPayment holds of a payment o whose money may be moving. CASE keeps the planner
// from looking for it by status, which finds far more than the few of one order.
const movingPayment = `CASE o.status WHEN 'unknown' THEN true WHEN 'processing' THEN true
	WHEN 'pending' THEN EXISTS (SELECT 1 FROM attempts a WHERE a.payment_id = o.id AND a.outcome IS NULL) ELSE false END`

// sameOrder holds of a payment o of that order. It finds it by the index of folded orders.
func sameOrder(ref string) string {
	return `lower(o.order_ref) COLLATE "C" = lower(` + ref + `) COLLATE "C" AND o.order_ref = ` + ref
}

// orderBusy refuses a second payment for an order while the money of another may be
// moving: unknown, processing, or pending with an attempt on the wire.
func orderBusy(ctx context.Context, tx pgx.Tx, p Payment) error {
	var busy OrderBusyError
	err := tx.QueryRow(ctx, `
		SELECT id, status FROM payments o WHERE `+sameOrder("$1")+` AND id <> $2 AND `+movingPayment+` ORDER BY id LIMIT 1`, p.OrderRef, p.ID).Scan(&busy.PaymentID, &busy.Status)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return wrap(err, "look for open payments of the order")
	}
	return &busy
}

func checkWallet(ctx context.Context, tx pgx.Tx, p Payment) error {
	if p.WalletID == nil {
		return nil
	}
	var currency string
	err := tx.QueryRow(ctx, `SELECT currency FROM wallets WHERE id = $1`, *p.WalletID).Scan(&currency)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrWalletNotFound
	case err != nil:
		return wrap(err, "read wallet")
	case currency != p.Currency:
		return ErrWalletCurrency
	}
	return nil
}

// hash is over the content, not the form: the same fields in another order are the
// same request. AllowConcurrent is an instruction, not content.
func (n NewPayment) hash() ([]byte, error) {
	content := []any{n.OrderRef, n.Provider, n.Amount, n.Currency, n.Description, n.CustomerName, n.CustomerEmail, n.Metadata, n.WalletID}
	if n.Metadata == nil {
		content[7] = map[string]string{}
	}
	if n.Capture == CaptureManual { // appended: hashes stored before there was a choice stay what they are
		content = append(content, n.Capture)
	}
	b, err := json.Marshal(content) // map keys come out sorted
	if err != nil {
		return nil, wrap(err, "hash request")
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

// Payment reads one payment. ErrNotFound.
func (s *Store) Payment(ctx context.Context, id uuid.UUID) (Payment, error) {
	p, err := scanPayment(s.pool.QueryRow(ctx, `SELECT `+paymentColumns+` FROM payments WHERE id = $1`, id))
	if err != nil {
		return Payment{}, wrap(notFound(err), "read payment")
	}
	return p, nil
}
