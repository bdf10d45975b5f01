package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// SearchLimit bounds the hits of each kind.
const SearchLimit = 50

// Found is what a search came up with, by kind.
type Found struct {
	Payments []Payment    // newest first
	Webhooks []InboxEvent // newest first
	Wallets  []Wallet
	Runs     []Run
	More     bool // some kind had more than SearchLimit
}

// Total counts the hits.
func (f Found) Total() int {
	return len(f.Payments) + len(f.Webhooks) + len(f.Wallets) + len(f.Runs)
}

// Search looks a text up as payment id, order reference, provider id, id of a refund (ours
// or the provider's) or dispute, idempotency key, operation key, provider request id, event id, wallet, run, or exact amount; amounts
// holds what the text means as money. Every look-up is by whole value on an index, and
// order references by their beginning.
func (s *Store) Search(ctx context.Context, text string, amounts []provider.Money) (Found, error) {
	var f Found
	if text == "" {
		return f, nil
	}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return f.search(ctx, tx, text, amounts)
	})
	if err != nil {
		return Found{}, fmt.Errorf("search: %w", err)
	}
	return f, nil
}

func (f *Found) search(ctx context.Context, tx pgx.Tx, text string, amounts []provider.Money) (err error) {
	id, err := uuid.Parse(text)
	if err != nil {
		id = uuid.Nil
	}
	if f.Payments, err = f.searchPayments(ctx, tx, text, id, amounts); err != nil {
		return err
	}
	if f.Webhooks, err = f.searchWebhooks(ctx, tx, text); err != nil {
		return err
	}
	if f.Wallets, err = f.searchWallets(ctx, tx, text, id); err != nil {
		return err
	}
	if id == uuid.Nil {
		return nil
	}
	rows, err := tx.Query(ctx, "SELECT "+runColumns+" FROM reconciliation_runs WHERE id = $1", id)
	if err != nil {
		return err
	}
	f.Runs, err = pgx.CollectRows(rows, rowToRun)
	return err
}

func (f *Found) searchPayments(ctx context.Context, tx pgx.Tx, text string, id uuid.UUID, amounts []provider.Money) ([]Payment, error) {
	minor, currencies := splitMoney(amounts)
	rows, err := tx.Query(ctx, `SELECT `+paymentColumns+` FROM payments WHERE id IN (
			SELECT id FROM payments WHERE id = $1
			UNION SELECT id FROM payments WHERE order_ref = $2
			UNION (SELECT id FROM payments WHERE order_ref ILIKE $3 ORDER BY id DESC LIMIT $6)
			UNION SELECT id FROM payments WHERE provider_payment_id = $2
			UNION SELECT id FROM payments WHERE idempotency_key = $2
			UNION SELECT payment_id FROM provider_objects WHERE object_id = $2 AND payment_id IS NOT NULL
			UNION SELECT payment_id FROM operations WHERE id = $1
			UNION SELECT payment_id FROM operations WHERE provider_object_id = $2
			UNION SELECT payment_id FROM disputes WHERE dispute_id = $2
			UNION SELECT payment_id FROM attempts WHERE operation_key = $2 OR provider_request_id = $2
			UNION (SELECT id FROM payments WHERE (amount, currency) IN (SELECT * FROM unnest($4::bigint[], $5::text[])) ORDER BY id DESC LIMIT $6)
		) ORDER BY id DESC LIMIT $6`, id, text, likePrefix(text), minor, currencies, SearchLimit+1)
	if err != nil {
		return nil, err
	}
	return collectPage(rows, rowToPayment, &f.More)
}

func (f *Found) searchWebhooks(ctx context.Context, tx pgx.Tx, text string) ([]InboxEvent, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		number = -1
	}
	rows, err := tx.Query(ctx, `SELECT `+inboxColumns+` FROM webhook_events
		WHERE event_key = $1 OR provider_object_id = $1 OR id = $2 ORDER BY id DESC LIMIT $3`, text, number, SearchLimit+1)
	if err != nil {
		return nil, err
	}
	return collectPage(rows, scanInbox, &f.More)
}

func (f *Found) searchWallets(ctx context.Context, tx pgx.Tx, text string, id uuid.UUID) ([]Wallet, error) {
	rows, err := tx.Query(ctx, `SELECT `+walletColumns+` FROM wallets
		WHERE id = $1 OR owner_ref = $2 OR id = (SELECT wallet_id FROM wallet_entries WHERE operation_id = $2)
		ORDER BY owner_ref LIMIT $3`, id, text, SearchLimit+1)
	if err != nil {
		return nil, err
	}
	return collectPage(rows, rowToWallet, &f.More)
}

// collectPage reads rows asked for with SearchLimit+1 and notes whether some were cut.
func collectPage[T any](rows pgx.Rows, fn pgx.RowToFunc[T], more *bool) ([]T, error) {
	all, err := pgx.CollectRows(rows, fn)
	if err != nil {
		return nil, err
	}
	list, cut := pageOf(all, SearchLimit)
	*more = *more || cut
	return list, nil
}
