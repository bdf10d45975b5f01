package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fusebox/provider"
)

var errDispute = errors.New("not a dispute of the contract")

// disputePrefix begins the types of events about disputes; the dispute's word follows.
const disputePrefix = "dispute."

// disputeWord returns the state that an event type announces, if it is about a dispute.
func disputeWord(eventType string) (word string, ok bool) {
	word, ok = strings.CutPrefix(eventType, disputePrefix)
	return word, ok && (word == provider.DisputeOpened || word == provider.DisputeWon || word == provider.DisputeLost)
}

// dispute is a dispute object in an event.
type dispute struct {
	ID               string `json:"id"`
	PaymentID        string `json:"payment_id"`
	PaymentReference string `json:"payment_reference"`
	Status           string `json:"status"`
	Amount           units  `json:"amount"`
	Currency         string `json:"currency"`
	Reason           string `json:"reason"`
	DueBy            string `json:"due_by"`
	CreatedAt        string `json:"created_at"`
}

// readDispute reads the dispute of an event that announces a state. A dispute that says
// something else than its event is not in the contract: nothing could be concluded.
func readDispute(raw []byte, announced string) (provider.Object, error) {
	var d dispute
	if err := json.Unmarshal(raw, &d); err != nil {
		return provider.Object{}, err
	}
	switch {
	case d.ID == "" || len(d.ID) > maxID || len(d.PaymentID) > maxID || len(d.PaymentReference) > maxID:
		return provider.Object{}, errDispute
	case d.Status != announced:
		return provider.Object{}, fmt.Errorf("%w: the event says %s, the object %.40q", errDispute, announced, d.Status)
	}
	created, _ := time.Parse(time.RFC3339Nano, d.CreatedAt)
	due, _ := time.Parse(time.RFC3339Nano, d.DueBy) // zero: not said
	return provider.Object{
		ID: d.ID, Status: d.Status, Reason: message(d.Reason),
		Money:     provider.Money{Amount: int64(d.Amount), Currency: d.Currency},
		CreatedAt: created, Raw: provider.RedactRaw(raw), Kind: provider.ObjectDispute,
		Child: provider.Child{ChargeID: d.PaymentID, PaymentID: d.PaymentReference, DueBy: due},
	}, nil
}
