package mollie

import (
	"cmp"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"fusebox/provider"
)

// maxText is Mollie's limit for a description; our other texts are held to it too, since
// metadata may have a kilobyte in all.
const maxText = 255

// creation is the request for a payment.
type creation struct {
	Amount       amount   `json:"amount"`
	Description  string   `json:"description"`
	SequenceType string   `json:"sequenceType"`
	CustomerID   string   `json:"customerId"`
	MandateID    string   `json:"mandateId,omitempty"`
	WebhookURL   string   `json:"webhookUrl,omitempty"`
	Metadata     metadata `json:"metadata"`
	CaptureMode  string   `json:"captureMode,omitempty"`
}

// byHand is the capture mode of a payment whose money is held until it is captured.
const byHand = "manual"

// metadata is what Mollie hands back with every answer.
type metadata struct {
	PaymentID string `json:"payment_id"`
	OrderRef  string `json:"order_ref,omitempty"`
}

// Freeze implements provider.Adapter. The same request always gives the same bytes. The
// customer's name and address stay with us: Mollie knows its customer by its own id.
func (a *Adapter) Freeze(r provider.ChargeRequest) ([]byte, error) {
	value, err := provider.WireTable{}.Decimal(r.Money)
	if err != nil {
		return nil, err
	}
	if err := check(r); err != nil {
		return nil, err
	}
	c := creation{
		Amount:       amount{Currency: r.Money.Currency, Value: value},
		Description:  cmp.Or(r.Description, r.OrderRef, r.PaymentID),
		SequenceType: "recurring",
		CustomerID:   r.CustomerID,
		MandateID:    r.PaymentMethod,
		WebhookURL:   a.hookURL,
		Metadata:     metadata{PaymentID: r.PaymentID, OrderRef: r.OrderRef},
	}
	if r.ManualCapture {
		c.CaptureMode = byHand
	}
	return json.Marshal(c)
}

// check refuses what Mollie would cut or refuse.
func check(r provider.ChargeRequest) error {
	switch {
	case r.PaymentID == "":
		return &provider.FieldError{Field: "reference", Reason: "is required"}
	case r.CustomerID == "":
		return &provider.FieldError{Field: "customer.id", Reason: "is required: Mollie charges a mandate of a customer (cst_…)"}
	}
	for _, t := range []struct{ field, text string }{
		{"reference", r.PaymentID}, {"description", r.Description}, {"order_ref", r.OrderRef},
		{"payment_method", r.PaymentMethod}, {"customer.id", r.CustomerID},
	} {
		if utf8.RuneCountInString(t.text) > maxText {
			return &provider.FieldError{Field: t.field, Reason: fmt.Sprintf("must have at most %d characters", maxText)}
		}
	}
	return nil
}
