package store

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// paymentColumns in the order scanPayment reads them.
const paymentColumns = `id, client_id, idempotency_key, order_ref, provider, amount, currency,
	description, customer_name, customer_email, metadata, wallet_id, status, status_reason,
	status_evidence, needs_review, coalesce(provider_payment_id, ''), provider_message,
	next_check_at, next_check_why, lookups, absent_lookups, unknown_since, unknown_seen,
	version, created_at, updated_at, settled_at,
	capture, coalesce(authorised_amount, 0), authorised_until, coalesce(capture_amount, 0), captured_amount`

// scanPayment reads a row of paymentColumns.
func scanPayment(row pgx.Row) (p Payment, err error) {
	err = row.Scan(&p.ID, &p.ClientID, &p.IdempotencyKey, &p.OrderRef, &p.Provider, &p.Amount, &p.Currency,
		&p.Description, &p.CustomerName, &p.CustomerEmail, &p.Metadata, &p.WalletID, &p.Status, &p.StatusReason,
		&p.StatusEvidence, &p.NeedsReview, &p.ProviderPaymentID, &p.ProviderMessage,
		&p.NextCheckAt, &p.NextCheckWhy, &p.Lookups, &p.AbsentLookups, &p.UnknownSince, &p.UnknownSeen,
		&p.Version, &p.CreatedAt, &p.UpdatedAt, &p.SettledAt,
		&p.Capture, &p.AuthorisedAmount, &p.AuthorisedUntil, &p.CaptureAmount, &p.CapturedAmount)
	if err != nil {
		return Payment{}, err
	}
	return p, nil
}

// notFound turns "no rows" into ErrNotFound and leaves other errors alone.
func notFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// wrap adds what was being done to a database error, once per boundary. Errors the
// caller decides on (sentinels) stay findable by errors.Is.
func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: %s: %w", doing, err)
}
