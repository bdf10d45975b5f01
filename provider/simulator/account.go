package simulator

import (
	"errors"
	"net/http"
)

// Account is a charge with everything that belongs to it, as the ledger's dump shows it.
type Account struct {
	Charge
	Refunds  []Charge  `json:"refunds"` // never null: an audit can tell "none" from "not said"
	Disputes []Dispute `json:"disputes,omitempty"`
}

// Accounts returns the whole ledger: each charge with its refunds and disputes, oldest
// first. It is one moment's state.
func (s *Server) Accounts() ([]Account, error) {
	b := s.book
	b.mu.Lock()
	disputes := map[string][]Dispute{}
	for _, d := range b.disputes {
		disputes[d.Of] = append(disputes[d.Of], *d)
	}
	var out []Account
	for _, c := range b.ordered {
		a := Account{Charge: *c, Refunds: []Charge{}, Disputes: disputes[c.ID]}
		for _, r := range b.index["refunds of "+c.ID] {
			a.Refunds = append(a.Refunds, *r)
		}
		out = append(out, a)
	}
	b.mu.Unlock()
	return out, b.log.barrier()
}

// Refunds returns the refunds in the ledger, oldest first, whatever became of them.
func (s *Server) Refunds() ([]Charge, error) {
	return s.book.between(span{refunds: true}, nil)
}

// ManualRefund describes a refund that nobody asked for over the API: made in the
// provider's own dashboard.
type ManualRefund struct {
	Amount    int64  // minor units; 0: all that is left
	Reference string // usually none
	Status    string // default StatusSucceeded
}

// AddRefund books such a refund of a charge. Its events follow. The error of bad input is
// a *FieldError.
func (s *Server) AddRefund(chargeID string, m ManualRefund) (Charge, error) {
	if m.Status == "" {
		m.Status = StatusSucceeded
	}
	switch {
	case m.Amount < 0:
		return Charge{}, &FieldError{"amount", "must be a positive integer in minor units"}
	case len(m.Reference) > 255:
		return Charge{}, &FieldError{"reference", "must have at most 255 characters"}
	case !statusWord(m.Status) || m.Status == StatusRequiresAction:
		return Charge{}, &FieldError{"status", "must be a status of a refund"}
	}
	if !s.begin() {
		return Charge{}, errClosed
	}
	defer s.work.Done()
	f := s.Faults()
	e, err := s.book.write(func() (entry, error) {
		now := s.now()
		parent, left, err := s.book.refundable(chargeID)
		switch {
		case errors.Is(err, noSuchCharge):
			return entry{}, errNoCharge
		case err != nil:
			return entry{}, &FieldError{"id", "is a payment that took no money"}
		case left == 0 || m.Amount > left:
			return entry{}, &FieldError{"amount", "is more than can be refunded"}
		}
		r := s.asRefund(Charge{
			Reference: m.Reference, Face: parent.Face, Amount: m.Amount, Currency: parent.Currency,
			Status: m.Status, CreatedAt: now, UpdatedAt: now,
		}, parent)
		if m.Amount == 0 {
			r.Amount = left
		}
		e := entry{At: now, Charges: []Charge{r}, Events: s.newEvents(r, f, now)}
		e.Events = append(e.Events, s.refundedEvents(e.Charges, f, now)...)
		return e, nil
	})
	if err != nil {
		return Charge{}, err
	}
	s.publish(e.Events)
	return e.Charges[0], nil
}

// postManualRefund books a refund: {"amount"?, "reference"?, "status"?}.
func (s *Server) postManualRefund(w http.ResponseWriter, r *http.Request) {
	var m ManualRefund
	err := readFields(r.Body, map[string]any{"amount": &m.Amount, "reference": &m.Reference, "status": &m.Status})
	if err != nil {
		refuse(w, err)
		return
	}
	c, err := s.AddRefund(r.PathValue("id"), m)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, c)
}
