package simulator

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"time"
)

// refusals are the faults that book nothing and keep nothing under the key, in the
// gateway's words.
var refusals = map[Fault]refusal{
	Hang: func(s *Server, _ http.ResponseWriter, r *http.Request, t Timing, _ chargeRequest) {
		s.silence(r.Context(), t.Silent)
	},
	Throttle429: func(s *Server, w http.ResponseWriter, _ *http.Request, t Timing, req chargeRequest) {
		w.Header().Set("Retry-After", s.retryAfter(req.Reference, t.RetryAfter))
		writeError(w, http.StatusTooManyRequests, errorBody{Code: "rate_limited", Message: "Too many requests."})
	},
	Rejected422: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ Timing, _ chargeRequest) {
		writeError(w, http.StatusUnprocessableEntity, *invalid("description", "This account cannot take this description."))
	},
	Unauthorized401: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ Timing, _ chargeRequest) {
		writeError(w, http.StatusUnauthorized, errorBody{Code: "unauthorized", Message: "The API key was revoked."})
	},
	Forbidden403: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ Timing, _ chargeRequest) {
		writeError(w, http.StatusForbidden, errorBody{Code: "forbidden", Message: "The account may not take payments."})
	},
}

// retryAfter says how long to wait, to every other payment as a date.
func (s *Server) retryAfter(reference string, d time.Duration) string {
	d = max(d.Truncate(time.Second), time.Second)
	if mix(s.opts.Seed, "retry-after", reference)%2 == 0 {
		return strconv.Itoa(int(d / time.Second))
	}
	// Dates have whole seconds: one more, so that the wait is not shorter than d.
	return s.opts.Now().Add(d + time.Second).UTC().Format(http.TimeFormat)
}

// tell answers a request that was carried out, the way its fault has it.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, t Timing, b booked) {
	for _, tried := range b.early {
		s.awaitEarly(tried, t.EarlyWait)
	}
	switch b.fault {
	case ChargedThenSilent:
		s.silence(r.Context(), t.Silent)
	case ChargedThenCut:
		cut(w, false)
	case ChargedThenReset:
		cut(w, true)
	case ChargedThen502:
		w.Header().Set("Server", "edge")
		writeBytes(w, http.StatusBadGateway, "text/html; charset=utf-8", badGatewayPage)
	case ChargedThenHTML:
		w.Header().Set("Server", "edge")
		writeBytes(w, http.StatusOK, "text/html; charset=utf-8", challengePage)
	case ChargedThenRedirect:
		w.Header().Set("Location", "/v2/payments")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case ChargedThenTruncated:
		// Under the full length; net/http then closes the connection.
		w.Header().Set("Content-Length", strconv.Itoa(len(b.body)))
		writeBytes(w, b.status, "application/json", b.body[:len(b.body)/2])
	case Drip:
		s.drip(w, r, t.Drip, b)
	case Slow:
		s.sleep(r.Context(), t.Slow)
		writeBytes(w, b.status, "application/json", b.body)
	default:
		writeBytes(w, b.status, "application/json", distort(b))
	}
}

var (
	badGatewayPage = []byte("<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>edge</center></body></html>\n")
	challengePage  = []byte("<!doctype html><html><head><title>Just a moment...</title></head><body><h1>Checking your browser</h1></body></html>\n")
)

// awaitEarly holds the answer back until an early event was tried.
func (s *Server) awaitEarly(tried <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-tried:
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// distort returns the answer's body with the lie that its fault demands.
func distort(b booked) []byte {
	if len(b.charges) == 0 {
		return b.body
	}
	lie := faceOf(b.charges[0].Face).lie(b.fault, b.charges[0])
	if lie == nil {
		return b.body
	}
	var o map[string]any
	dec := json.NewDecoder(bytes.NewReader(b.body))
	dec.UseNumber()
	if err := dec.Decode(&o); err != nil { // our own marshalling
		panic(err)
	}
	for k, v := range lie {
		o[k] = v
	}
	body, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return body
}

// drip sends the header at once and the body a byte at a time.
func (s *Server) drip(w http.ResponseWriter, r *http.Request, pause time.Duration, b booked) {
	c := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b.body)))
	w.WriteHeader(b.status)
	for i := range b.body {
		if _, err := w.Write(b.body[i : i+1]); err != nil || c.Flush() != nil {
			return
		}
		if !s.sleep(r.Context(), pause) {
			panic(http.ErrAbortHandler)
		}
	}
}

// cut closes the connection without a byte of an answer, by FIN or by RST. The
// request was read whole, so that a plain close does send FIN.
func cut(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // without hijacking at least the connection ends
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0) // then Close sends RST
	}
	_ = conn.Close() // closing is the answer
}
