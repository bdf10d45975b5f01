package simulator

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	pageSize = 100
	pageMax  = 200
)

// page is the answer to a question about several payments.
type page struct {
	Data []object `json:"data"`
	Next *string  `json:"next,omitempty"` // only in a list by time
}

// getPayment answers about one id.
func (s *Server) getPayment(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	c, err := s.book.get(r.PathValue("id"))
	if err != nil && !errors.Is(err, errNoCharge) {
		s.broken(w, err)
		return
	}
	about := "id " + r.PathValue("id")
	if s.lookupFails(w, about, c.subject()) {
		return
	}
	if err != nil || s.hidden(c) || s.gone(c) {
		noSuchPayment(w)
		return
	}
	writeJSON(w, http.StatusOK, c.wire(s.publicURL()))
}

// listPayments answers by key, by reference or by time of creation.
func (s *Server) listPayments(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, *invalid("", "The query is malformed."))
		return
	}
	switch {
	case q.Has("reference") && len(q) == 1:
		found, err := s.book.byReference(q.Get("reference"))
		s.answerAbout(w, "reference "+q.Get("reference"), found, err)
	case q.Has("idempotency_key") && len(q) == 1 && !s.opts.NoKeys:
		found, err := s.book.byKey(q.Get("idempotency_key"))
		s.answerAbout(w, "key "+q.Get("idempotency_key"), found, err)
	default:
		s.listByTime(w, q)
	}
}

// answerAbout answers a question about one payment, by reference or key.
func (s *Server) answerAbout(w http.ResponseWriter, about string, found []Charge, err error) {
	if err != nil {
		s.broken(w, err)
		return
	}
	sub := subject{reference: about, orderRef: s.tally.orderOf(about)}
	if len(found) > 0 {
		sub = found[0].subject()
	}
	if s.lookupFails(w, about, sub) {
		return
	}
	out := page{Data: []object{}}
	for _, c := range found {
		if s.gone(c) {
			noSuchPayment(w)
			return
		}
		if !s.hidden(c) {
			out.Data = append(out.Data, c.wire(s.publicURL()))
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// listByTime answers with one page of the ledger.
func (s *Server) listByTime(w http.ResponseWriter, q url.Values) {
	sp, bad := readSpan(q)
	if bad != nil {
		writeError(w, http.StatusBadRequest, *bad)
		return
	}
	if s.lookupFails(w, "list", subject{reference: "list"}) {
		return
	}
	limit := sp.limit
	sp.limit++ // one more tells whether there is a next page
	found, err := s.book.between(sp, func(c Charge) bool { return !s.hidden(c) && !s.gone(c) })
	if err != nil {
		s.broken(w, err)
		return
	}
	out := page{Data: []object{}, Next: new(string)}
	if len(found) > limit {
		found = found[:limit]
		*out.Next = cursorOf(found[limit-1])
	}
	for _, c := range found {
		out.Data = append(out.Data, c.wire(s.publicURL()))
	}
	writeJSON(w, http.StatusOK, out)
}

// readSpan reads the query of a list by time. A parameter it does not know is
// refused: ignoring one would answer another question.
func readSpan(q url.Values) (span, *errorBody) {
	sp := span{limit: pageSize}
	var err error
	for name := range q {
		text := q.Get(name)
		switch name {
		case "created_from":
			sp.from, err = time.Parse(time.RFC3339Nano, text)
		case "created_to":
			sp.to, err = time.Parse(time.RFC3339Nano, text)
		case "cursor":
			if text != "" {
				sp.after, err = readCursor(text)
			}
		case "limit":
			sp.limit, err = strconv.Atoi(text)
			if sp.limit < 1 || sp.limit > pageMax {
				err = strconv.ErrRange
			}
		default:
			return sp, invalid(name, "is not a parameter here.")
		}
		if err != nil || len(q[name]) > 1 {
			return sp, invalid(name, "is malformed or out of range.")
		}
	}
	return sp, nil
}

// cursorOf names the last charge of a page.
func cursorOf(c Charge) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.CreatedAt.Format(time.RFC3339Nano) + " " + c.ID))
}

func readCursor(text string) (*Charge, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	at, id, ok := strings.Cut(string(raw), " ")
	if !ok {
		return nil, errNoCharge
	}
	created, err := time.Parse(time.RFC3339Nano, at)
	return &Charge{ID: id, CreatedAt: created}, err
}

// noStatus answers for a provider that cannot be asked, and reports whether it did.
func (s *Server) noStatus(w http.ResponseWriter) bool {
	if !s.opts.NoStatusAPI {
		return false
	}
	w.Header().Set("Allow", http.MethodPost)
	writeError(w, http.StatusMethodNotAllowed, errorBody{Code: "not_supported", Message: "Payments cannot be looked up."})
	return true
}

// lookupFails counts a lookup and answers it with its fault, if it has one.
func (s *Server) lookupFails(w http.ResponseWriter, about string, sub subject) bool {
	f, nth := s.wrong(), s.tally.lookup(about)
	happens := func(name Fault) bool {
		hit := f.happens(s.opts.Seed, name, sub, about+" "+strconv.Itoa(nth), nth)
		if hit {
			s.tally.fault(name)
		}
		return hit
	}
	switch {
	case happens(LookupForbidden):
		writeError(w, http.StatusForbidden, errorBody{Code: "forbidden", Message: "This key may not read payments."})
	case happens(LookupError):
		writeError(w, http.StatusServiceUnavailable, errorBody{Code: "unavailable", Message: "Try again later."})
	default:
		return false
	}
	return true
}

// hidden reports whether lookups do not see the charge yet.
func (s *Server) hidden(c Charge) bool { return s.opts.Now().Before(c.HideUntil) }

// gone reports whether questions about the charge are answered 404 for now.
func (s *Server) gone(c Charge) bool { return s.opts.Now().Before(c.GoneUntil) }

func noSuchPayment(w http.ResponseWriter) {
	writeError(w, http.StatusNotFound, errorBody{Code: "not_found", Message: "No such payment."})
}
