package simulator

import (
	"errors"
	"net/http"
	"net/url"
)

// getRefund answers about one id.
func (s *Server) getRefund(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	id := r.PathValue("id")
	c, err := s.book.copyOf(id, true)
	if err != nil && !errors.Is(err, errNoCharge) {
		s.broken(w, err)
		return
	}
	if s.lookupFails(w, "refund id "+id, c.subject()) {
		return
	}
	if err != nil || s.hidden(c) || s.gone(c) {
		noSuchRefund(w)
		return
	}
	writeJSON(w, http.StatusOK, c.shown(s.publicURL()))
}

// listRefunds answers by key, by reference or by time of creation.
func (s *Server) listRefunds(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, *invalid("", "The query is malformed."))
		return
	}
	switch {
	case q.Has("reference") && q.Get("reference") != "" && len(q) == 1:
		s.refundsAbout(w, "reference "+q.Get("reference"))
	case q.Has("idempotency_key") && len(q) == 1 && !s.opts.NoKeys:
		s.refundsAbout(w, "key "+q.Get("idempotency_key"))
	default:
		s.refundsByTime(w, q)
	}
}

// refundsAbout answers a question about one refund, by reference or key.
func (s *Server) refundsAbout(w http.ResponseWriter, about string) {
	found, err := s.book.indexed("refund " + about)
	if err != nil {
		s.broken(w, err)
		return
	}
	sub := subject{reference: about, orderRef: s.tally.orderOf(about)}
	if len(found) > 0 {
		sub = found[0].subject()
	}
	if s.lookupFails(w, "refund "+about, sub) {
		return
	}
	data := []any{}
	for _, c := range found {
		if s.gone(c) {
			noSuchRefund(w)
			return
		}
		if !s.hidden(c) {
			data = append(data, c.shown(s.publicURL()))
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"data": data})
}

// refundsByTime answers with one page of the ledger's refunds.
func (s *Server) refundsByTime(w http.ResponseWriter, q url.Values) {
	sp, bad := readSpan(q)
	if bad != nil {
		writeError(w, http.StatusBadRequest, *bad)
		return
	}
	if s.lookupFails(w, "refund list", subject{reference: "refund list"}) {
		return
	}
	limit := sp.limit
	sp.limit++ // one more tells whether there is a next page
	sp.refunds = true
	found, err := s.book.between(sp, func(c Charge) bool { return !s.hidden(c) && !s.gone(c) })
	if err != nil {
		s.broken(w, err)
		return
	}
	data, next := []any{}, ""
	if len(found) > limit {
		found = found[:limit]
		next = cursorOf(found[limit-1])
	}
	for _, c := range found {
		data = append(data, c.shown(s.publicURL()))
	}
	writeJSON(w, http.StatusOK, map[string]any{"data": data, "next": next})
}

func noSuchRefund(w http.ResponseWriter) {
	writeError(w, http.StatusNotFound, errorBody{Code: "not_found", Message: "No such refund."})
}
