package store

import (
	"errors"

	"github.com/jackc/pgx/v5"
)

const consolePaymentColumns = `id, client_id, idempotency_key, order_ref, provider, amount, currency, description,
	customer_name, customer_email, metadata, wallet_id, status, status_reason, status_evidence, needs_review,
	coalesce(provider_payment_id, ''), provider_message, next_check_at, next_check_why, lookups, absent_lookups,
	unknown_since, unknown_seen, version, created_at, updated_at, settled_at`

func rowToPayment(row pgx.CollectableRow) (p Payment, err error) {
	err = row.Scan(&p.ID, &p.ClientID, &p.IdempotencyKey, &p.OrderRef, &p.Provider, &p.Amount, &p.Currency, &p.Description,
		&p.CustomerName, &p.CustomerEmail, &p.Metadata, &p.WalletID, &p.Status, &p.StatusReason, &p.StatusEvidence,
		&p.NeedsReview, &p.ProviderPaymentID, &p.ProviderMessage, &p.NextCheckAt, &p.NextCheckWhy, &p.Lookups,
		&p.AbsentLookups, &p.UnknownSince, &p.UnknownSeen, &p.Version, &p.CreatedAt, &p.UpdatedAt, &p.SettledAt)
	return p, err
}

// orNotFound turns pgx's "no rows" into ErrNotFound.
func orNotFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}
