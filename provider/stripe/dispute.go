package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/stripe/stripe-go/v85"

	"fusebox/provider"
)

// dispute is a Dispute as far as it concerns people and books.
type dispute struct {
	ID       string     `json:"id"`
	Object   string     `json:"object"`
	Status   string     `json:"status"`
	Reason   string     `json:"reason"`
	Amount   amount     `json:"amount"`
	Currency string     `json:"currency"`
	Created  stamp      `json:"created"`
	Intent   expandable `json:"payment_intent"`
	Evidence struct {
		DueBy stamp `json:"due_by"`
	} `json:"evidence_details"`
}

// disputeWords maps Stripe's words. A closed warning took no money, and a prevented
// dispute never became one.
var disputeWords = map[sdk.DisputeStatus]string{
	sdk.DisputeStatusNeedsResponse:        provider.DisputeOpened,
	sdk.DisputeStatusUnderReview:          provider.DisputeOpened,
	sdk.DisputeStatusWarningNeedsResponse: provider.DisputeOpened,
	sdk.DisputeStatusWarningUnderReview:   provider.DisputeOpened,
	sdk.DisputeStatusWarningClosed:        provider.DisputeWon,
	sdk.DisputeStatusPrevented:            provider.DisputeWon,
	sdk.DisputeStatusWon:                  provider.DisputeWon,
	sdk.DisputeStatusLost:                 provider.DisputeLost,
}

var errDispute = errors.New("not a dispute that can be read")

// readDispute reads the object of a dispute's event.
func readDispute(raw []byte) (provider.Object, error) {
	var d dispute
	if err := json.Unmarshal(raw, &d); err != nil {
		return provider.Object{}, err
	}
	if d.ID == "" || len(d.ID) > maxID || len(d.Intent) > maxID || d.Object != "" && d.Object != "dispute" {
		return provider.Object{}, errDispute
	}
	word, ok := disputeWords[sdk.DisputeStatus(d.Status)]
	if !ok {
		return provider.Object{}, fmt.Errorf("%w: status %.40q", errDispute, d.Status)
	}
	o := provider.Object{
		ID: d.ID, Status: word, Reason: message(d.Reason), CreatedAt: d.Created.time(), Raw: provider.RedactRaw(raw),
		Kind: provider.ObjectDispute, Child: provider.Child{ChargeID: string(d.Intent), DueBy: d.Evidence.DueBy.time()},
	}
	o.Money, _ = fromUnits(int64(d.Amount), strings.ToUpper(d.Currency)) // the amount at risk; zero where it cannot be said
	return o, nil
}
