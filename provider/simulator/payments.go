package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/text/currency"
)

// chargeRequest is the body of POST /payments.
type chargeRequest struct {
	Reference   string          `json:"reference"`
	Amount      json.RawMessage `json:"amount"` // the literal: never through a float
	Currency    string          `json:"currency"`
	Description string          `json:"description"`
	OrderRef    string          `json:"order_ref"`
	Capture     string          `json:"capture"` // "manual": hold the money
	Customer    *struct {
		Name  string `json:"name"`
		Email string `json:"email"`
	} `json:"customer"`
	minor int64  // Amount, once it is checked
	face  string // the API it came through
	of    string // the charge to refund, capture or void; empty: a charge is asked for
	act   string // actCapture or actVoid; empty: a refund, if of is set

	decoded bool // from the whole body, without an error
}

func (r chargeRequest) subject() subject {
	return subject{reference: r.Reference, orderRef: r.OrderRef, amount: r.minor}
}

// maxAmount is the largest charge taken, in minor units.
const maxAmount = 1_000_000_000_000

// readCharge reads and checks a request. A non-nil errorBody says what is wrong
// with it, under the returned HTTP status.
func readCharge(contentType string, body []byte) (chargeRequest, int, *errorBody) {
	return checkCharge(contentType, body, chargeRequest{})
}

// checkCharge is readCharge for a body that r was decoded from, if it was.
func checkCharge(contentType string, body []byte, r chargeRequest) (chargeRequest, int, *errorBody) {
	if !isJSON(contentType) {
		return chargeRequest{}, http.StatusUnsupportedMediaType, invalid("", "Content-Type must be application/json.")
	}
	if !r.decoded {
		if status, bad := decodeCharge(body, &r); bad != nil {
			return r, status, bad
		}
	}
	// ParseInt refuses fractions, exponents, strings and null; JSON refuses leading zeros and plus signs.
	minor, err := strconv.ParseInt(string(r.Amount), 10, 64)
	switch {
	case r.Reference == "" || len(r.Reference) > 255:
		return r, http.StatusUnprocessableEntity, invalid("reference", "must have 1 to 255 characters.")
	case err != nil || minor <= 0 || minor > maxAmount:
		return r, http.StatusUnprocessableEntity, invalid("amount", "must be a positive integer in minor units.")
	case r.Capture != "" && r.Capture != "manual" && r.Capture != "automatic":
		return r, http.StatusUnprocessableEntity, invalid("capture", "must be automatic or manual.")
	case !known(r.Currency):
		return r, http.StatusUnprocessableEntity, invalid("currency", "must be an ISO 4217 code.")
	}
	r.minor = minor
	return r, 0, nil
}

func isJSON(contentType string) bool {
	const want = "application/json"
	if contentType == want {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == want
}

// decodeCharge reads a body that is one JSON object.
func decodeCharge(body []byte, r *chargeRequest) (status int, bad *errorBody) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(r); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return http.StatusUnprocessableEntity, invalid(wrong.Field, "has the wrong type.")
		}
		return http.StatusBadRequest, invalid("", "The body is not JSON.")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return http.StatusBadRequest, invalid("", "The body goes on after the JSON.")
	}
	return 0, nil
}

// known reports whether code is an upper-case ISO 4217 currency.
func known(code string) bool {
	unit, err := currency.ParseISO(code)
	return err == nil && unit.String() == code
}

func invalid(field, message string) *errorBody {
	return &errorBody{Code: "invalid_request", Message: message, Field: field}
}

// goodKey checks an idempotency key: 1 to 255 printable ASCII characters.
func goodKey(key string) bool {
	if key == "" || len(key) > 255 {
		return false
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// postPayment makes a charge, or replays what the key's first call was told.
func (s *Server) postPayment(w http.ResponseWriter, r *http.Request) {
	body, known := read(r)
	req, status, bad := checkCharge(r.Header.Get("Content-Type"), body, known)
	if bad != nil {
		writeError(w, status, *bad)
		return
	}
	if s.opts.NoKeys {
		s.execute(w, r, req, operation{free: func() {}})
		return
	}
	key := r.Header.Get(keyField)
	if !goodKey(key) {
		writeError(w, http.StatusBadRequest, *invalid(keyField, "must have 1 to 255 printable ASCII characters."))
		return
	}
	s.underKey(w, r, req, key, body)
}

// underKey executes a request once for its key, or answers as the key has it.
func (s *Server) underKey(w http.ResponseWriter, r *http.Request, req chargeRequest, key string, body []byte) {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	switch c := s.book.claim(key, hash, s.opts.Now(), s.opts.KeyLife); {
	case c.reused, c.running:
		faceOf(req.face).keyTaken(w, c.reused)
	case c.answer != nil:
		s.replay(w, c.answer)
	default:
		free := sync.OnceFunc(func() { s.book.release(key) })
		defer free()
		s.execute(w, r, req, operation{key: key, hash: hash, free: free})
	}
}

// replay repeats a stored answer, once it is certain to survive a crash.
func (s *Server) replay(w http.ResponseWriter, a *stored) {
	if err := s.book.log.barrier(); err != nil {
		s.broken(w, err)
		return
	}
	w.Header().Set("Idempotent-Replayed", "true")
	writeBytes(w, a.Status, "application/json", []byte(a.Body))
}

// broken answers when the ledger cannot be written: nothing is certain any more.
func (s *Server) broken(w http.ResponseWriter, err error) {
	s.opts.Log.Error("ledger failed", "error", err)
	writeError(w, http.StatusInternalServerError, errorBody{Code: "internal", Message: "The ledger cannot be written."})
}

// operation is one execution under a key, which is empty at a provider without
// keys. free gives the key back, once.
type operation struct {
	key, hash string
	free      func()
}

// execute carries out a request that no stored answer covers, with the fault that
// is drawn for it.
func (s *Server) execute(w http.ResponseWriter, r *http.Request, req chargeRequest, op operation) {
	f := s.wrong()
	fault := f.chargeFault(s.opts.Seed, req.subject(), s.tally.execution(req.Reference))
	s.tally.fault(fault)
	if deny := faceOf(req.face).refusal(fault); deny != nil {
		op.free() // before the answer: a retry may follow on its heels
		deny(s, w, r, f.Timing, req)
		return
	}
	// The long call runs on whether or not its client stays.
	if fault == InProgress409 && !s.sleep(s.ctx, f.Timing.InProgress) {
		panic(http.ErrAbortHandler) // closing: the call dies unbooked, as in a crash
	}
	b, err := s.carryOut(req, op, fault, f)
	if no, ok := errors.AsType[*notRefundable](err); ok {
		op.free() // nothing is kept under the key
		if req.act != "" && req.face == FaceStripe {
			s.unexpectedState(w, req.of)
			return
		}
		faceOf(req.face).noRefund(w, no)
		return
	}
	if err != nil {
		s.broken(w, err)
		return
	}
	s.tell(w, r, f.Timing, b)
}
