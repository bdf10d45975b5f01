package simulator

import (
	"bytes"
	"io"
	"net/http"
)

// bookedShare is the share of charges that are booked while charges are down.
const bookedShare = 0.5

// chargesDown answers every charge with 503 and everything else as usual: the outage
// in which an engine can still find out what became of its charges. Half of the
// payments, the same ones every time, are booked before the answer is lost, so that
// only asking tells the two apart.
func (s *Server) chargesDown(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was read whole before; see received
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	req, ok := s.chargeOf(r, body)
	if !ok {
		next.ServeHTTP(w, r)
		return
	}
	if unit(s.opts.Seed, string(OutageCharges), req.Reference) < bookedShare {
		next.ServeHTTP(&lostAnswer{header: http.Header{}}, r)
	}
	writeError(w, http.StatusServiceUnavailable, errorBody{Code: "unavailable", Message: "Charges are unavailable."})
}

// lostAnswer is an answer that never reaches anybody.
type lostAnswer struct{ header http.Header }

// Header implements http.ResponseWriter.
func (l *lostAnswer) Header() http.Header { return l.header }

// Write implements http.ResponseWriter.
func (l *lostAnswer) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (l *lostAnswer) WriteHeader(int) {}
