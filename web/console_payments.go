package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// reviewReasons lists the review reasons in the order the filter shows them.
var reviewReasons = []string{store.ReviewAmountMismatch, store.ReviewDuplicate, store.ReviewContradiction,
	store.ReviewKeyExpired, store.ReviewNoStatusAPI, store.ReviewUnmapped, store.ReviewRefundsDiffer, store.ReviewAged}

// paymentQuery is the list's address, read: the filter as typed, as meant, and the page.
type paymentQuery struct {
	form   views.PaymentFilter
	filter store.PaymentFilter
	page   store.Keyset
	values url.Values // the filter without the page
}

// readPaymentQuery reads filters and page from the address. What cannot be read is in
// form.Errors, and then the list is not shown: a filter that is ignored lies.
func (s *Server) readPaymentQuery(ctx context.Context, q url.Values) paymentQuery {
	f := views.PaymentFilter{Status: q.Get("status"), Review: q.Get("review"), Provider: q.Get("provider"),
		Currency: strings.ToUpper(strings.TrimSpace(q.Get("currency"))), From: q.Get("from"), To: q.Get("to"),
		Text: strings.TrimSpace(q.Get("text")), Amount: strings.TrimSpace(q.Get("amount")),
		Order: strings.TrimSpace(q.Get("order")), Reason: q.Get("reason"),
		Min: strings.TrimSpace(q.Get("min")), Max: strings.TrimSpace(q.Get("max")),
		Providers: s.providerNames(), Reviews: reviewReasons, Errors: map[string]string{}}
	r := paymentQuery{page: store.Keyset{Limit: rowsPerPage}}
	bad := func(field, id string) { f.Errors[field] = views.T(ctx, id) }
	r.filter.Status, r.filter.Review = store.Status(f.Status), f.Review
	if f.Status != "" && !slices.Contains(store.Statuses, r.filter.Status) {
		bad("status", "payments.bad.status")
	}
	if f.Review != "" && f.Review != "any" && !slices.Contains(reviewReasons, f.Review) {
		bad("review", "payments.bad.review")
	}
	if r.filter.Provider = f.Provider; f.Provider != "" && !slices.Contains(f.Providers, f.Provider) {
		bad("provider", "payments.bad.provider")
	}
	if r.filter.Currency = f.Currency; f.Currency != "" && !isCurrencyCode(f.Currency) {
		bad("currency", "payments.bad.currency")
	}
	if r.filter.Text = f.Text; tooLong(f.Text) {
		bad("text", "payments.bad.text")
	}
	if r.filter.Order = f.Order; tooLong(f.Order) {
		bad("order", "payments.bad.text")
	}
	if r.filter.Reason = f.Reason; tooLong(f.Reason) {
		bad("reason", "payments.bad.text")
	}
	r.filter.Known = f.Providers
	readRange(f, &r.filter, bad)
	if f.Amount != "" {
		if r.filter.Amounts = parseMoney(f.Amount, f.Currency); len(r.filter.Amounts) == 0 {
			bad("amount", "payments.bad.amount")
		}
	}
	readDates(ctx, f, &r.filter, bad)
	readKeyset(q, &r.page, bad)
	f.Active = f.Provider+f.Currency+f.From+f.To+f.Text+f.Amount+f.Review+f.Order+f.Reason+f.Min+f.Max != ""
	r.form, r.values = f, filterValues(f)
	return r
}

// readRange reads the least and the most an amount may be, in the chosen currency:
// across currencies such a range means nothing.
func readRange(f views.PaymentFilter, out *store.PaymentFilter, bad func(field, id string)) {
	for _, end := range []struct {
		field, typed string
		to           *int64
	}{{"min", f.Min, &out.Min}, {"max", f.Max, &out.Max}} {
		if end.typed == "" {
			continue
		}
		if f.Currency == "" {
			bad("currency", "payments.bad.range_currency")
			return
		}
		found := parseMoney(end.typed, f.Currency)
		if len(found) != 1 || found[0].Currency != f.Currency {
			bad(end.field, "payments.bad.amount")
			continue
		}
		*end.to = found[0].Amount
	}
	if out.Min > 0 && out.Max > 0 && out.Max < out.Min {
		bad("max", "payments.bad.amounts")
	}
}

// readDates reads whole days in the reader's zone; the end day is included.
func readDates(ctx context.Context, f views.PaymentFilter, out *store.PaymentFilter, bad func(field, id string)) {
	zone := messages.From(ctx).Zone
	if f.From != "" {
		from, err := time.ParseInLocation(time.DateOnly, f.From, zone)
		if err != nil {
			bad("from", "payments.bad.date")
		}
		out.From = from
	}
	if f.To != "" {
		to, err := time.ParseInLocation(time.DateOnly, f.To, zone)
		if err != nil {
			bad("to", "payments.bad.date")
			return
		}
		out.To = to.AddDate(0, 0, 1)
	}
	if !out.From.IsZero() && !out.To.IsZero() && !out.From.Before(out.To) {
		bad("to", "payments.bad.range")
	}
}

func readKeyset(q url.Values, k *store.Keyset, bad func(field, id string)) {
	for name, to := range map[string]*uuid.UUID{"after": &k.After, "before": &k.Before, "top": &k.Top} {
		if v := q.Get(name); v != "" {
			id, err := uuid.Parse(v)
			if err != nil {
				bad("after", "payments.bad.cursor")
			}
			*to = id
		}
	}
}

// filterValues is the filter as an address, in a stable order and without empty parts.
func filterValues(f views.PaymentFilter) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"status": f.Status, "review": f.Review, "provider": f.Provider,
		"currency": f.Currency, "from": f.From, "to": f.To, "text": f.Text, "amount": f.Amount,
		"order": f.Order, "reason": f.Reason, "min": f.Min, "max": f.Max} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// address joins a path and a query.
func address(path string, v url.Values) templ.SafeURL {
	if len(v) == 0 {
		return templ.SafeURL(path)
	}
	return templ.SafeURL(path + "?" + v.Encode())
}

// with returns a copy of v with one value set; an empty one is removed.
func with(v url.Values, name, value string) url.Values {
	out := url.Values{}
	for k, vs := range v {
		out[k] = slices.Clone(vs)
	}
	if value == "" {
		out.Del(name)
	} else {
		out.Set(name, value)
	}
	return out
}

// listPaymentsPage answers the payments list, whole or its live rows.
func (s *Server) listPaymentsPage(c echo.Context) error {
	ctx := s.viewContext(c)
	q := s.readPaymentQuery(ctx, c.QueryParams())
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	if isHTMX(c) {
		return s.paymentsFragment(c, q, func(ctx context.Context, rev string) (templ.Component, error) {
			v, err := s.paymentList(ctx, q, rev)
			return views.PaymentList(v), err
		})
	}
	v := views.PaymentsView{Page: s.page(c, "payments", views.T(ctx, "payments.title")), Filter: q.form,
		Export: address(views.PathPayments+".csv", q.values), Clear: address(views.PathPayments, nil)}
	rev := s.a.hub.rev(store.TopicPayments)
	if len(q.form.Errors) > 0 {
		v.Tabs = views.TabsView{Tabs: paymentTabs(ctx, q, store.PaymentCounts{})}
		return s.render(c, http.StatusUnprocessableEntity, views.Payments(v))
	}
	var err error
	if v.Tabs, err = s.paymentTabs(ctx, q, rev); err != nil {
		return err
	}
	if v.Filter.Currencies, v.Filter.Reasons, err = s.cfg.Store.PaymentChoices(ctx); err != nil {
		return err
	}
	v.Filter.Currencies = including(v.Filter.Currencies, q.form.Currency)
	v.Filter.Reasons = including(v.Filter.Reasons, q.form.Reason)
	v.Bulk = views.BulkBar{Action: views.PathPayments + "/bulk", Filter: hiddenFields(q.values), Recent: views.PathBulk, Max: store.BulkMax,
		Selected: views.T(ctx, "bulk.ask_selected"), All: views.T(ctx, "bulk.ask_all")}
	if v.List, err = s.paymentList(ctx, q, rev); err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.Payments(v))
}

// including is choices with the one that is chosen.
func including(choices []string, chosen string) []string {
	if chosen == "" || slices.Contains(choices, chosen) {
		return choices
	}
	return append(choices, chosen)
}

// hiddenFields carries a filter in a form, in a stable order.
func hiddenFields(v url.Values) (out []components.HiddenField) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		for _, value := range v[name] {
			out = append(out, components.HiddenField{Name: name, Value: value})
		}
	}
	return out
}

// paymentsTabs answers the live tabs.
func (s *Server) paymentsTabs(c echo.Context) error {
	q := s.readPaymentQuery(s.viewContext(c), c.QueryParams())
	return s.paymentsFragment(c, q, func(ctx context.Context, rev string) (templ.Component, error) {
		v, err := s.paymentTabs(ctx, q, rev)
		return views.PaymentTabs(v), err
	})
}

func (s *Server) paymentsFragment(c echo.Context, q paymentQuery, part build) error {
	if len(q.form.Errors) > 0 {
		return invalid("filter", "cannot be read")
	}
	return s.fragment(c, store.TopicPayments, part)
}

func (s *Server) paymentTabs(ctx context.Context, q paymentQuery, rev string) (views.TabsView, error) {
	counts, err := s.cfg.Store.CountPayments(ctx, q.filter)
	return views.TabsView{Tabs: paymentTabs(ctx, q, counts), Live: components.LiveRegion{ID: "payment-tabs",
		Topic: store.TopicPayments, URL: string(address(views.PathPayments+"/tabs", q.values)), Rev: rev}}, err
}

// paymentTabs are the statuses with their counts under the other filters.
func paymentTabs(ctx context.Context, q paymentQuery, counts store.PaymentCounts) []components.Tab {
	base := with(with(q.values, "status", ""), "review", "")
	count := func(n int) string {
		if counts.ByStatus == nil {
			return ""
		}
		text := messages.Bounded(ctx, int64(min(n, store.CountCap+1)), store.CountCap)
		if counts.AtLeast && n <= store.CountCap {
			text += "+"
		}
		return text
	}
	tabs := []components.Tab{{Label: views.T(ctx, "payments.tab.all"), Href: address(views.PathPayments, base),
		Count: count(counts.All), Current: q.form.Status == "" && q.form.Review == ""}}
	for _, st := range store.Statuses {
		tabs = append(tabs, components.Tab{Label: views.Opt(ctx, "status.", string(st)), Status: string(st),
			Href: address(views.PathPayments, with(base, "status", string(st))), Count: count(counts.ByStatus[st]),
			Current: q.form.Status == string(st)})
	}
	return append(tabs, components.Tab{Label: views.T(ctx, "payments.tab.review"), Count: count(counts.Review),
		Href: address(views.PathPayments, with(base, "review", "any")), Current: q.form.Status == "" && q.form.Review == "any"})
}

// paymentList reads one page of the list. The top page's address as a live region keeps
// the rows it began with: what is newer is counted and waits.
func (s *Server) paymentList(ctx context.Context, q paymentQuery, rev string) (views.PaymentListView, error) {
	page, err := s.cfg.Store.ListPayments(ctx, q.filter, q.page)
	if err != nil {
		return views.PaymentListView{}, err
	}
	v := views.PaymentListView{Filtered: len(q.values) > 0, Rows: paymentRows(page.Payments),
		Pages: paymentPages(q, page), Show: address(views.PathPayments, q.values)}
	if err := s.countNotes(ctx, page.Payments, func(i, n int) { v.Rows[i].Notes = n }); err != nil {
		return v, err
	}
	place := q.values
	switch top := topOf(q, page); {
	case q.page.After != uuid.Nil:
		place = with(place, "after", q.page.After.String())
	case q.page.Before != uuid.Nil:
		place = with(place, "before", q.page.Before.String())
	case top != uuid.Nil:
		place = with(place, "top", top.String())
		newer, err := s.cfg.Store.CountNewer(ctx, q.filter, top)
		if err != nil {
			return v, err
		}
		v.Newer = int64(newer)
	}
	v.Live = components.LiveRegion{ID: "payment-list", Topic: store.TopicPayments, URL: string(address(views.PathPayments, place)), Rev: rev}
	return v, nil
}

// topOf is the newest row of the top page; Nil while there is none.
func topOf(q paymentQuery, page store.PaymentPage) uuid.UUID {
	if q.page.Top == uuid.Nil && len(page.Payments) > 0 {
		return page.Payments[0].ID
	}
	return q.page.Top
}

// paymentPages links the neighbours of a page. One past the end leads back to the top.
func paymentPages(q paymentQuery, page store.PaymentPage) (p components.Pages) {
	n := len(page.Payments)
	if n == 0 {
		if q.page.After != uuid.Nil || q.page.Before != uuid.Nil {
			p.Newer = address(views.PathPayments, q.values)
		}
		return p
	}
	if page.Older {
		p.Older = address(views.PathPayments, with(q.values, "after", page.Payments[n-1].ID.String()))
	}
	if page.Newer {
		p.Newer = address(views.PathPayments, with(q.values, "before", page.Payments[0].ID.String()))
	}
	return p
}

func paymentRows(ps []store.Payment) []views.PaymentRow {
	rows := make([]views.PaymentRow, 0, len(ps))
	for _, p := range ps {
		rows = append(rows, paymentRow(p))
	}
	return rows
}

// countNotes tells how many notes each of the payments has, by its place in the list.
func (s *Server) countNotes(ctx context.Context, ps []store.Payment, set func(i, notes int)) error {
	ids := make([]uuid.UUID, len(ps))
	for i, p := range ps {
		ids[i] = p.ID
	}
	notes, err := s.cfg.Store.NoteCounts(ctx, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		set(i, notes[id])
	}
	return nil
}

func paymentRow(p store.Payment) views.PaymentRow {
	customer := p.CustomerName
	if customer == "" {
		customer = p.CustomerEmail
	}
	return views.PaymentRow{ID: p.ID.String(), OrderRef: p.OrderRef, Customer: customer, Provider: p.Provider,
		Status: string(p.Status), Reason: p.StatusReason, Review: p.NeedsReview, Amount: p.Amount, Currency: p.Currency,
		CreatedAt: p.CreatedAt, NextAt: p.NextCheckAt, NextWhy: p.NextCheckWhy}
}
