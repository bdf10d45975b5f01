package simulator

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// States of a dispute, in the contract's words.
const (
	DisputeOpened = "opened"
	DisputeWon    = "won"
	DisputeLost   = "lost"
)

var errNoDispute = errors.New("simulator: no such dispute")

// Dispute is a customer's bank asking for the money of a charge back.
type Dispute struct {
	ID        string    `json:"id"`
	Of        string    `json:"of"`     // the charge
	Amount    int64     `json:"amount"` // at risk, minor units
	Currency  string    `json:"currency"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"`
	DueBy     time.Time `json:"due_by"` // when evidence has to be there
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// NewDispute describes a dispute to open. Zero fields have defaults: the whole amount,
// "fraudulent", seven days.
type NewDispute struct {
	Amount int64
	Reason string
	DueBy  time.Time
}

// putDispute inserts or replaces a dispute; the caller holds mu, or is alone.
func (b *book) putDispute(d Dispute) {
	for _, have := range b.disputes {
		if have.ID == d.ID {
			*have = d
			return
		}
	}
	b.disputes = append(b.disputes, &d)
}

// OpenDispute opens a dispute about a charge that took money. Its event follows. The
// error of bad input is a *FieldError.
func (s *Server) OpenDispute(chargeID string, n NewDispute) (Dispute, error) {
	return s.dispute(func(now time.Time) (Dispute, error) {
		c, ok := s.book.charges[chargeID]
		switch {
		case !ok || c.refund():
			return Dispute{}, errNoCharge
		case c.Status != StatusSucceeded:
			return Dispute{}, &FieldError{"id", "is a payment that took no money"}
		case n.Amount < 0 || n.Amount > c.Amount:
			return Dispute{}, &FieldError{"amount", "must be positive and at most the payment's"}
		case len(n.Reason) > 255:
			return Dispute{}, &FieldError{"reason", "must have at most 255 characters"}
		}
		d := Dispute{
			ID: newID(faceOf(c.Face).disputePrefix()), Of: c.ID, Amount: n.Amount, Currency: c.Currency,
			Status: DisputeOpened, Reason: n.Reason, DueBy: n.DueBy.UTC().Truncate(time.Second), CreatedAt: now, UpdatedAt: now,
		}
		if d.Amount == 0 {
			d.Amount = c.Amount
		}
		if d.Reason == "" {
			d.Reason = "fraudulent"
		}
		if n.DueBy.IsZero() {
			d.DueBy = now.Add(7 * 24 * time.Hour).Truncate(time.Second)
		}
		return d, nil
	})
}

// DecideDispute ends a dispute as DisputeWon or DisputeLost. Either may follow the other.
func (s *Server) DecideDispute(id, status string) (Dispute, error) {
	if status != DisputeWon && status != DisputeLost {
		return Dispute{}, &FieldError{"status", "must be won or lost"}
	}
	return s.dispute(func(now time.Time) (Dispute, error) {
		at := slices.IndexFunc(s.book.disputes, func(d *Dispute) bool { return d.ID == id })
		if at < 0 {
			return Dispute{}, errNoDispute
		}
		d := *s.book.disputes[at]
		if d.Status == status {
			return d, errDecided
		}
		d.Status, d.UpdatedAt = status, now
		return d, nil
	})
}

// dispute writes a dispute drafted from the ledger as it is, and tells of it.
func (s *Server) dispute(draft func(now time.Time) (Dispute, error)) (Dispute, error) {
	if !s.begin() {
		return Dispute{}, errClosed
	}
	defer s.work.Done()
	f := s.Faults()
	e, err := s.book.write(func() (entry, error) {
		now := s.now()
		d, err := draft(now)
		if err != nil {
			return entry{}, err
		}
		return entry{At: now, Disputes: []Dispute{d}, Events: s.disputeEvents(d, *s.book.charges[d.Of], f, now)}, nil
	})
	if err != nil {
		return Dispute{}, err
	}
	s.publish(e.Events)
	return e.Disputes[0], nil
}

// disputeEvents makes the event about a dispute's state, with the delivery faults drawn
// for it by rate.
func (s *Server) disputeEvents(d Dispute, c Charge, f Faults, now time.Time) []event {
	ev := event{ID: newID("evt"), ChargeID: d.ID, Face: c.Face, Due: time.Now().Add(f.Timing.Webhook)}
	ev.Type, ev.Body = faceOf(c.Face).disputeEvent(ev, now, d, c)
	drawn := Charge{Reference: "dispute of " + c.Reference, Status: d.Status}
	if !s.notifies() || s.eventFault(f, WebhookMissing, drawn) {
		return s.unsent(c.Face, ev)
	}
	return []event{s.spoiled(ev, drawn, f)}
}

// disputeObject is a dispute on the wire.
type disputeObject struct {
	ID               string    `json:"id"`
	PaymentID        string    `json:"payment_id"`
	PaymentReference string    `json:"payment_reference,omitempty"`
	Status           string    `json:"status"`
	Amount           int64     `json:"amount"`
	Currency         string    `json:"currency"`
	Reason           string    `json:"reason"`
	DueBy            time.Time `json:"due_by"`
	CreatedAt        time.Time `json:"created_at"`
}

func (gatewayFace) disputePrefix() string { return "dsp" }

func (gatewayFace) disputeEvent(ev event, at time.Time, d Dispute, c Charge) (kind, body string) {
	ev.Type = "dispute." + d.Status
	return ev.Type, eventBody(ev, at, disputeObject{
		ID: d.ID, PaymentID: d.Of, PaymentReference: c.Reference, Status: d.Status, Amount: d.Amount, Currency: d.Currency,
		Reason: d.Reason, DueBy: d.DueBy, CreatedAt: d.CreatedAt,
	})
}

// postDispute opens a dispute: {"amount"?, "reason"?, "due_by"?}.
func (s *Server) postDispute(w http.ResponseWriter, r *http.Request) {
	var n NewDispute
	err := readFields(r.Body, map[string]any{"amount": &n.Amount, "reason": &n.Reason, "due_by": &n.DueBy})
	if err != nil {
		refuse(w, err)
		return
	}
	d, err := s.OpenDispute(r.PathValue("id"), n)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, d)
}

// postDecideDispute ends a dispute: {"status"}.
func (s *Server) postDecideDispute(w http.ResponseWriter, r *http.Request) {
	var status string
	if err := readFields(r.Body, map[string]any{"status": &status}); err != nil {
		refuse(w, err)
		return
	}
	d, err := s.DecideDispute(r.PathValue("id"), status)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, d)
}
