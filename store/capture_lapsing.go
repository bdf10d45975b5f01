package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// AlertLapsing raises one alert for each payment whose money is still held and will be
// let go by its provider within the given time, and counts the new ones. It changes
// nothing: when an authorisation lapses is the provider's word, and so is that it did.
//
// It walks the payments that are held now (payments_reason), never the table.
func (s *Store) AlertLapsing(ctx context.Context, within time.Duration) (int, error) {
	now := s.Now()
	return s.eachPayment(ctx, `
		SELECT id FROM payments p
		WHERE status_reason = $1 AND status = 'processing' AND capture = 'manual' AND authorised_until > $2 AND authorised_until <= $3
			AND NOT EXISTS (SELECT 1 FROM alerts WHERE dedupe_key = 'lapsing:' || p.id)
			AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.payment_id = p.id AND o.kind IN ('capture', 'void') AND o.status <> 'failed')
		ORDER BY authorised_until LIMIT $4`, []any{provider.ReasonAuthorised, now, now.Add(within), sweepBatch},
		func(ctx context.Context, tx pgx.Tx, p Payment) (bool, error) {
			if !p.Authorised() || p.AuthorisedUntil == nil {
				return false, nil // decided meanwhile
			}
			return s.RaiseAlert(ctx, tx, Alert{
				Kind: "authorisation_lapsing", Severity: "warning", Provider: p.Provider, PaymentID: &p.ID,
				Title: "Held money will be let go soon: capture or void it",
				Detail: fmt.Sprintf("Order %s, %d %s (minor units), held until %s.", p.OrderRef, p.AuthorisedAmount, p.Currency,
					p.AuthorisedUntil.UTC().Format(time.RFC3339)),
				DedupeKey: "lapsing:" + p.ID.String(),
			})
		})
}
