package simulator

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// StatusHeld is a charge whose money is held until it is captured or let go.
const StatusHeld = "requires_capture"

// Codes of a charge that was let go.
const (
	codeVoided  = "voided"
	codeExpired = "authorisation_expired"
)

// What is done to a held charge.
const (
	actCapture = "capture"
	actVoid    = "void"
)

// taken is what a charge took: all of it, or what a capture of it took.
func (c Charge) taken() int64 {
	if c.Manual {
		return c.Captured
	}
	return c.Amount
}

// hold makes a charge that would have succeeded a held one, which lapses by itself.
func (c Charge) hold(life time.Duration, now time.Time) Charge {
	c.Status, c.UpdatedAt, c.HeldUntil = StatusHeld, now, now.Add(life)
	c.Decide, c.DecideAt = StatusCanceled, time.Now().Add(life).UTC().Truncate(time.Microsecond)
	return c
}

// capture makes a held charge one of which an amount was taken; the rest is let go.
func (c Charge) capture(amount int64, now time.Time) Charge {
	c.Status, c.UpdatedAt, c.Captured, c.Capturing = StatusSucceeded, now, amount, 0
	c.Decide, c.DecideAt = "", time.Time{}
	return c
}

// refuse makes a held charge whose capture was acknowledged a failed one: the bank does
// not pay what it held.
func (c Charge) refuse(now time.Time) Charge {
	c.Status, c.UpdatedAt, c.Capturing = StatusFailed, now, 0
	c.Code, c.Message = "capture_declined", "The bank does not pay what it held."
	c.Decide, c.DecideAt = "", time.Time{}
	return c
}

// release makes a held charge one that was let go.
func (c Charge) release(code string, now time.Time) Charge {
	c.Status, c.UpdatedAt, c.Code = StatusCanceled, now, code
	c.Message = "The authorisation was voided."
	if code == codeExpired {
		c.Message = "The authorisation expired before it was captured."
	}
	c.Decide, c.DecideAt = "", time.Time{}
	return c
}

// actPath reads the charge's id and what to do out of the path of a capture or void.
func actPath(path string) (id, act string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/payments/")
	if !ok {
		return "", "", false
	}
	id, act, ok = strings.Cut(rest, "/")
	return id, act, ok && id != "" && (act == actCapture || act == actVoid)
}

var actsPattern = regexp.MustCompile(`captures:([a-z0-9_*,]+)`)

// postAct captures or voids a charge, or replays what the key's first call was told.
func (s *Server) postAct(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was read before, see received
		panic(err)
	}
	id, act, _ := actPath(r.URL.Path)
	req, status, bad := readAct(r.Header.Get("Content-Type"), body, act)
	if bad != nil {
		writeError(w, status, *bad)
		return
	}
	req.of, req.act = id, act
	req = s.withPicks(req)
	key := r.Header.Get(keyField)
	switch {
	case s.opts.NoKeys:
		s.execute(w, r, req, operation{free: func() {}})
	case !goodKey(key):
		writeError(w, http.StatusBadRequest, *invalid(keyField, "must have 1 to 255 printable ASCII characters."))
	default:
		// The charge, and what is done to it, are among the parameters that a key stands for.
		s.underKey(w, r, req, key, append([]byte(r.URL.Path+"\n"), body...))
	}
}

// readAct reads and checks a request; a void has no amount.
func readAct(contentType string, body []byte, act string) (chargeRequest, int, *errorBody) {
	req, status, bad := readCharge(contentType, body)
	if act == actVoid && bad != nil && status == http.StatusUnprocessableEntity && bad.Field == "amount" && len(req.Amount) == 0 {
		return req, 0, nil
	}
	return req, status, bad
}

// newAct carries out a capture or void with a fault. The ledger is locked. The error is a
// *notRefundable.
func (s *Server) newAct(req chargeRequest, fault Fault, f Faults, now time.Time) (Charge, error) {
	no := func(code, message string) (Charge, error) {
		return Charge{}, &notRefundable{http.StatusUnprocessableEntity, code, "", message}
	}
	c, ok := s.book.charges[req.of]
	switch {
	case !ok || c.refund() || c.Face != req.face:
		return Charge{}, noSuchCharge
	case req.act == actCapture && c.Status == StatusSucceeded, req.act == actCapture && c.Capturing != 0:
		return no("already_captured", "The payment is captured already.")
	case req.act == actVoid && c.Status == StatusCanceled:
		return no("already_voided", "The authorisation is let go already.")
	case c.Status != StatusHeld || c.Capturing != 0:
		return no("not_capturable", "Nothing is held.")
	case req.act == actCapture && req.Currency != c.Currency:
		return no("invalid_request", "The currency must be the payment's.")
	case req.minor > c.Amount:
		return no("exceeds_authorised", "More than is held.")
	}
	amount := req.minor
	if fault == AmountAltered {
		amount = altered(amount)
	}
	switch {
	case fault == Decline:
		return *c, nil
	case req.act == actVoid:
		return c.release(codeVoided, now), nil
	case fault == Async202 || fault == Async202Failed:
		later := *c
		later.Capturing, later.Decide, later.DecideAt = amount, StatusSucceeded, time.Now().Add(f.Timing.Async).UTC().Truncate(time.Microsecond)
		if fault == Async202Failed {
			later.Decide = StatusFailed
		}
		return later, nil
	}
	return c.capture(amount, now), nil
}

// acted is the honest answer to a capture or void: the charge as it is now.
func acted(c Charge, fault Fault, base string) (int, []byte) {
	o := c.wire(base)
	switch {
	case c.Status == StatusHeld && fault == Decline:
		o.Error = &errorBody{Code: "capture_declined", Message: "The bank does not pay what it held."}
		return http.StatusPaymentRequired, mustJSON(o)
	case c.Status == StatusHeld:
		return http.StatusAccepted, mustJSON(o)
	}
	return http.StatusOK, mustJSON(o)
}
