package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
)

// Rows of an API page.
const (
	defaultPage = 50
	maxPage     = 200
)

// query reads URL parameters and gathers what is wrong with them. Unknown and doubled
// parameters are refused: a misspelt filter would silently list everything.
type query struct {
	values url.Values
	read   []string
	errors fieldErrors
}

func newQuery(c echo.Context) *query { return &query{values: c.QueryParams()} }

func (q *query) refuse(name, reason string) {
	q.errors = append(q.errors, fieldError{name, reason})
}

// text reads an optional parameter of at most most characters.
func (q *query) text(name string, most int) string {
	q.read = append(q.read, name)
	values := q.values[name]
	if len(values) > 1 {
		q.refuse(name, "is there more than once")
		return ""
	}
	if len(values) == 0 || values[0] == "" {
		return ""
	}
	if reason := textReason(values[0], 1, most); reason != "" {
		q.refuse(name, reason)
		return ""
	}
	return values[0]
}

// number reads an optional integer between least and most.
func (q *query) number(name string, least, most, absent int64) int64 {
	text := q.text(name, 20)
	if text == "" {
		return absent
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.refuse(name, "must be an integer from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
		return absent
	}
	return n
}

// time reads an optional RFC 3339 time.
func (q *query) time(name string) time.Time {
	text := q.text(name, 40)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		q.refuse(name, "must be an RFC 3339 time, e.g. 2026-03-02T14:02:11Z")
		return time.Time{}
	}
	return t.UTC()
}

// id reads an optional UUID.
func (q *query) id(name string) uuid.UUID {
	text := q.text(name, 40)
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		q.refuse(name, "is not a cursor of this list")
	}
	return id
}

// finish returns everything that is wrong, or nil.
func (q *query) finish() error {
	for name := range q.values {
		if !slices.Contains(q.read, name) {
			if !utf8.ValidString(name) {
				name = "?"
			}
			q.refuse(printable(name), "is not a known parameter")
		}
	}
	if len(q.errors) == 0 {
		return nil
	}
	return q.errors
}

// readAPIFilter reads the payment list's filters.
func (s *Server) readAPIFilter(q *query) store.APIFilter {
	f := store.APIFilter{
		Status:   store.Status(q.text("status", 20)),
		Provider: q.text("provider", maxOrderRef),
		OrderRef: q.text("order_ref", maxOrderRef),
		From:     q.time("created_from"),
		To:       q.time("created_to"),
	}
	if f.Status != "" && !slices.Contains(store.Statuses, f.Status) {
		q.refuse("status", "is not a payment status")
	}
	if _, known := s.cfg.Registry.Get(f.Provider); f.Provider != "" && !known {
		q.refuse("provider", "is not configured")
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		q.refuse("created_to", "must be after created_from")
	}
	return f
}

// listPayments answers with one page, newest first, and the cursor of the next.
func (s *Server) listPayments(c echo.Context) error {
	q := newQuery(c)
	filter := s.readAPIFilter(q)
	after, limit := q.id("cursor"), q.number("limit", 1, maxPage, defaultPage)
	if err := q.finish(); err != nil {
		return err
	}
	list, more, err := s.cfg.Store.APIPayments(c.Request().Context(), filter, after, int(limit))
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(list))
	for i, p := range list {
		ids[i] = p.ID
	}
	figures, err := s.cfg.Store.RefundTotals(c.Request().Context(), ids)
	if err != nil {
		return err
	}
	out, next := make([]paymentJSON, len(list)), (*string)(nil)
	for i, p := range list {
		out[i] = s.paymentJSON(p, figures[p.ID])
	}
	if more {
		cursor := list[len(list)-1].ID.String()
		next = &cursor
	}
	return answer(c, http.StatusOK, map[string]any{"data": out, "next_cursor": next})
}
