package simulator

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// refund reports whether the object gives money back.
func (c Charge) refund() bool { return c.Of != "" }

// open reports whether a refund gave money back or may still do so.
func (c Charge) open() bool { return c.Status != StatusFailed && c.Status != StatusCanceled }

// notRefundable is why a refund is not carried out.
type notRefundable struct {
	status  int
	code    string
	field   string
	message string
}

// Error implements error.
func (n *notRefundable) Error() string { return "simulator: " + n.code + ": " + n.message }

var noSuchCharge = &notRefundable{http.StatusNotFound, "not_found", "", "No such payment."}

// given adds up those refunds of a charge that keep accepts; the caller holds mu.
func (b *book) given(id string, keep func(*Charge) bool) (sum int64) {
	for _, r := range b.index["refunds of "+id] {
		if keep(r) {
			sum += r.Amount
		}
	}
	return sum
}

// refundable returns a charge and what is left of it: what it took, less its refunds that
// are not failed. The caller holds mu. The error is a *notRefundable.
func (b *book) refundable(id string) (Charge, int64, error) {
	c, ok := b.charges[id]
	switch {
	case !ok || c.refund():
		return Charge{}, 0, noSuchCharge
	case c.Status != StatusSucceeded:
		return *c, 0, &notRefundable{http.StatusUnprocessableEntity, "not_refundable", "", "The payment took no money."}
	}
	return *c, c.taken() - b.given(id, func(r *Charge) bool { return r.open() }), nil
}

// newRefunds makes the refunds that a request with a fault leaves behind. The ledger is
// locked, so what is left of the charge cannot be given back twice.
func (s *Server) newRefunds(req chargeRequest, key string, fault Fault, f Faults, now time.Time) ([]Charge, error) {
	parent, left, err := s.book.refundable(req.of)
	switch {
	case err != nil:
		return nil, err
	case parent.Face != req.face:
		return nil, noSuchCharge
	case parent.Currency != req.Currency:
		return nil, &notRefundable{http.StatusUnprocessableEntity, "invalid_request", "currency", "must be the payment's."}
	case req.minor > left:
		return nil, &notRefundable{http.StatusUnprocessableEntity, "exceeds_refundable", "amount", fmt.Sprintf("is more than the %d that can be refunded.", left)}
	}
	var out []Charge
	for _, c := range s.newCharges(req, key, fault, f, now) {
		if c.Amount > left { // the provider's own mistakes end where the money does
			c.Amount, c.Asked = req.minor, 0
		}
		if c = s.asRefund(c, parent); c.open() {
			left -= c.Amount
		}
		if left < 0 {
			break
		}
		out = append(out, c)
	}
	return out, nil
}

// refundDeclines are the reasons for which a refund fails, in words for people.
var refundDeclines = [][2]string{
	{"refund_declined", "The customer's bank did not take the refund."},
	{"insufficient_balance", "The account's balance does not cover the refund."},
}

// asRefund turns a new object into a refund of a charge.
func (s *Server) asRefund(c, parent Charge) Charge {
	c.ID, c.Of, c.OfRef = newID(faceOf(parent.Face).refundPrefix()), parent.ID, parent.Reference
	switch c.Status {
	case StatusRequiresAction: // nobody has to do anything about a refund
		c.Status = StatusProcessing
	case StatusFailed:
		d := refundDeclines[mix(s.opts.Seed, "refund decline", c.Reference)%uint64(len(refundDeclines))]
		c.Code, c.Message = d[0], d[1]
	}
	return c
}

// refundObject is a refund on the wire.
type refundObject struct {
	ID               string     `json:"id"`
	PaymentID        string     `json:"payment_id"`
	PaymentReference string     `json:"payment_reference,omitempty"`
	Reference        string     `json:"reference,omitempty"`
	Status           string     `json:"status"`
	Amount           int64      `json:"amount"`
	Currency         string     `json:"currency"`
	CreatedAt        time.Time  `json:"created_at"`
	Key              string     `json:"idempotency_key,omitempty"`
	Error            *errorBody `json:"error,omitempty"`
}

// shown renders a charge or refund in the gateway's words.
func (c Charge) shown(base string) any {
	o := c.wire(base)
	if !c.refund() {
		return o
	}
	return refundObject{
		ID: c.ID, PaymentID: c.Of, PaymentReference: c.OfRef, Reference: c.Reference, Status: c.Status,
		Amount: c.Amount, Currency: c.Currency, CreatedAt: c.CreatedAt, Key: c.Key, Error: o.Error,
	}
}

// refundPath reads the charge's id out of the path of a refund request.
func refundPath(path string) (id string, ok bool) {
	id, ok = strings.CutPrefix(path, "/payments/")
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, "/refunds")
	return id, ok && id != "" && !strings.Contains(id, "/")
}

var refundsPattern = regexp.MustCompile(`refunds:([a-z0-9_*,]+)`)

// withPicks gives a refund request what chooses its faults: its own reference, or else
// what the charge's order reference says of its refunds.
func (s *Server) withPicks(req chargeRequest) chargeRequest {
	req.OrderRef = ""
	if pickPattern.MatchString(req.Reference) {
		req.OrderRef = req.Reference
		return req
	}
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	parent, ok := s.book.charges[req.of]
	if !ok {
		return req
	}
	pattern := refundsPattern
	if req.act != "" {
		pattern = actsPattern
	}
	if m := pattern.FindStringSubmatch(parent.OrderRef); m != nil {
		req.OrderRef = "fault:" + m[1]
	} else if pickPattern.MatchString(parent.OrderRef) {
		req.OrderRef = "fault:none"
	}
	return req
}

// postRefund refunds a charge, or replays what the key's first call was told.
func (s *Server) postRefund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was read before, see received
		panic(err)
	}
	req, status, bad := readCharge(r.Header.Get("Content-Type"), body)
	if bad != nil {
		writeError(w, status, *bad)
		return
	}
	req.of = r.PathValue("id")
	req = s.withPicks(req)
	if s.opts.NoKeys {
		s.execute(w, r, req, operation{free: func() {}})
		return
	}
	key := r.Header.Get(keyField)
	if !goodKey(key) {
		writeError(w, http.StatusBadRequest, *invalid(keyField, "must have 1 to 255 printable ASCII characters."))
		return
	}
	// The charge is among the parameters that a key stands for.
	s.underKey(w, r, req, key, append([]byte(r.URL.Path+"\n"), body...))
}

// refundedEvents makes the events that tell the new totals of the charges of refunds that
// have just succeeded. The refunds are not in the ledger yet, which is locked.
func (s *Server) refundedEvents(refunds []Charge, f Faults, now time.Time) []event {
	var parent Charge
	var last *Charge
	for i, r := range refunds {
		if !r.refund() || r.Status != StatusSucceeded {
			continue
		}
		if last == nil {
			parent = *s.book.charges[r.Of]
		}
		parent.Refunded += r.Amount
		last = &refunds[i]
	}
	if last == nil {
		return nil
	}
	kind := faceOf(parent.Face).refundedType()
	if !s.notifies() || f.happens(s.opts.Seed, WebhookMissing, last.subject(), kind, 1) {
		return s.unsent(parent.Face, s.newEvent(kind, parent, f.Timing, now))
	}
	return []event{s.spoiled(s.newEvent(kind, parent, f.Timing, now), *last, f)}
}

// unsent is what is left of an event that nobody is sent: those of a face that keeps
// them can still be asked for.
func (s *Server) unsent(face string, ev event) []event {
	if !faceOf(face).keepsEvents() {
		return nil
	}
	ev.Unsent = true
	return []event{ev}
}

func (gatewayFace) refundPrefix() string { return "ref" }

func (gatewayFace) refundedType() string { return eventRefunded }

func (gatewayFace) noRefund(w http.ResponseWriter, why *notRefundable) {
	writeError(w, why.status, errorBody{Code: why.code, Message: why.message, Field: why.field})
}
