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

// PaymentFilter narrows the payments list. Zero fields do not narrow.
type PaymentFilter struct {
	Status   Status
	Review   string // a review reason, or "any"
	Provider string
	Currency string
	From     time.Time // created at or after
	To       time.Time // created before
	Reason   string    // the machine-readable reason of the status, whole
	Order    string    // the beginning of an order reference
	// Text is the beginning of an order reference, customer name or e-mail address,
	// or a whole payment id or provider id.
	Text string
	// Known providers: a provider's id is looked up at each of them.
	Known []string
	// Min and Max bound the amount in minor units; they mean something with a Currency only.
	Min, Max int64

	narrow []uuid.UUID // what the text names, once gathered; nil: not, or too many
	// Amounts: any of these exact amounts. One typed number can mean several, as
	// currencies differ in decimals.
	Amounts []provider.Money
}

// Keyset is a place in a list ordered newest first: rows older than After, or newer
// than Before. Both zero: the top.
type Keyset struct {
	After  uuid.UUID
	Before uuid.UUID
	Top    uuid.UUID // nothing newer than this row: the top of a list that stays still while it is read
	Limit  int       // rows per page, 1–200 (default 50)
}

func (k Keyset) limit() int {
	if k.Limit < 1 || k.Limit > 200 {
		return 50
	}
	return k.Limit
}

// PaymentPage is one page of payments, newest first.
type PaymentPage struct {
	Payments []Payment
	Older    bool // there are rows after the last one
	Newer    bool // there are rows before the first one
}

func (f PaymentFilter) where() *where {
	w := &where{}
	if f.Status != "" {
		w.and("status = ?", f.Status)
	}
	switch f.Review {
	case "":
	case "any":
		w.and("needs_review <> '{}'")
	default:
		w.and("needs_review <> '{}' AND ? = ANY(needs_review)", f.Review)
	}
	if f.Provider != "" {
		w.and("provider = ?", f.Provider)
	}
	if f.Currency != "" {
		w.and("currency = ?", f.Currency)
	}
	if f.Reason != "" {
		w.and("status_reason <> '' AND status_reason = ?", f.Reason)
	}
	if f.Order != "" {
		w.and(beginsWith("order_ref"), f.Order, f.Order)
	}
	if f.Min > 0 {
		w.and("amount >= ?", f.Min)
	}
	if f.Max > 0 {
		w.and("amount <= ?", f.Max)
	}
	if !f.From.IsZero() {
		w.and("created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.and("created_at < ?", f.To)
	}
	f.whereText(w)
	if len(f.Amounts) > 0 {
		amounts, currencies := splitMoney(f.Amounts)
		w.and("(amount, currency) IN (SELECT * FROM unnest(?::bigint[], ?::text[]))", amounts, currencies)
	}
	return w
}

func (f PaymentFilter) whereText(w *where) {
	if f.Text == "" {
		return
	}
	if id, err := uuid.Parse(f.Text); err == nil {
		w.and("id = ?", id)
		return
	}
	if f.narrow != nil {
		w.and("id = ANY(?)", f.narrow)
		return
	}
	arms, args := f.textArms()
	w.and("("+strings.Join(arms, " OR ")+")", args...)
}

// textArms are the meanings of the text, each a range of an index of its own.
func (f PaymentFilter) textArms() (arms []string, args []any) {
	for _, column := range []string{"order_ref", "customer_email", "customer_name"} {
		arm := beginsWith(column)
		if column != "order_ref" {
			arm = column + " <> '' AND " + arm
		}
		arms, args = append(arms, arm), append(args, f.Text, f.Text)
	}
	if len(f.Known) > 0 {
		return append(arms, "provider_payment_id = ? AND provider = ANY(?)"), append(args, f.Text, f.Known)
	}
	return append(arms, "provider_payment_id = ?"), append(args, f.Text)
}

// narrowMost is how many payments a text may name for their ids to be gathered first.
const narrowMost = 1000

// gathered returns the filter with the ids its text names, if they are few: the planner
// cannot know that they are, and would walk the whole list to find them. A text that
// names many is found quickly by walking.
func (f PaymentFilter) gathered(ctx context.Context, q querier) (PaymentFilter, error) {
	if f.Text == "" || f.narrow != nil {
		return f, nil
	}
	if _, err := uuid.Parse(f.Text); err == nil {
		return f, nil
	}
	w := &where{}
	arms, args := f.textArms()
	parts := make([]string, len(arms))
	for i, arm := range arms {
		n := strings.Count(arm, "?")
		w.and(arm, args[:n]...)
		args = args[n:]
		parts[i] = fmt.Sprintf("(SELECT id FROM payments WHERE %s LIMIT %d)", w.conds[i], narrowMost+1)
	}
	rows, err := q.Query(ctx, strings.Join(parts, " UNION ALL "), w.planned()...)
	if err != nil {
		return f, fmt.Errorf("gather payments: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return f, fmt.Errorf("gather payments: %w", err)
	}
	if len(ids) <= narrowMost {
		f.narrow = append([]uuid.UUID{}, ids...)
	}
	return f, nil
}

// beginsWith is the condition that a column begins with a text, whatever the case. It
// takes the text twice and is a range of the index on the folded column.
func beginsWith(column string) string {
	folded := "lower(" + column + `) COLLATE "C"`
	return "(" + folded + " >= lower(?) AND " + folded + " < lower(?) || chr(1114111))"
}

func splitMoney(ms []provider.Money) (amounts []int64, currencies []string) {
	for _, m := range ms {
		amounts, currencies = append(amounts, m.Amount), append(currencies, m.Currency)
	}
	return amounts, currencies
}

// dated reports whether the list is a range of creation times; then it is in their
// order, so that it begins at the range and not at the top of the table. Otherwise it is
// in the order of ids, which are made in the same order.
func (f PaymentFilter) dated() bool { return !f.From.IsZero() || !f.To.IsZero() }

func (f PaymentFilter) order(direction string) string {
	if f.dated() {
		return "created_at " + direction + ", id " + direction
	}
	return "id " + direction
}

// beyond narrows to one side of a row.
func (f PaymentFilter) beyond(w *where, side string, id uuid.UUID) {
	if f.dated() {
		w.and("(created_at, id) "+side+" ((SELECT created_at FROM payments WHERE id = ?), ?::uuid)", id, id)
		return
	}
	w.and("id "+side+" ?", id)
}

// ListPayments reads one page, newest first.
func (s *Store) ListPayments(ctx context.Context, f PaymentFilter, k Keyset) (PaymentPage, error) {
	f, err := f.gathered(ctx, s.pool)
	if err != nil {
		return PaymentPage{}, err
	}
	sql, args := f.page(k)
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return PaymentPage{}, fmt.Errorf("list payments: %w", err)
	}
	all, err := pgx.CollectRows(rows, rowToPayment)
	if err != nil {
		return PaymentPage{}, fmt.Errorf("list payments: %w", err)
	}
	list, more := pageOf(all, k.limit())
	if k.Before != uuid.Nil {
		slices.Reverse(list)
		return PaymentPage{Payments: list, Newer: more, Older: true}, nil
	}
	return PaymentPage{Payments: list, Older: more, Newer: k.After != uuid.Nil}, nil
}

// page is the statement of one page, with a row more than the page has.
func (f PaymentFilter) page(k Keyset) (sql string, args []any) {
	w, order := f.where(), "DESC"
	switch {
	case k.Before != uuid.Nil:
		f.beyond(w, ">", k.Before)
		order = "ASC" // nearest newer rows first
	case k.After != uuid.Nil:
		f.beyond(w, "<", k.After)
	case k.Top != uuid.Nil:
		f.beyond(w, "<=", k.Top)
	}
	// The ids first: that much an index answers alone, and it is chosen for it.
	sql = fmt.Sprintf("SELECT %s FROM payments WHERE id IN (SELECT id FROM payments %s ORDER BY %s LIMIT %s) ORDER BY %s",
		paymentColumns, w, f.order(order), w.arg(k.limit()+1), f.order(order))
	return sql, w.planned()
}

// PaymentCounts holds bounded counts by tab, each at most CountCap+1, which means
// "more than CountCap".
type PaymentCounts struct {
	All      int
	Review   int // any review reason, whatever the status
	ByStatus map[Status]int
	// AtLeast: only the newest countedNewest rows were looked at, there are more, and each
	// count may be higher.
	AtLeast bool
}

// countedNewest is how many rows are looked at under a filter that no index answers by
// status: 10,000 of them took 70 ms of a page's time.
const countedNewest = 2000

// countPatience is how long counting may take. A list is worth showing without counts.
const countPatience = "100ms"

// CountPayments counts the list's tabs under the filter, ignoring its status and review.
// The cost is bounded whatever the filter: by index ranges where there is one per status,
// else by looking at the newest rows only. ByStatus is nil when even that took too long.
func (s *Store) CountPayments(ctx context.Context, f PaymentFilter) (PaymentCounts, error) {
	f.Status, f.Review = "", ""
	count := s.countNewest
	if f.plain() {
		count = s.countEach
	}
	var c PaymentCounts
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, "SET LOCAL statement_timeout = '"+countPatience+"'"); err != nil {
			return err
		}
		if f, err = f.gathered(ctx, tx); err == nil {
			c, err = count(ctx, tx, f)
		}
		return err
	})
	if sqlState(err) == codeCancelled && ctx.Err() == nil {
		return PaymentCounts{}, nil
	}
	if err != nil {
		return c, fmt.Errorf("count payments: %w", err)
	}
	return c, nil
}

// codeCancelled: a statement ran into its timeout.
const codeCancelled = "57014"

// plain reports whether each status has an index range under the filter.
func (f PaymentFilter) plain() bool {
	f.Provider, f.Known = "", nil
	return len(f.where().conds) == 0
}

func (s *Store) countEach(ctx context.Context, tx pgx.Tx, f PaymentFilter) (PaymentCounts, error) {
	w := f.where()
	capped := func(cond string) string {
		c := where{conds: append(slices.Clone(w.conds), cond)}
		return fmt.Sprintf("(SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x)", c.String(), CountCap+1)
	}
	sql := "SELECT " + capped("true") + ", " + capped("needs_review <> '{}'")
	for _, st := range Statuses {
		sql += ", " + capped("status = '"+string(st)+"'")
	}
	c := PaymentCounts{ByStatus: make(map[Status]int, len(Statuses))}
	counts := make([]int, len(Statuses))
	dest := []any{&c.All, &c.Review}
	for i := range counts {
		dest = append(dest, &counts[i])
	}
	if err := tx.QueryRow(ctx, sql, w.args...).Scan(dest...); err != nil {
		return c, err
	}
	for i, st := range Statuses {
		c.ByStatus[st] = counts[i]
	}
	return c, nil
}

func (s *Store) countNewest(ctx context.Context, tx pgx.Tx, f PaymentFilter) (PaymentCounts, error) {
	w := f.where()
	sql := fmt.Sprintf(`SELECT status, needs_review <> '{}', count(*) FROM
		(SELECT status, needs_review FROM payments %s ORDER BY %s LIMIT %d) newest GROUP BY 1, 2`, w, f.order("DESC"), countedNewest+1)
	c := PaymentCounts{ByStatus: make(map[Status]int, len(Statuses))}
	rows, err := tx.Query(ctx, sql, w.planned()...)
	if err != nil {
		return c, err
	}
	var st Status
	var review bool
	var n int
	_, err = pgx.ForEachRow(rows, []any{&st, &review, &n}, func() error {
		c.All += n
		c.ByStatus[st] += n
		if review {
			c.Review += n
		}
		return nil
	})
	if c.AtLeast = c.All > countedNewest; c.AtLeast {
		c.All = countedNewest
	}
	return c, err
}

// CountNewer counts the payments under the filter that are newer than top, bounded by
// CountCap+1.
func (s *Store) CountNewer(ctx context.Context, f PaymentFilter, top uuid.UUID) (n int, err error) {
	if f, err = f.gathered(ctx, s.pool); err != nil {
		return 0, err
	}
	w := f.where()
	f.beyond(w, ">", top)
	sql := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM payments %s LIMIT %d) x", w, CountCap+1)
	if err := s.pool.QueryRow(ctx, sql, w.planned()...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count newer payments: %w", err)
	}
	return n, nil
}

// PaymentChoices lists the currencies and status reasons of recent payments, for the
// filter's choices. Reasons that a person wrote are no choice.
func (s *Store) PaymentChoices(ctx context.Context) (currencies, reasons []string, err error) {
	err = s.pool.QueryRow(ctx, `WITH recent AS MATERIALIZED (SELECT currency, status_reason FROM payments ORDER BY id DESC LIMIT 2000)
		SELECT coalesce((SELECT array_agg(DISTINCT currency) FROM recent), '{}'),
			coalesce((SELECT array_agg(DISTINCT status_reason) FROM recent WHERE status_reason ~ '^[a-z0-9_]{1,60}$'), '{}')`).Scan(&currencies, &reasons)
	if err != nil {
		return nil, nil, fmt.Errorf("payment choices: %w", err)
	}
	return currencies, reasons, nil
}

// StreamPayments calls fn with every payment under the filter, newest first, in keyset
// pages: no transaction is held open for a slow reader, and memory stays flat.
func (s *Store) StreamPayments(ctx context.Context, f PaymentFilter, fn func(Payment) error) error {
	k := Keyset{Limit: 200}
	for {
		page, err := s.ListPayments(ctx, f, k)
		if err != nil {
			return err
		}
		for _, p := range page.Payments {
			if err := fn(p); err != nil {
				return err
			}
		}
		if !page.Older {
			return nil
		}
		k.After = page.Payments[len(page.Payments)-1].ID
	}
}

// rowToPayment adapts scanPayment to pgx.CollectRows.
func rowToPayment(row pgx.CollectableRow) (Payment, error) { return scanPayment(row) }
