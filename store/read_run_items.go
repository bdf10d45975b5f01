package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// ItemOurs is our side of a reconciliation item as it stands now: the payment of the
// item, or the one that the item's object turned out to belong to.
type ItemOurs struct {
	PaymentID   uuid.UUID
	OrderRef    string
	Status      Status
	Money       provider.Money
	NeedsAnswer bool // it is in the work queue
}

// ItemTheirs is the provider's side: the object as it was last seen.
type ItemTheirs struct {
	Status  string // the provider's word; hostile text
	Outcome string // our reading of it; may be empty
	Money   provider.Money
}

// ItemPlace is where an item stands in its run's list; no other item of the run stands there.
type ItemPlace struct {
	Matched   bool
	ObjectID  string
	PaymentID uuid.UUID // nil id: none
}

// Place is where the item stands.
func (i RunItem) Place() ItemPlace {
	p := ItemPlace{Matched: i.Finding == findMatched, ObjectID: i.ObjectID}
	if i.PaymentID != nil {
		p.PaymentID = *i.PaymentID
	}
	return p
}

// ItemQuery picks a page of a run's items. Neither After nor Before: the first.
type ItemQuery struct {
	Finding string     // empty: all
	After   *ItemPlace // items behind it
	Before  *ItemPlace // items in front of it
	Limit   int
}

// ItemPage is one page of a run's items.
type ItemPage struct {
	Items        []RunItem
	Newer, Older bool // there are items in front, and behind
}

// The list's order, and an item's place in it; the index reconciliation_items_page is both.
const (
	itemPlace = "(i.finding = 'matched'), i.object_id, coalesce(i.payment_id, '00000000-0000-0000-0000-000000000000')"
	itemBack  = "(i.finding = 'matched') DESC, i.object_id DESC, coalesce(i.payment_id, '00000000-0000-0000-0000-000000000000') DESC"
)

const itemColumns = `i.finding, i.payment_id, i.object_id, i.detail, i.at,
	p.id, p.order_ref, p.status, p.amount, p.currency, p.status = 'unknown' OR p.needs_review <> '{}', o.status, o.outcome, o.amount, o.currency`

// RunItems reads one page of a run's items, exceptions before matches, with both sides as
// they stand now. Pages are keysets: they cost the same however far behind they are, and
// items that are added meanwhile move nothing. ErrNotFound: no such run.
func (s *Store) RunItems(ctx context.Context, runID uuid.UUID, q ItemQuery) (ItemPage, error) {
	run, err := s.ReconciliationRun(ctx, runID)
	if err != nil {
		return ItemPage{}, err
	}
	w, order := &where{}, itemPlace
	w.and("run_id = ?", runID)
	if q.Finding != "" {
		w.and("(finding = 'matched') = ? AND finding = ?", q.Finding == findMatched, q.Finding)
	}
	switch {
	case q.Before != nil:
		w.and("("+itemPlace+") < (?, ?, ?)", q.Before.Matched, q.Before.ObjectID, q.Before.PaymentID)
		order = itemBack // the nearest first; turned round below
	case q.After != nil:
		w.and("("+itemPlace+") > (?, ?, ?)", q.After.Matched, q.After.ObjectID, q.After.PaymentID)
	}
	limit := w.arg(q.Limit + 1)
	sql := fmt.Sprintf(`WITH page AS MATERIALIZED (SELECT i.* FROM reconciliation_items i %s ORDER BY %s LIMIT %s)
		SELECT %s FROM page i
		LEFT JOIN provider_objects o ON o.provider = %s AND o.object_id = i.object_id
		LEFT JOIN payments p ON p.id = coalesce(i.payment_id, o.payment_id)
		ORDER BY %s`, w, order, limit, itemColumns, w.arg(run.Provider), order)
	rows, err := s.pool.Query(ctx, sql, w.planned()...)
	if err != nil {
		return ItemPage{}, fmt.Errorf("items of run %s: %w", runID, err)
	}
	all, err := pgx.CollectRows(rows, scanItem)
	if err != nil {
		return ItemPage{}, fmt.Errorf("items of run %s: %w", runID, err)
	}
	list, more := pageOf(all, q.Limit)
	if q.Before != nil {
		slices.Reverse(list)
		return ItemPage{Items: list, Newer: more, Older: true}, nil
	}
	return ItemPage{Items: list, Older: more, Newer: q.After != nil}, nil
}

func scanItem(row pgx.CollectableRow) (i RunItem, err error) {
	var id *uuid.UUID
	var order, currency, word, outcome, theirCurrency *string
	var status *Status
	var amount, theirAmount *int64
	var waits *bool
	err = row.Scan(&i.Finding, &i.PaymentID, &i.ObjectID, &i.Detail, &i.At, &id, &order, &status, &amount, &currency, &waits,
		&word, &outcome, &theirAmount, &theirCurrency)
	if err != nil {
		return i, err
	}
	if id != nil {
		i.Ours = &ItemOurs{PaymentID: *id, OrderRef: *order, Status: *status, Money: provider.Money{Amount: *amount, Currency: *currency}, NeedsAnswer: *waits}
	}
	if word != nil {
		i.Theirs = &ItemTheirs{Status: *word, Outcome: *outcome, Money: provider.Money{Amount: *theirAmount, Currency: *theirCurrency}}
	}
	return i, nil
}

// StreamRunItems calls fn with every item of a run, in the list's order.
func (s *Store) StreamRunItems(ctx context.Context, runID uuid.UUID, finding string, fn func(RunItem) error) error {
	q := ItemQuery{Finding: finding, Limit: 500}
	for {
		page, err := s.RunItems(ctx, runID, q)
		if err != nil {
			return err
		}
		for _, i := range page.Items {
			if err := fn(i); err != nil {
				return err
			}
		}
		if !page.Older {
			return nil
		}
		place := page.Items[len(page.Items)-1].Place()
		q.After = &place
	}
}

// Sighting is a run that found an object at the provider and not here.
type Sighting struct {
	RunID  uuid.UUID
	At     time.Time
	Detail string
}

// Stranger is what is known of an object at a provider that no payment here names, or
// did not when it was found.
type Stranger struct {
	Object *ProviderObject // nil: only runs or events named it, as with a refund
	Ours   *Payment        // whose it turned out to be
	Events []InboxEvent    // that name it and no payment, newest first
	Seen   []Sighting      // newest first
}

// strangerRows bounds the events and runs of a Stranger.
const strangerRows = 20

// Stranger reads what is known of an object. ErrNotFound: nothing ever named it.
func (s *Store) Stranger(ctx context.Context, providerName, objectID string) (st Stranger, err error) {
	var b pgx.Batch
	var objects []ProviderObject
	var owners []Payment
	queue(&b, &objects, scanSeenObject, "SELECT "+seenObjectColumns+" FROM provider_objects WHERE provider = $1 AND object_id = $2", providerName, objectID)
	queue(&b, &owners, rowToPayment, "SELECT "+paymentColumns+` FROM payments WHERE id =
		(SELECT payment_id FROM provider_objects WHERE provider = $1 AND object_id = $2)`, providerName, objectID)
	queue(&b, &st.Events, scanInbox, "SELECT "+inboxColumns+` FROM webhook_events
		WHERE payment_id IS NULL AND provider_object_id <> '' AND provider_object_id = $2 AND provider = $1 ORDER BY id DESC LIMIT $3`,
		providerName, objectID, strangerRows)
	queue(&b, &st.Seen, pgx.RowToStructByPos[Sighting], `SELECT i.run_id, i.at, i.detail FROM reconciliation_items i
		JOIN reconciliation_runs r ON r.id = i.run_id AND r.provider = $1
		WHERE i.finding = 'theirs_only' AND i.object_id = $2 ORDER BY i.at DESC LIMIT $3`, providerName, objectID, strangerRows)
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return st, fmt.Errorf("object %s of %s: %w", objectID, providerName, err)
	}
	if len(objects)+len(st.Events)+len(st.Seen) == 0 {
		return st, fmt.Errorf("object %s of %s: %w", objectID, providerName, ErrNotFound)
	}
	if len(objects) > 0 {
		st.Object = &objects[0]
	}
	if len(owners) > 0 {
		st.Ours = &owners[0]
	}
	return st, nil
}
