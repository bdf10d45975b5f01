package paypal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"fusebox/provider"
)

// maxText is PayPal's limit for ids and descriptions of ours.
const maxText = 127

// creation is the request for an order.
type creation struct {
	Intent string         `json:"intent"`
	Units  []creationUnit `json:"purchase_units"`
	Source map[string]any `json:"payment_source"`
}

type creationUnit struct {
	CustomID    string `json:"custom_id"`
	InvoiceID   string `json:"invoice_id"`
	Description string `json:"description,omitempty"`
	Amount      amount `json:"amount"`
}

// vaulted is a payment method in PayPal's vault.
type vaulted struct {
	VaultID    string      `json:"vault_id"`
	Credential *credential `json:"stored_credential,omitempty"`
}

// credential says who asks for the money and why: we do, and the payer has agreed before.
type credential struct {
	Initiator string `json:"payment_initiator"`
	Type      string `json:"payment_type"`
	Usage     string `json:"usage"`
}

// Freeze implements provider.Adapter. The same request always gives the same bytes. The
// customer's name and address stay with us: the vault knows its payer.
func (a *Adapter) Freeze(r provider.ChargeRequest) ([]byte, error) {
	if r.PaymentID == "" || len(r.PaymentID) > maxText {
		return nil, &provider.FieldError{Field: "reference", Reason: fmt.Sprintf("must have 1 to %d characters", maxText)}
	}
	value, err := wireAmount(r.Money)
	if err != nil {
		return nil, err
	}
	source, err := paymentSource(r.PaymentMethod)
	if err != nil {
		return nil, err
	}
	intent := "CAPTURE"
	if r.ManualCapture {
		intent = "AUTHORIZE"
	}
	return json.Marshal(creation{
		Intent: intent,
		Units: []creationUnit{{
			CustomID: r.PaymentID, InvoiceID: r.PaymentID, Amount: value,
			Description: provider.Clip(cmp.Or(r.Description, r.OrderRef), maxText), // for the payer to read; PayPal refuses a longer one
		}},
		Source: source,
	})
}

// paymentSource reads "card:VAULT_ID" or "paypal:VAULT_ID". PayPal's ids do not tell what
// they are the ids of.
func paymentSource(method string) (map[string]any, error) {
	kind, id, ok := strings.Cut(method, ":")
	switch {
	case method == "":
		return nil, &provider.FieldError{Field: "payment_method", Reason: "is required: PayPal charges a stored payment method, card:VAULT_ID or paypal:VAULT_ID"}
	case !ok || id == "" || len(id) > 255 || strings.IndexFunc(id, unvaulted) >= 0:
		return nil, &provider.FieldError{Field: "payment_method", Reason: "must be card:VAULT_ID or paypal:VAULT_ID"}
	case kind == "card":
		return map[string]any{kind: vaulted{VaultID: id, Credential: &credential{"MERCHANT", "UNSCHEDULED", "SUBSEQUENT"}}}, nil
	case kind == "paypal":
		return map[string]any{kind: vaulted{VaultID: id}}, nil
	}
	return nil, &provider.FieldError{Field: "payment_method", Reason: "must be card:VAULT_ID or paypal:VAULT_ID"}
}

// unvaulted reports whether a character cannot stand in a vault id.
func unvaulted(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' && r != '-'
}
