package simulator

import (
	"net/http"
	"time"
)

// booked is what carrying out a request left in the ledger.
type booked struct {
	fault   Fault
	charges []Charge // none after Error500
	status  int      // of the truthful answer
	body    []byte
	early   []<-chan struct{} // closed when an early event's first delivery is over
}

// carryOut books the request: charges, the answer kept under the key, and the
// events, in one line of the ledger. It returns once that is on disk and the
// events are on their way.
func (s *Server) carryOut(req chargeRequest, op operation, fault Fault, f Faults) (booked, error) {
	b := booked{fault: fault}
	base, speak := s.publicURL(), faceOf(req.face)
	e, err := s.book.write(func() (entry, error) {
		now := s.now()
		var err error
		if b.charges, err = s.newObjects(req, op.key, fault, f, now); err != nil {
			return entry{}, err
		}
		b.status, b.body = speak.truth(b.charges[0], base)
		switch {
		case req.act != "" && req.face == FaceStripe:
			b.status, b.body = intentActed(b.charges[0], fault, base)
		case req.act != "":
			b.status, b.body = acted(b.charges[0], fault, base)
		}
		e := entry{At: now, Charges: b.charges}
		if fault == Error500 {
			e.Charges, b.charges = nil, nil
		}
		if op.key != "" {
			e.Answer = &stored{Key: op.key, Hash: op.hash, Status: b.status, Body: string(b.body), At: now}
		}
		if fault == Error500 || fault == Error500Charged {
			b.status, b.body = http.StatusInternalServerError, speak.internalError()
			if e.Answer != nil {
				e.Answer.Status, e.Answer.Body = b.status, string(b.body)
			}
		}
		for _, c := range e.Charges {
			if req.act != "" && c.Status == StatusHeld {
				continue // nothing has come of it
			}
			e.Events = append(e.Events, s.firstEvents(c, f, now)...)
		}
		e.Events = append(e.Events, s.refundedEvents(e.Charges, f, now)...)
		return e, nil
	})
	if err != nil {
		return b, err
	}
	b.early = s.publish(e.Events)
	for _, c := range e.Charges {
		s.disarm(c.ID)
		s.decideLater(c)
	}
	return b, nil
}

var internalError = []byte(`{"error":{"code":"internal","message":"Something went wrong on our side."}}`)

// now is the provider's clock, in the microseconds that databases keep.
func (s *Server) now() time.Time { return s.opts.Now().UTC().Truncate(time.Microsecond) }

// newObjects makes what a request with a fault leaves behind: charges, or refunds of one.
// The error is a *notRefundable. The ledger is locked.
func (s *Server) newObjects(req chargeRequest, key string, fault Fault, f Faults, now time.Time) ([]Charge, error) {
	if req.act != "" {
		c, err := s.newAct(req, fault, f, now)
		return []Charge{c}, err
	}
	if req.of != "" {
		return s.newRefunds(req, key, fault, f, now)
	}
	return s.newCharges(req, key, fault, f, now), nil
}

// newCharges makes the charges that a request with a fault leaves behind.
func (s *Server) newCharges(req chargeRequest, key string, fault Fault, f Faults, now time.Time) []Charge {
	c := Charge{
		ID: newID(faceOf(req.face).idPrefix()), Face: req.face, Reference: req.Reference, Key: key, OrderRef: req.OrderRef,
		Amount: req.minor, Currency: req.Currency, Status: StatusSucceeded,
		CreatedAt: now, UpdatedAt: now, Fault: fault,
	}
	undecided := func(status, then string, after time.Duration) {
		c.Status, c.Decide, c.DecideAt = status, then, time.Now().Add(after).UTC().Truncate(time.Microsecond)
	}
	switch fault {
	case Decline:
		c.Status = StatusFailed
		c.Code, c.Message = s.declineOf(req.Reference)
	case Async202:
		undecided(StatusProcessing, StatusSucceeded, f.Timing.Async)
	case Async202Failed:
		undecided(StatusProcessing, StatusFailed, f.Timing.Async)
	case RequiresAction:
		undecided(StatusRequiresAction, StatusSucceeded, f.Timing.Action)
	case ActionCanceled:
		undecided(StatusRequiresAction, StatusCanceled, f.Timing.Action)
	case AmountAltered:
		c.Asked, c.Amount = c.Amount, altered(c.Amount)
	}
	if c.Manual = req.Capture == "manual"; c.Manual && c.Status == StatusSucceeded {
		c = c.hold(f.Timing.Authorisation, now)
	}
	s.hide(&c, f, now)
	if fault != DoubleObject {
		return []Charge{c}
	}
	twin := c
	twin.ID, twin.CreatedAt = newID(faceOf(req.face).idPrefix()), now.Add(time.Microsecond)
	return []Charge{c, twin}
}

// hide decides how long lookups do not see the charge.
func (s *Server) hide(c *Charge, f Faults, now time.Time) {
	if f.happens(s.opts.Seed, LookupLag, c.subject(), "", 1) {
		c.HideUntil = now.Add(f.Timing.Lag)
		s.tally.fault(LookupLag)
	}
	if f.happens(s.opts.Seed, LookupNotFound, c.subject(), "", 1) {
		c.GoneUntil = now.Add(f.Timing.NotFound)
		s.tally.fault(LookupNotFound)
	}
}

// altered is another amount than the one asked for.
func altered(amount int64) int64 {
	if amount < 10 {
		return amount + 1
	}
	return amount - amount/10
}

// declines are the reasons a bank gives, in the words customers would read.
var declines = [][2]string{
	{"card_declined", "The card was declined."},
	{"insufficient_funds", "The card has insufficient funds."},
	{"expired_card", "The card has expired."},
	{"lost_card", "The card was reported lost."},
	{"limit_exceeded", "The amount exceeds the card's limit."},
}

func (s *Server) declineOf(reference string) (code, message string) {
	d := declines[mix(s.opts.Seed, "decline", reference)%uint64(len(declines))]
	return d[0], d[1]
}

// truth is the gateway's honest answer about a charge or refund.
func truth(c Charge, base string) (int, []byte) {
	body := mustJSON(c.shown(base))
	switch c.Status {
	case StatusProcessing:
		return http.StatusAccepted, body
	case StatusFailed, StatusCanceled:
		return http.StatusPaymentRequired, body
	default:
		return http.StatusOK, body
	}
}
