package simulator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	maxBody  = 1 << 20
	bodyTime = 30 * time.Second
	keyField = "Idempotency-Key"
)

// publicHandler serves the provider's API and the customer's page.
func (s *Server) publicHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", s.postPayment)
	mux.HandleFunc("GET /payments", s.listPayments)
	mux.HandleFunc("GET /payments/{id}", s.getPayment)
	mux.HandleFunc("POST /payments/{id}/refunds", s.postRefund)
	mux.HandleFunc("POST /payments/{id}/capture", s.postAct)
	mux.HandleFunc("POST /payments/{id}/void", s.postAct)
	mux.HandleFunc("GET /refunds", s.listRefunds)
	mux.HandleFunc("GET /refunds/{id}", s.getRefund)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusNotFound, errorBody{Code: "not_found", Message: "No such path."})
	})
	open := http.NewServeMux()
	open.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "name": s.opts.Name})
	})
	open.HandleFunc("GET /actions/{id}", s.showAction)
	open.HandleFunc("POST /actions/{id}", s.doAction)
	open.Handle("/", s.signedIn(mux))
	open.Handle("/v1/", s.stripeHandler())
	return s.received(s.outages(open))
}

// received reads the whole body, so that a request counts as arrived and a client
// that leaves is noticed, names the request, and holds back Close until it is done.
func (s *Server) received(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.begin() {
			panic(http.ErrAbortHandler)
		}
		defer s.work.Done()
		w.Header().Set("Request-Id", newID("req"))
		body, err := readBody(w, r)
		if err != nil {
			var tooLarge *http.MaxBytesError
			if errors.As(err, &tooLarge) {
				writeError(w, http.StatusRequestEntityTooLarge, errorBody{Code: "invalid_request", Message: "The body is larger than 1 MiB."})
				return
			}
			panic(http.ErrAbortHandler) // the sender broke off: nobody to answer
		}
		req, ok := s.chargeOf(r, body)
		if ok {
			s.count(r, req)
		}
		r.Body = &arrived{Reader: bytes.NewReader(body), body: body, req: req}
		next.ServeHTTP(w, r)
	})
}

// arrived is a body that was read whole.
type arrived struct {
	*bytes.Reader
	body []byte
	req  chargeRequest // as it was counted
}

// Close implements io.Closer.
func (*arrived) Close() error { return nil }

// read returns a body that was read before, see received, and the charge decoded from it, if
// one was.
func read(r *http.Request) ([]byte, chargeRequest) {
	if a, ok := r.Body.(*arrived); ok && a.req.decoded {
		return a.body, a.req
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	return body, chargeRequest{}
}

// readBody reads to the end under a limit of size and time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // without support there is only no limit
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = c.SetReadDeadline(time.Time{})
	return body, err
}

// chargeOf reports whether a request wants to charge or refund, by whichever face, and
// reads as much of it as can be read.
func (s *Server) chargeOf(r *http.Request, body []byte) (chargeRequest, bool) {
	var req chargeRequest
	of, refunds := refundPath(r.URL.Path)
	held, act, acts := actPath(r.URL.Path)
	intent, does, intents := intentActPath(r.URL.Path)
	switch {
	case r.Method != http.MethodPost:
		return req, false
	case r.URL.Path == "/payments":
		req.decoded = json.Unmarshal(body, &req) == nil // what cannot be read is refused by the handler
		return req, true
	case r.URL.Path == intentsPath:
		req, _ = readIntent(body)
		return req, true
	case r.URL.Path == stripeRefundsPath:
		req, _ = s.readStripeRefund(body)
		return req, true
	case intents:
		req, _ = s.readIntentAct(intent, does, body)
		return req, true
	case acts:
		_ = json.Unmarshal(body, &req)
		req.of, req.act = held, act
		return s.withPicks(req), true
	case refunds:
		_ = json.Unmarshal(body, &req)
		req.of = of
		return s.withPicks(req), true
	}
	return req, false
}

// count tallies a charge request; one that could not be read has no reference.
func (s *Server) count(r *http.Request, req chargeRequest) {
	key := r.Header.Get(keyField)
	if s.opts.NoKeys {
		key = ""
	}
	s.tally.post(key, req)
}

// outages answers, or does not, for a provider that is down.
func (s *Server) outages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := s.wrong()
		switch f.Outage {
		case OutageBlackHole:
			s.silence(r.Context(), f.Timing.Silent)
		case OutageError:
			writeError(w, http.StatusServiceUnavailable, errorBody{Code: "unavailable", Message: "The service is unavailable."})
		case OutageCharges:
			s.chargesDown(w, r, next)
		case OutageRefuse: // the connection was accepted just before the listener closed
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// silence never answers: it waits until the client leaves, or long enough, and
// then drops the connection.
func (s *Server) silence(ctx context.Context, d time.Duration) {
	s.sleep(ctx, d)
	panic(http.ErrAbortHandler)
}

// signedIn demands the account's key.
func (s *Server) signedIn(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opts.APIKey))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(key)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, errorBody{Code: "unauthorized", Message: "The API key is wrong."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writeJSON answers with a JSON body.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // only types of ours come here, and all of them marshal
		panic(err)
	}
	writeBytes(w, status, "application/json", body)
}

func writeBytes(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left does not get it
}

// writeError answers with the contract's error object.
func writeError(w http.ResponseWriter, status int, e errorBody) {
	writeJSON(w, status, map[string]errorBody{"error": e})
}
