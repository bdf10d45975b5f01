package adyen

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"fusebox/provider"
)

// Adyen's limits for texts of ours.
const (
	maxReference = 80
	maxPayment   = maxReference - len(heldPrefix)
	maxShopper   = 256
	minShopper   = 3
	maxOrder     = 1000
)

// amount is money on Adyen's wire, in its own minor units.
type amount struct {
	Currency string `json:"currency"`
	Value    int64  `json:"value"`
}

// creation is the request for a payment.
type creation struct {
	MerchantAccount string `json:"merchantAccount"`
	Amount          amount `json:"amount"`
	Reference       string `json:"reference"`
	Order           string `json:"merchantOrderReference,omitempty"`
	Method          method `json:"paymentMethod"`
	Shopper         string `json:"shopperReference"`
	Interaction     string `json:"shopperInteraction"`
	Model           string `json:"recurringProcessingModel"`
	ReturnURL       string `json:"returnUrl,omitempty"`

	Additional *additional `json:"additionalData,omitempty"`
}

// additional asks for the money to be held until a capture, whatever the account's own
// setting.
type additional struct {
	Manual string `json:"manualCapture"`
}

// heldPrefix marks the reference of a payment whose money is to be held. Events repeat the
// reference, signed, and say of an authorisation nothing else that tells held from taken.
const heldPrefix = "hold-"

// paymentOf reads our payment id from a payment's reference, and whether its money is to
// be held.
func paymentOf(reference string) (id string, held bool) {
	return strings.CutPrefix(reference, heldPrefix)
}

// method is a token that Adyen keeps for us.
type method struct {
	Type   string `json:"type"`
	Stored string `json:"storedPaymentMethodId"`
}

// cards is the type of a token that names none.
const cards = "scheme"

// Freeze implements provider.Adapter. The same request always gives the same bytes. The
// customer's name and address stay with us: Adyen knows its shopper by a reference. A
// token of another type than a card's has the type in front: "sepadirectdebit:8415…".
func (a *Adapter) Freeze(r provider.ChargeRequest) ([]byte, error) {
	n, err := wire.Units(r.Money)
	if err != nil {
		return nil, err
	}
	m := method{Type: cards, Stored: r.PaymentMethod}
	if kind, token, ok := strings.Cut(r.PaymentMethod, ":"); ok {
		m = method{Type: kind, Stored: token}
	}
	if err := check(r, m); err != nil {
		return nil, err
	}
	c := creation{
		MerchantAccount: a.account,
		Amount:          amount{Currency: r.Money.Currency, Value: n},
		Reference:       r.PaymentID,
		Order:           r.OrderRef,
		Method:          m,
		Shopper:         r.CustomerID,
		Interaction:     "ContAuth",
		Model:           "UnscheduledCardOnFile",
		ReturnURL:       a.returnURL,
	}
	if r.ManualCapture {
		c.Reference, c.Additional = heldPrefix+r.PaymentID, &additional{Manual: "true"}
	}
	return json.Marshal(c)
}

// check refuses what Adyen would refuse, and what could not be found again.
func check(r provider.ChargeRequest, m method) error {
	refuse := func(field, reason string) error { return &provider.FieldError{Field: field, Reason: reason} }
	switch {
	case r.PaymentID == "" || len(r.PaymentID) > maxPayment || !unambiguous(r.PaymentID) || strings.HasPrefix(r.PaymentID, heldPrefix):
		return refuse("reference", fmt.Sprintf("must have 1 to %d printable characters, no colon and no backslash, and not begin with %s", maxPayment, heldPrefix))
	case !fits(m.Stored) || m.Type == "" || !provider.Printable(m.Type):
		return refuse("metadata.payment_method", "is required: Adyen charges a stored token")
	case len(r.CustomerID) < minShopper || len(r.CustomerID) > maxShopper || !provider.Printable(r.CustomerID):
		return refuse("metadata.customer_id", fmt.Sprintf("must be the shopperReference the token was stored under, %d to %d characters", minShopper, maxShopper))
	case utf8.RuneCountInString(r.OrderRef) > maxOrder:
		return refuse("order_ref", fmt.Sprintf("must have at most %d characters", maxOrder))
	}
	return nil
}

// maxID caps ids, codes and words of Adyen's.
const maxID = 100

// fits reports whether s can be an id or a word of Adyen's.
func fits(s string) bool { return s != "" && len(s) <= maxID && provider.Printable(s) }

// unambiguous reports whether s reads the same whichever way signed fields are joined.
func unambiguous(s string) bool { return provider.Printable(s) && !strings.ContainsAny(s, `:\`) }
