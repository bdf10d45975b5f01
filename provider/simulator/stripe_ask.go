package simulator

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Page sizes of Stripe's lists.
const (
	stripePage    = 10
	stripePageMax = 100
)

// indexLag is how far the search index is behind.
const indexLag = time.Second

// getIntent answers about one id.
func (s *Server) getIntent(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	id := r.PathValue("id")
	c, err := s.book.get(id)
	if err != nil && !errors.Is(err, errNoCharge) {
		s.stripeBroken(w, err)
		return
	}
	if s.lookupFails(w, "id "+id, c.subject()) {
		return
	}
	if err != nil || s.hidden(c) || s.gone(c) {
		noSuchIntent(w, id)
		return
	}
	writeJSON(w, http.StatusOK, c.intent(s.publicURL()))
}

// listIntents answers with a page of the ledger, newest first.
func (s *Server) listIntents(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	q, bad := readStripeList(r.URL.RawQuery)
	if bad != nil {
		stripeFail(w, http.StatusBadRequest, *bad)
		return
	}
	if s.lookupFails(w, "list", subject{reference: "list"}) {
		return
	}
	found, err := s.book.between(q.span(), func(c Charge) bool { return !s.hidden(c) && !s.gone(c) })
	if err != nil {
		s.stripeBroken(w, err)
		return
	}
	var items []stripeItem
	for _, c := range slices.Backward(found) {
		items = append(items, stripeItem{c.ID, c.intent(s.publicURL())})
	}
	q.answer(w, intentsPath, items)
}

var searchQuery = regexp.MustCompile(`^metadata\['(payment_id|order_ref)'\]:'([^'\\]*)'$`)

// searchIntents answers from the index, which is behind.
func (s *Server) searchIntents(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	asked := searchQuery.FindStringSubmatch(r.URL.Query().Get("query"))
	if asked == nil {
		stripeFail(w, http.StatusBadRequest, *badParam("query", "", "This simulator only searches by metadata['payment_id'] and metadata['order_ref']."))
		return
	}
	if s.lookupFails(w, "search", subject{reference: "search"}) {
		return
	}
	indexed := s.opts.Now().Add(-indexLag)
	found, err := s.book.between(span{}, func(c Charge) bool {
		field := c.Reference
		if asked[1] == "order_ref" {
			field = c.OrderRef
		}
		return field == asked[2] && c.CreatedAt.Before(indexed) && !s.hidden(c) && !s.gone(c)
	})
	if err != nil {
		s.stripeBroken(w, err)
		return
	}
	data := []any{}
	for _, c := range slices.Backward(found) {
		data = append(data, c.intent(s.publicURL()))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "search_result", "url": intentsPath + "/search", "has_more": false, "next_page": nil, "data": data})
}

// listStripeEvents answers with a page of the events, newest first.
func (s *Server) listStripeEvents(w http.ResponseWriter, r *http.Request) {
	q, bad := readStripeList(r.URL.RawQuery, "type", "types[]")
	if bad != nil {
		stripeFail(w, http.StatusBadRequest, *bad)
		return
	}
	kept, err := s.book.kept()
	if err != nil {
		s.stripeBroken(w, err)
		return
	}
	var items []stripeItem
	for _, ev := range slices.Backward(kept) {
		var at struct{ Created int64 }
		_ = json.Unmarshal([]byte(ev.Body), &at) // rendered by us
		if (len(q.types) == 0 || slices.Contains(q.types, ev.Type)) && q.within(at.Created) {
			items = append(items, stripeItem{ev.ID, json.RawMessage(ev.Body)})
		}
	}
	q.answer(w, "/v1/events", items)
}

// getStripeEvent answers about one event.
func (s *Server) getStripeEvent(w http.ResponseWriter, r *http.Request) {
	kept, err := s.book.kept()
	if err != nil {
		s.stripeBroken(w, err)
		return
	}
	id := r.PathValue("id")
	at := slices.IndexFunc(kept, func(ev event) bool { return ev.ID == id })
	if at < 0 {
		stripeFail(w, http.StatusNotFound, *badParam("id", "resource_missing", "No such event: '"+id+"'"))
		return
	}
	writeBytes(w, http.StatusOK, "application/json", []byte(kept[at].Body))
}

// stripeItem is an object of a list.
type stripeItem struct {
	id     string
	object any
}

// stripeList is the query of a list.
type stripeList struct {
	limit         int
	after, before string // starting_after, ending_before
	from, to      int64  // Unix seconds; from inclusive, to exclusive
	types         []string
}

// readStripeList reads the query of a list. A parameter it does not know is refused:
// ignoring one would answer another question.
func readStripeList(raw string, types ...string) (stripeList, *stripeError) {
	l := stripeList{limit: stripePage, to: math.MaxInt32}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return l, badParam("", "", "The query is malformed.")
	}
	for name, values := range q {
		switch {
		case name == "limit":
			l.limit, err = strconv.Atoi(values[0])
			if err == nil && (l.limit < 1 || l.limit > stripePageMax) {
				err = strconv.ErrRange
			}
		case name == "starting_after":
			l.after = values[0]
		case name == "ending_before":
			l.before = values[0]
		case strings.HasPrefix(name, "created"):
			err = l.bound(name, values[0])
		case slices.Contains(types, name):
			l.types = append(l.types, values...)
		default:
			return l, badParam(name, "parameter_unknown", "Received unknown parameter: "+name)
		}
		if err != nil {
			return l, badParam(name, "parameter_invalid_integer", "Invalid integer: "+values[0])
		}
	}
	return l, nil
}

// bound narrows the list by a filter on the time of creation.
func (l *stripeList) bound(name, text string) error {
	at, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return err
	}
	switch name {
	case "created":
		l.from, l.to = max(l.from, at), min(l.to, at+1)
	case "created[gt]":
		l.from = max(l.from, at+1)
	case "created[gte]":
		l.from = max(l.from, at)
	case "created[lt]":
		l.to = min(l.to, at)
	case "created[lte]":
		l.to = min(l.to, at+1)
	default:
		return strconv.ErrSyntax
	}
	return nil
}

// within reports whether a moment lies in the bounds.
func (l stripeList) within(at int64) bool { return at >= l.from && at < l.to }

// span is the stretch of the ledger that the bounds leave.
func (l stripeList) span() span { return span{from: time.Unix(l.from, 0), to: time.Unix(l.to, 0)} }

// answer answers with the page that was asked for out of all items, newest first.
func (l stripeList) answer(w http.ResponseWriter, path string, items []stripeItem) {
	at := func(id string) int { return slices.IndexFunc(items, func(x stripeItem) bool { return x.id == id }) }
	var from, to int
	var more bool
	switch {
	case l.after != "" && at(l.after) < 0, l.before != "" && at(l.before) < 0:
		stripeFail(w, http.StatusBadRequest, *badParam("starting_after", "resource_missing", "No such object: '"+l.after+l.before+"'"))
		return
	case l.before != "": // the page of newer ones that ends just before it
		to = at(l.before)
		from = max(to-l.limit, 0)
		more = from > 0
	default:
		from = at(l.after) + 1 // -1 when none is named
		to = min(from+l.limit, len(items))
		more = to < len(items)
	}
	data := []any{}
	for _, x := range items[from:to] {
		data = append(data, x.object)
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "url": path, "has_more": more, "data": data})
}
