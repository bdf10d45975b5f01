package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fusebox/provider"
)

// chargeBody is the request of POST /payments. The order of its members is part of the
// frozen bytes: append only.
type chargeBody struct {
	Reference   string    `json:"reference"`
	Amount      int64     `json:"amount"`
	Currency    string    `json:"currency"`
	Description string    `json:"description,omitempty"`
	OrderRef    string    `json:"order_ref,omitempty"`
	Customer    *customer `json:"customer,omitempty"`
	Capture     string    `json:"capture,omitempty"`
}

type customer struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// payment is a payment object in any answer.
type payment struct {
	ID              string    `json:"id"`
	Reference       string    `json:"reference"`
	Status          string    `json:"status"`
	Amount          units     `json:"amount"`
	Currency        string    `json:"currency"`
	CreatedAt       string    `json:"created_at"`
	IdempotencyKey  string    `json:"idempotency_key"`
	Error           *apiError `json:"error"`
	AuthorisedUntil string    `json:"authorised_until"`
	Totals          *struct {
		Authorised units `json:"authorised"`
		Captured   units `json:"captured"`
		Refunded   units `json:"refunded"`
	} `json:"totals"`
}

type apiError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

// units is an amount read from its raw token: an integer in plain digits and nothing
// else. 4900.0, 4.9e3 and "4900" are other shapes than the contract's.
type units int64

// UnmarshalJSON implements json.Unmarshaler.
func (u *units) UnmarshalJSON(token []byte) error {
	if bytes.Equal(token, []byte("null")) {
		return nil
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	if err != nil || token[0] == '+' {
		return fmt.Errorf("amount is %.40s, not an integer", token)
	}
	*u = units(n)
	return nil
}

// maxID caps ids; longer ones are not ids.
const maxID = 255

// outcomes is the contract's list of status words.
var outcomes = map[string]provider.Outcome{
	"succeeded":       provider.Succeeded,
	"processing":      provider.Processing,
	"requires_action": provider.RequiresAction,
	"failed":          provider.Failed,
	"canceled":        provider.Failed,
	statusHeld:        provider.Processing,
}

// statusHeld is the word for money that is held and not taken.
const statusHeld = "requires_capture"

// declines is the list of codes that mean "the payment method said no", whatever the
// HTTP status they come with.
var declines = map[string]bool{
	"card_declined": true, "insufficient_funds": true, "expired_card": true,
	"do_not_honor": true, "incorrect_cvc": true, "lost_card": true, "stolen_card": true,
	"limit_exceeded": true, "fraud_suspected": true, "payment_declined": true,
	"refund_declined": true, "insufficient_balance": true, "capture_declined": true,
}

// object converts a payment to the engine's vocabulary. raw is its own JSON.
func (p payment) object(raw []byte) provider.Object {
	created, _ := time.Parse(time.RFC3339Nano, p.CreatedAt) // evidence only: a bad one is no reason to doubt the rest
	o := provider.Object{
		ID: p.ID, Reference: p.Reference, OperationKey: p.IdempotencyKey,
		Status: p.Status, Outcome: outcomes[p.Status],
		Money:     provider.Money{Amount: int64(p.Amount), Currency: p.Currency},
		CreatedAt: created, Raw: provider.RedactRaw(raw),
	}
	if p.Error != nil {
		o.Reason, o.Message = p.Error.Code, message(p.Error.Message)
	}
	if p.Totals != nil {
		until, _ := time.Parse(time.RFC3339Nano, p.AuthorisedUntil)
		o.Totals = &provider.Totals{Authorised: int64(p.Totals.Authorised), Captured: int64(p.Totals.Captured),
			Refunded: int64(p.Totals.Refunded), AuthorisedUntil: until}
		if p.Totals.Authorised > 0 && o.Outcome == provider.Succeeded {
			o.Money.Amount = int64(p.Totals.Captured) // of what was held, what a capture took
		}
	}
	if p.Status == statusHeld {
		o.Reason = provider.ReasonAuthorised
	}
	return o
}

// readPayment decodes a payment into the engine's vocabulary.
func readPayment(raw []byte) (provider.Object, error) {
	p, err := decodePayment(raw)
	if err != nil {
		return provider.Object{}, err
	}
	return p.object(raw), nil
}

// maxMessage caps a provider's words for people.
const maxMessage = 500

func message(s string) string { return provider.Clip(provider.RedactText(s), maxMessage) }

var errID = errors.New("the id is not usable")

// decodePayment reads one payment object. Members we do not know are ignored.
func decodePayment(raw []byte) (payment, error) {
	var p payment
	if err := json.Unmarshal(raw, &p); err != nil {
		return payment{}, err
	}
	if len(p.ID) > maxID || len(p.IdempotencyKey) > maxID || len(p.Reference) > maxID {
		return payment{}, errID
	}
	return p, nil
}

// hint reads the id of a body that could not be decoded, as far as it goes: a whole
// string under "id" at the top level. It is a hint for a lookup, never evidence.
func hint(body []byte) *provider.Object {
	return provider.Hint(body, "id", func(id string) bool { return id != "" && len(id) <= maxID })
}
