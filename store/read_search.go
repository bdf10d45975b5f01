package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// SearchLimit bounds the hits of each kind.
const SearchLimit = 50

// minPrefix is how much of a payment id has to be typed, in hexadecimal digits.
const minPrefix = 8

// Search fields: by which of its names a payment was found.
const (
	ByID          = "id"
	ByIDPrefix    = "id_prefix"
	ByOrder       = "order"
	ByOrderPrefix = "order_prefix"
	ByProviderID  = "provider_id" // of the charge, or of another object of it
	ByKey         = "key"         // idempotency key, a client's or ours
	ByOperation   = "operation"   // id of a refund, capture or void, ours or the provider's
	ByDispute     = "dispute"
	ByRequestID   = "request_id"
	ByAmount      = "amount"
	ByMinor       = "minor" // amount in minor units
)

// searchQuery is what was typed and what it can mean as money.
type searchQuery struct {
	text           string
	amounts, minor []provider.Money
}

// Found is what a search came up with, by kind.
type Found struct {
	Payments []Payment    // newest first
	Webhooks []InboxEvent // newest first
	Wallets  []Wallet
	Runs     []Run
	Fields   map[uuid.UUID][]string // by which fields each payment was found
	More     bool                   // some kind had more than SearchLimit
}

// Total counts the hits.
func (f Found) Total() int {
	return len(f.Payments) + len(f.Webhooks) + len(f.Wallets) + len(f.Runs)
}

// Search looks a text up as anything that names something: payment id (or its
// beginning), order reference (or its beginning), provider id, id of a refund or dispute,
// idempotency key, provider request id, event id, wallet, run, exact amount. Each meaning
// is a probe of an index that ends after SearchLimit rows, so a search costs the same in
// small and large books. The beginnings count only when nothing has the whole name.
// amounts and minor are what the text means as money: typed as people write it, and as a
// number of minor units.
func (s *Store) Search(ctx context.Context, text string, amounts []provider.Money, minor ...provider.Money) (Found, error) {
	f, q := Found{Fields: map[uuid.UUID][]string{}}, searchQuery{ident(text), amounts, minor}
	if q.text == "" {
		return f, nil
	}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return f.search(ctx, tx, q)
	})
	if err != nil {
		return Found{}, fmt.Errorf("search: %w", err)
	}
	return f, nil
}

func (f *Found) search(ctx context.Context, tx pgx.Tx, q searchQuery) error {
	var b pgx.Batch
	var hits []hit
	id := wholeID(q.text)
	queueHits(&b, &hits, q, id)
	queue(&b, &f.Webhooks, scanInbox, searchWebhooksSQL, q.text, wholeNumber(q.text), SearchLimit+1)
	queue(&b, &f.Wallets, rowToWallet, "SELECT "+walletColumns+` FROM wallets WHERE id = $1 OR owner_ref = $2
		OR id = (SELECT wallet_id FROM wallet_entries WHERE operation_id = $2) ORDER BY owner_ref LIMIT $3`, id, q.text, SearchLimit+1)
	queue(&b, &f.Runs, rowToRun, "SELECT "+runColumns+" FROM reconciliation_runs WHERE id = $1", id)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	f.Webhooks = cutPage(f.Webhooks, &f.More)
	f.Wallets = cutPage(f.Wallets, &f.More)
	return f.readPayments(ctx, tx, hits)
}

// hit is a payment with one way it was found.
type hit struct {
	ID    uuid.UUID
	Field string
}

// readPayments reads the payments that were hit, newest first.
func (f *Found) readPayments(ctx context.Context, tx pgx.Tx, hits []hit) error {
	partly := func(h hit) bool { return h.Field == ByIDPrefix || h.Field == ByOrderPrefix }
	if slices.ContainsFunc(hits, func(h hit) bool { return !partly(h) && h.Field != ByAmount && h.Field != ByMinor }) {
		hits = slices.DeleteFunc(hits, partly)
	}
	var ids []uuid.UUID
	for _, h := range hits {
		if f.Fields[h.ID] == nil {
			ids = append(ids, h.ID)
		}
		if !slices.Contains(f.Fields[h.ID], h.Field) {
			f.Fields[h.ID] = append(f.Fields[h.ID], h.Field)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(b.String(), a.String()) }) // version 7: by age
	ids = cutPage(ids, &f.More)
	rows, err := tx.Query(ctx, "SELECT "+paymentColumns+" FROM payments WHERE id = ANY($1) ORDER BY id DESC", ids)
	if err != nil {
		return err
	}
	f.Payments, err = pgx.CollectRows(rows, rowToPayment)
	return err
}

// queueHits asks for every meaning at once. Where an index begins with the provider or
// the client, the few there are stand in front; they are found by skipping along it.
func queueHits(b *pgx.Batch, hits *[]hit, q searchQuery, id uuid.UUID) {
	from, to := idRange(q.text)
	folded := strings.ToLower(q.text)
	amounts, currencies := splitMoney(q.amounts)
	minor, minorCurrencies := splitMoney(q.minor)
	queue(b, hits, pgx.RowToStructByPos[hit], searchPaymentsSQL, id, q.text, folded, folded+"\U0010FFFF", SearchLimit+1,
		from, to, keyOwner(q.text), amounts, currencies, minor, minorCurrencies)
}

// skip lists the distinct leading values of an index, one probe each.
func skip(name, table, column string) string {
	return name + ` (v) AS (
		(SELECT ` + column + ` FROM ` + table + ` ORDER BY ` + column + ` LIMIT 1)
		UNION ALL SELECT (SELECT ` + column + ` FROM ` + table + ` WHERE ` + column + ` > n.v ORDER BY ` + column + ` LIMIT 1)
		FROM ` + name + ` n WHERE n.v IS NOT NULL)`
}

// byMoney finds the newest payments of each amount and currency.
func byMoney(field, amounts, currencies string) string {
	return `SELECT p.id, '` + field + `' FROM unnest(` + amounts + `::bigint[], ` + currencies + `::text[]) m (amount, currency),
		LATERAL (SELECT id FROM payments WHERE amount = m.amount AND currency = m.currency ORDER BY id DESC LIMIT $5) p`
}

var searchPaymentsSQL = `WITH RECURSIVE ` + skip("providers", "payments", "provider") + `, ` + skip("clients", "payments", "client_id") + `
	SELECT id, 'id' FROM payments WHERE id = $1
	UNION ALL (SELECT id, 'id_prefix' FROM payments WHERE id BETWEEN $6 AND $7 ORDER BY id DESC LIMIT $5)
	UNION ALL (SELECT id, 'order' FROM payments o WHERE ` + sameOrder("$2") + ` LIMIT $5)
	UNION ALL (SELECT id, 'order_prefix' FROM payments WHERE lower(order_ref) COLLATE "C" >= $3 AND lower(order_ref) COLLATE "C" < $4
		ORDER BY lower(order_ref) COLLATE "C" LIMIT $5)
	UNION ALL SELECT p.id, 'provider_id' FROM providers n JOIN payments p ON p.provider = n.v AND p.provider_payment_id = $2
	UNION ALL SELECT o.payment_id, 'provider_id' FROM providers n JOIN provider_objects o ON o.provider = n.v AND o.object_id = $2
		WHERE o.payment_id IS NOT NULL
	UNION ALL SELECT p.id, 'key' FROM clients c JOIN payments p ON p.client_id = c.v AND p.idempotency_key = $2
	UNION ALL SELECT id, 'key' FROM payments WHERE id = $8
	UNION ALL SELECT o.payment_id, 'key' FROM clients c JOIN operations o ON o.client_id = c.v AND o.idempotency_key = $2
	UNION ALL SELECT payment_id, 'key' FROM operations WHERE operation_key = $2
	UNION ALL SELECT payment_id, 'operation' FROM operations WHERE id = $1
	UNION ALL (SELECT payment_id, 'operation' FROM operations WHERE provider_object_id = $2 LIMIT $5)
	UNION ALL (SELECT payment_id, 'dispute' FROM disputes WHERE dispute_id = $2 LIMIT $5)
	UNION ALL (SELECT payment_id, 'request_id' FROM attempts WHERE provider_request_id = $2 AND provider_request_id <> '' LIMIT $5)
	UNION ALL ` + byMoney(ByAmount, "$9", "$10") + `
	UNION ALL ` + byMoney(ByMinor, "$11", "$12")

var searchWebhooksSQL = `WITH RECURSIVE ` + skip("providers", "webhook_events", "provider") + `
	SELECT ` + inboxColumns + ` FROM webhook_events WHERE id IN (
		SELECT e.id FROM providers n JOIN webhook_events e ON e.provider = n.v AND e.event_key = $1
		UNION ALL SELECT id FROM webhook_events WHERE id = $2
		UNION ALL (SELECT id FROM webhook_events WHERE provider_object_id = $1 AND payment_id IS NULL AND provider_object_id <> '' LIMIT $3))
	ORDER BY id DESC LIMIT $3`

// wholeID reads an id; the nil id, which nothing has, when it is none.
func wholeID(text string) uuid.UUID {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil
	}
	return id
}

// wholeNumber reads the number of an inbox row; -1, which none has, when it is none.
func wholeNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// keyOwner is the payment of a key that we made for its charge: the key says it.
func keyOwner(text string) uuid.UUID {
	id, ok := strings.CutPrefix(text, operationCharge+"-")
	if !ok {
		return uuid.Nil
	}
	return wholeID(id)
}

// idRange is the range of ids that begin with the text, dashes or not; an empty range
// when it cannot be the beginning of one, or is too short to mean one.
func idRange(text string) (from, to uuid.UUID) {
	digits := strings.ReplaceAll(strings.ToLower(text), "-", "")
	none := strings.Trim(digits, "0123456789abcdef") != ""
	if none || len(digits) < minPrefix || len(digits) >= 32 {
		return uuid.Max, uuid.Nil
	}
	return wholeID(digits + strings.Repeat("0", 32-len(digits))), wholeID(digits + strings.Repeat("f", 32-len(digits)))
}

// cutPage cuts what was asked for with SearchLimit+1 and notes whether some were left out.
func cutPage[T any](all []T, more *bool) []T {
	list, cut := pageOf(all, SearchLimit)
	*more = *more || cut
	return list
}
