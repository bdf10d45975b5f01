package simulator

import (
	"cmp"
	"errors"
	"time"
)

// decideLater arms the timer of a charge that decides itself.
func (s *Server) decideLater(c Charge) {
	if c.Decide == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return // the next start arms it
	}
	s.timers[c.ID] = time.AfterFunc(time.Until(c.DecideAt), func() {
		_, err := s.Complete(c.ID, c.Decide)
		if err != nil && !errors.Is(err, errDecided) && !errors.Is(err, errClosed) && !errors.Is(err, errNoCharge) {
			s.opts.Log.Error("cannot decide charge", "charge", c.ID, "error", err)
		}
	})
}

// Complete decides a charge or refund that is processing or waits for the customer, as its
// own timer or the customer would: StatusSucceeded, StatusFailed, StatusCanceled,
// or StatusProcessing after the customer's action. Its event follows.
func (s *Server) Complete(id, status string) (Charge, error) {
	switch status {
	case StatusSucceeded, StatusFailed, StatusCanceled, StatusProcessing:
	default:
		return Charge{}, &FieldError{"status", "must be succeeded, failed, canceled or processing"}
	}
	if !s.begin() {
		return Charge{}, errClosed
	}
	defer s.work.Done()
	var done Charge
	f := s.Faults()
	e, err := s.book.write(func() (entry, error) {
		c, ok := s.book.charges[id]
		switch {
		case !ok:
			return entry{}, errNoCharge
		case c.final() || c.Status == status:
			return entry{}, errDecided
		}
		now := s.now()
		switch {
		case c.Status == StatusHeld:
			done = settled(*c, status, now)
		case c.Manual && status == StatusSucceeded:
			done = c.hold(f.Timing.Authorisation, now)
		default:
			done = decided(*c, status, now)
		}
		e := entry{At: now, Charges: []Charge{done}, Events: s.newEvents(done, f, now)}
		e.Events = append(e.Events, s.refundedEvents(e.Charges, f, now)...)
		return e, nil
	})
	if err != nil {
		return done, err
	}
	if done.final() || done.Status == StatusHeld {
		s.disarm(id)
		s.decideLater(done)
	}
	s.publish(e.Events)
	return done, nil
}

// settled returns a held charge after the decision: captured as asked for, or all of it by
// somebody in the provider's dashboard, or refused after its capture was acknowledged, or
// lapsed.
func settled(c Charge, status string, now time.Time) Charge {
	switch {
	case status == StatusSucceeded:
		return c.capture(cmp.Or(c.Capturing, c.Amount), now)
	case status == StatusFailed && c.Capturing != 0:
		return c.refuse(now)
	}
	return c.release(codeExpired, now)
}

// decided returns the charge after the decision.
func decided(c Charge, status string, now time.Time) Charge {
	c.Status, c.UpdatedAt = status, now
	switch status {
	case StatusFailed:
		c.Code, c.Message = "insufficient_funds", "The card has insufficient funds."
		if c.refund() {
			c.Code, c.Message = refundDeclines[0][0], refundDeclines[0][1]
		}
	case StatusCanceled:
		c.Code, c.Message = "expired", "The customer did not complete the payment."
		if c.refund() {
			c.Code, c.Message = "canceled", "The refund was canceled."
		}
	}
	if c.final() {
		c.Decide, c.DecideAt = "", time.Time{}
	}
	return c
}

// disarm stops the timer of a decided charge.
func (s *Server) disarm(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.timers[id]; ok {
		t.Stop()
		delete(s.timers, id)
	}
}
