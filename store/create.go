package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// CreatePayment inserts the payment, its created event and its charge job in one
// transaction. The key decides first: with the same content it returns the stored
// payment (Replayed), whatever else would refuse a new one. Errors: ErrKeyReused,
// *OrderBusyError, ErrWalletNotFound, ErrWalletCurrency; after any of them nothing
// is stored.
func (s *Store) CreatePayment(ctx context.Context, n NewPayment, by Actor) (Created, error) {
	hash, err := n.hash()
	if err != nil {
		return Created{}, err
	}
	var out Created
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out, err = s.create(ctx, tx, n, hash, by)
		return err
	})
	if err != nil {
		return Created{}, err
	}
	return out, nil
}

func (s *Store) create(ctx context.Context, tx pgx.Tx, n NewPayment, hash []byte, by Actor) (Created, error) {
	// Payments of one order are created one after another, or two at once would both
	// see no other one open. Every statement after this sees what the one before committed.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('order:' || $1, 0))`, n.OrderRef); err != nil {
		return Created{}, wrap(err, "lock order")
	}
	p, err := s.insertPayment(ctx, tx, n, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return replay(ctx, tx, n, hash)
	}
	if err != nil {
		return Created{}, wrap(err, "insert payment")
	}
	if !n.AllowConcurrent {
		if err := orderBusy(ctx, tx, p); err != nil {
			return Created{}, err
		}
	}
	if err := checkWallet(ctx, tx, p); err != nil {
		return Created{}, err
	}
	var b pgx.Batch
	queueEvent(&b, TimelineEvent{PaymentID: p.ID, At: p.CreatedAt, Kind: "created", Source: "api", Actor: by.String(), ToStatus: Pending})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return Created{}, wrap(err, "record created")
	}
	if err := Notify(ctx, tx, TopicPayments); err != nil {
		return Created{}, err
	}
	return Created{Payment: p}, s.enqueuer().Charge(ctx, tx, p.ID, p.Provider, time.Time{})
}

// insertPayment returns pgx.ErrNoRows when the key is known. Never SELECT first: two
// at once would both find nothing. ON CONFLICT waits for the other one's commit.
func (s *Store) insertPayment(ctx context.Context, tx pgx.Tx, n NewPayment, hash []byte) (Payment, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Payment{}, err
	}
	if n.Metadata == nil {
		n.Metadata = map[string]string{}
	}
	return scanPayment(tx.QueryRow(ctx, `
		INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency,
			description, customer_name, customer_email, metadata, wallet_id, status, next_check_at, next_check_why,
			created_at, updated_at, capture)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'pending', $14, $15, $14, $14, coalesce(nullif($16, ''), 'automatic'))
		ON CONFLICT ON CONSTRAINT payments_idempotency DO NOTHING
		RETURNING `+paymentColumns,
		id, n.ClientID, n.IdempotencyKey, hash, n.OrderRef, n.Provider, n.Amount, n.Currency,
		n.Description, n.CustomerName, n.CustomerEmail, n.Metadata, n.WalletID, s.Now(), whyCharge, n.Capture))
}

// replay answers a known key: the stored payment as it is now, or ErrKeyReused.
func replay(ctx context.Context, tx pgx.Tx, n NewPayment, hash []byte) (Created, error) {
	var same bool
	err := tx.QueryRow(ctx, `SELECT request_hash = $3 FROM payments WHERE client_id = $1 AND idempotency_key = $2`,
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

// orderBusy refuses a second payment for an order while the money of another may be
// moving: unknown, processing, or pending with an attempt on the wire.
func orderBusy(ctx context.Context, tx pgx.Tx, p Payment) error {
	var busy OrderBusyError
	err := tx.QueryRow(ctx, `
		SELECT id, status FROM payments o WHERE order_ref = $1 AND id <> $2 AND (status IN ('unknown', 'processing')
			OR status = 'pending' AND EXISTS (SELECT 1 FROM attempts a WHERE a.payment_id = o.id AND a.outcome IS NULL))
		ORDER BY id LIMIT 1`, p.OrderRef, p.ID).Scan(&busy.PaymentID, &busy.Status)
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
