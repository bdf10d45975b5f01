package paypal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"fusebox/provider"
)

// dispute is a case about a charge as far as it concerns people and books.
type dispute struct {
	ID           string  `json:"dispute_id"`
	Status       string  `json:"status"`
	Reason       string  `json:"reason"`
	Amount       *amount `json:"dispute_amount"`
	Created      stamp   `json:"create_time"`
	DueBy        stamp   `json:"seller_response_due_date"`
	Transactions []struct {
		Invoice string `json:"invoice_number"`
		Custom  string `json:"custom"`
	} `json:"disputed_transactions"`
	End struct {
		Code string `json:"outcome_code"`
	} `json:"dispute_outcome"`
}

// disputeEvents are the events about a dispute. Each carries the dispute as it is.
var disputeEvents = words(`CUSTOMER.DISPUTE.CREATED CUSTOMER.DISPUTE.UPDATED CUSTOMER.DISPUTE.RESOLVED`)

const statusResolved = "RESOLVED"

// openDisputes is PayPal's list of words for a dispute that goes on.
var openDisputes = words(`OPEN WAITING_FOR_BUYER_RESPONSE WAITING_FOR_SELLER_RESPONSE UNDER_REVIEW OTHER`)

// disputeEnds maps how a dispute was resolved. A payout is PayPal's own money: ours stays.
var disputeEnds = map[string]string{
	"RESOLVED_BUYER_FAVOUR":  provider.DisputeLost,
	"ACCEPTED":               provider.DisputeLost,
	"RESOLVED_SELLER_FAVOUR": provider.DisputeWon,
	"RESOLVED_WITH_PAYOUT":   provider.DisputeWon,
	"CANCELED_BY_BUYER":      provider.DisputeWon,
	"DENIED":                 provider.DisputeWon,
}

var errDispute = errors.New("not a dispute that can be read")

// readDispute reads the resource of a dispute's event. It names the capture and no order,
// so it finds its payment by the invoice id, which is our payment id.
func readDispute(raw []byte) (provider.Object, error) {
	var d dispute
	if err := json.Unmarshal(raw, &d); err != nil {
		return provider.Object{}, err
	}
	if d.ID == "" || len(d.ID) > maxID || len(d.Transactions) != 1 {
		return provider.Object{}, errDispute // one about several charges is for a person
	}
	word, err := d.word()
	if err != nil {
		return provider.Object{}, err
	}
	ours := cmp.Or(d.Transactions[0].Invoice, d.Transactions[0].Custom)
	if len(ours) > maxText {
		return provider.Object{}, errID
	}
	o := provider.Object{
		ID: d.ID, Status: word, Reason: message(d.Reason), CreatedAt: d.Created.Time, Raw: provider.RedactRaw(raw),
		Kind: provider.ObjectDispute, Child: provider.Child{PaymentID: ours, DueBy: d.DueBy.Time},
	}
	if d.Amount != nil {
		o.Money, _ = d.Amount.money() // the amount at risk; zero where it cannot be said
	}
	return o, nil
}

// word is the dispute's state in our vocabulary.
func (d dispute) word() (string, error) {
	if openDisputes[d.Status] {
		return provider.DisputeOpened, nil
	}
	if word, ok := disputeEnds[d.End.Code]; ok && d.Status == statusResolved {
		return word, nil
	}
	return "", fmt.Errorf("%w: status %.40q, outcome %.40q", errDispute, d.Status, d.End.Code)
}
