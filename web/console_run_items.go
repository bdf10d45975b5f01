package web

import (
	"context"
	"encoding/csv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/messages"
)

// runPage answers one run with its findings; all of it is live.
func (s *Server) runPage(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	q, err := readItemQuery(c)
	if err != nil {
		return err
	}
	run, err := s.cfg.Store.ReconciliationRun(c.Request().Context(), id)
	if err != nil {
		return err
	}
	title := views.T(s.viewContext(c), "run.title", "Provider", run.Provider)
	return s.livePage(c, "reconciliation", title, store.TopicRuns, func(ctx context.Context, rev string) (templ.Component, error) {
		v, err := s.runView(ctx, id, q)
		v.Live = region(c, "run", store.TopicRuns, rev)
		return views.Run(v), err
	})
}

// readItemQuery reads which of a run's items are meant.
func readItemQuery(c echo.Context) (store.ItemQuery, error) {
	q := store.ItemQuery{Finding: c.QueryParam("finding"), Limit: rowsPerPage}
	if q.Finding != "" && !slices.Contains(store.Findings, q.Finding) {
		return q, invalid("finding", "is not one of the choices")
	}
	for name, to := range map[string]**store.ItemPlace{"after": &q.After, "before": &q.Before} {
		v := c.QueryParam(name)
		if v == "" {
			continue
		}
		place, ok := readItemPlace(v)
		if !ok {
			return q, invalid(name, "is not a page")
		}
		*to = &place
	}
	return q, nil
}

// itemPlace writes a place into an address: exception or match, our id, their id.
func itemPlace(i store.RunItem) string {
	p := i.Place()
	return strings.Join([]string{strconv.FormatBool(p.Matched), p.PaymentID.String(), p.ObjectID}, ".")
}

func readItemPlace(v string) (p store.ItemPlace, ok bool) {
	parts := strings.SplitN(v, ".", 3)
	if len(parts) != 3 {
		return p, false
	}
	var matchedErr, idErr error
	p.Matched, matchedErr = strconv.ParseBool(parts[0])
	p.PaymentID, idErr = uuid.Parse(parts[1])
	p.ObjectID = parts[2]
	return p, matchedErr == nil && idErr == nil
}

func (s *Server) runView(ctx context.Context, id uuid.UUID, q store.ItemQuery) (views.RunView, error) {
	run, err := s.cfg.Store.ReconciliationRun(ctx, id)
	if err != nil {
		return views.RunView{}, err
	}
	page, err := s.cfg.Store.RunItems(ctx, id, q)
	if err != nil {
		return views.RunView{}, err
	}
	rows, err := s.runRows(ctx, []store.Run{run})
	if err != nil {
		return views.RunView{}, err
	}
	path, values := views.RunPath(id.String()), with(nil, "finding", q.Finding)
	v := views.RunView{Run: rows[0], Findings: store.Findings, Tabs: runTabs(ctx, rows[0], q.Finding), Export: address(path+"/items.csv", values)}
	for _, i := range page.Items {
		v.Items = append(v.Items, runItemRow(run.Provider, i))
	}
	switch n := len(page.Items); {
	case n == 0 && q.After == nil && q.Before == nil:
	case n == 0: // beyond an end: back to the first page
		v.Pages.Newer = address(path, values)
	default:
		if page.Older {
			v.Pages.Older = address(path, with(values, "after", itemPlace(page.Items[n-1])))
		}
		if page.Newer {
			v.Pages.Newer = address(path, with(values, "before", itemPlace(page.Items[0])))
		}
	}
	return v, nil
}

func runItemRow(providerName string, i store.RunItem) views.RunItemRow {
	row := views.RunItemRow{Finding: i.Finding, Provider: providerName, ObjectID: i.ObjectID, Detail: i.Detail, At: i.At}
	if i.PaymentID != nil {
		row.PaymentID = i.PaymentID.String()
	}
	if o := i.Ours; o != nil {
		row.PaymentID, row.OrderRef, row.Status, row.NeedsAnswer = o.PaymentID.String(), o.OrderRef, string(o.Status), o.NeedsAnswer
		row.Amount, row.Currency = o.Money.Amount, o.Money.Currency
	}
	if t := i.Theirs; t != nil {
		row.Theirs = &views.TheirSide{Status: t.Status, Amount: t.Money.Amount, Currency: t.Money.Currency}
	}
	return row
}

// itemColumns head the CSV of a run's items; data for programs, in English. The two
// sides are as they stand when the file is made.
var itemColumns = []string{"run_id", "provider", "finding", "detail", "found_at_utc", "found_at_local", "zone", "payment_id", "order_ref",
	"our_status", "our_amount_minor", "our_amount", "our_currency", "object_id", "their_status", "their_amount_minor", "their_amount", "their_currency"}

// exportRun streams a run's items under the chosen finding, whole.
func (s *Server) exportRun(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	q, err := readItemQuery(c)
	if err != nil {
		return err
	}
	run, err := s.cfg.Store.ReconciliationRun(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.streamCSV(c, "reconciliation", func(ctx context.Context, w *csv.Writer, flush func() error) error {
		zone := messages.From(ctx).Zone
		if err := w.Write(itemColumns); err != nil {
			return err
		}
		n := 0
		return s.cfg.Store.StreamRunItems(ctx, id, q.Finding, func(i store.RunItem) error {
			if err := w.Write(itemRecord(run, i, zone)); err != nil {
				return err
			}
			if n++; n%exportBatch == 0 {
				return flush()
			}
			return nil
		})
	})
}

func itemRecord(run store.Run, i store.RunItem, zone *time.Location) []string {
	r := runItemRow(run.Provider, i)
	row := []string{run.ID.String(), run.Provider, i.Finding, i.Detail, stamp(&i.At, time.UTC), stamp(&i.At, zone), zone.String(),
		r.PaymentID, r.OrderRef, r.Status, "", "", "", i.ObjectID, "", "", "", ""}
	for n, v := range row {
		row[n] = formulaSafe(v)
	}
	money := func(at int, amount int64, currency string) { // our own writing of a number: a minus in front is no formula
		row[at], row[at+1], row[at+2] = strconv.FormatInt(amount, 10), provider.FormatMinor(amount, currency), formulaSafe(currency)
	}
	if i.Ours != nil {
		money(10, r.Amount, r.Currency)
	}
	if t := r.Theirs; t != nil {
		row[14] = formulaSafe(t.Status)
		money(15, t.Amount, t.Currency)
	}
	return row
}

// objectPage answers what a provider has that no payment here asked for, with what a
// person can do about it.
func (s *Server) objectPage(c echo.Context) error {
	name, id := c.Param("provider"), c.QueryParam("id")
	if id == "" || tooLong(id) {
		return store.ErrNotFound
	}
	ctx := s.viewContext(c)
	st, err := s.cfg.Store.Stranger(ctx, name, id)
	if err != nil {
		return err
	}
	v := views.StrangerView{Provider: name, ID: id}
	if st.Ours != nil {
		row := paymentRow(*st.Ours)
		v.Payment, v.NeedsAnswer = &row, st.Ours.Status == store.Unknown || len(st.Ours.NeedsReview) > 0
	}
	if o := st.Object; o != nil {
		v.Object = &views.StrangerFacts{Status: o.Status, Outcome: o.Outcome, Reference: o.Reference, Key: o.OperationKey, Source: o.Source,
			Amount: o.Amount, Currency: o.Currency, FirstSeenAt: o.FirstSeenAt, SeenAt: o.SeenAt}
		v.Body, v.Searches = masked(o.Raw), objectSearches(ctx, *o)
	}
	for _, e := range st.Events {
		v.Events = append(v.Events, webhookRow(e))
	}
	for _, seen := range st.Seen {
		v.Seen = append(v.Seen, views.StrangerSeen{RunID: seen.RunID.String(), Detail: seen.Detail, At: seen.At})
	}
	if a, ok := s.cfg.Registry.Get(name); ok && a.Capabilities().Listing {
		v.Start = &views.ActionLink{Label: "object.reconcile", Href: startPath(name), Icon: "refresh", Needs: s.needsOperator(c)}
	}
	return s.renderFramed(c, http.StatusOK, "reconciliation", views.T(ctx, "object.title", "Provider", name), views.Stranger(v))
}

// objectSearches look in our books for what an object is about.
func objectSearches(ctx context.Context, o store.ProviderObject) (out []views.ActionLink) {
	search := func(label, text string) {
		out = append(out, views.ActionLink{Label: label, Href: string(address(views.PathSearch, url.Values{"q": {text}}))})
	}
	if o.Amount > 0 && isCurrencyCode(o.Currency) {
		search(views.Money(ctx, o.Amount, o.Currency), provider.FormatMinor(o.Amount, o.Currency)+" "+o.Currency)
	}
	if o.Reference != "" && !tooLong(o.Reference) {
		search(o.Reference, o.Reference)
	}
	return out
}
