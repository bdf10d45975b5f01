package simulator

import (
	"net/http"
	"time"
)

// Manual describes a charge that reaches the ledger without a request: made in the
// provider's own dashboard, by another program, or by mistake.
type Manual struct {
	Reference string
	Amount    int64 // minor units
	Currency  string
	Status    string // default StatusSucceeded
	OrderRef  string
	Face      string // the API its events speak; default the gateway contract
}

// AddCharge books a charge that nobody asked for over the API. Its event follows.
// The error of bad input is a *FieldError.
func (s *Server) AddCharge(m Manual) (Charge, error) {
	if m.Status == "" {
		m.Status = StatusSucceeded
	}
	switch {
	case m.Reference == "" || len(m.Reference) > 255:
		return Charge{}, &FieldError{"reference", "must have 1 to 255 characters"}
	case m.Amount <= 0 || m.Amount > maxAmount:
		return Charge{}, &FieldError{"amount", "must be a positive integer in minor units"}
	case !known(m.Currency):
		return Charge{}, &FieldError{"currency", "must be an ISO 4217 code"}
	case !statusWord(m.Status):
		return Charge{}, &FieldError{"status", "must be a status of the contract"}
	case m.Face != "" && m.Face != FaceStripe:
		return Charge{}, &FieldError{"face", "must be stripe or absent"}
	}
	if !s.begin() {
		return Charge{}, errClosed
	}
	defer s.work.Done()
	f := s.Faults()
	e, err := s.book.write(func() (entry, error) {
		now := s.now()
		c := Charge{
			ID: newID(faceOf(m.Face).idPrefix()), Face: m.Face, Reference: m.Reference, OrderRef: m.OrderRef, Amount: m.Amount,
			Currency: m.Currency, Status: m.Status, CreatedAt: now, UpdatedAt: now,
		}
		if m.Status == StatusFailed {
			c.Code, c.Message = s.declineOf(m.Reference)
		}
		return entry{At: now, Charges: []Charge{c}, Events: s.newEvents(c, f, now)}, nil
	})
	if err != nil {
		return Charge{}, err
	}
	s.publish(e.Events)
	return e.Charges[0], nil
}

func statusWord(status string) bool {
	switch status {
	case StatusSucceeded, StatusProcessing, StatusRequiresAction, StatusFailed, StatusCanceled:
		return true
	}
	return false
}

// Claim is what an event of one's own making says about a charge. Zero fields say
// the truth.
type Claim struct {
	Type     string // default: the type that belongs to the status
	Status   string // any word, also one outside the contract
	Amount   int64
	Currency string
}

// Emit sends an event about a charge that may contradict the ledger, which stays
// as it is. It returns the event's id.
func (s *Server) Emit(id string, claim Claim) (string, error) {
	if !s.begin() {
		return "", errClosed
	}
	defer s.work.Done()
	if !s.notifies() {
		return "", &FieldError{"webhook_url", "is not set: nobody to tell"}
	}
	timing := s.Faults().Timing
	e, err := s.book.write(func() (entry, error) {
		c, ok := s.book.charges[id]
		if !ok {
			return entry{}, errNoCharge
		}
		now := s.now()
		return entry{At: now, Events: []event{s.claimed(*c, claim, timing, now)}}, nil
	})
	if err != nil {
		return "", err
	}
	s.publish(e.Events)
	return e.Events[0].ID, nil
}

// claimed renders the event that makes a claim.
func (s *Server) claimed(c Charge, claim Claim, t Timing, now time.Time) event {
	if claim.Status != "" {
		c.Status = claim.Status
	}
	if claim.Amount != 0 {
		c.Amount = claim.Amount
	}
	if claim.Currency != "" {
		c.Currency = claim.Currency
	}
	return s.newEvent(claim.Type, c, t, now)
}

// postManual books a charge: {"reference", "amount", "currency", "status"?, "order_ref"?, "face"?}.
func (s *Server) postManual(w http.ResponseWriter, r *http.Request) {
	var m Manual
	err := readFields(r.Body, map[string]any{
		"reference": &m.Reference, "amount": &m.Amount, "currency": &m.Currency,
		"status": &m.Status, "order_ref": &m.OrderRef, "face": &m.Face,
	})
	if err != nil {
		refuse(w, err)
		return
	}
	c, err := s.AddCharge(m)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, c)
}

// postEvent sends a claim: {"type"?, "status"?, "amount"?, "currency"?}.
func (s *Server) postEvent(w http.ResponseWriter, r *http.Request) {
	var c Claim
	err := readFields(r.Body, map[string]any{"type": &c.Type, "status": &c.Status, "amount": &c.Amount, "currency": &c.Currency})
	if err != nil {
		refuse(w, err)
		return
	}
	id, err := s.Emit(r.PathValue("id"), c)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]string{"id": id})
}
