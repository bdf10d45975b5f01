package mollie

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fusebox/provider"
)

// Caps on what an answer may contain.
const (
	maxID      = 100
	maxMessage = 500
)

// amount is money on Mollie's wire. Both are text: a number is another contract.
type amount struct {
	Currency string `json:"currency"`
	Value    string `json:"value"`
}

// money reads an amount to the minor unit.
func (a amount) money() (provider.Money, error) {
	n, err := provider.DecimalToMinor(a.Value, a.Currency)
	return provider.Money{Amount: n, Currency: a.Currency}, err
}

// minor is a running total, which may be zero and is a check only: what cannot be read
// counts as nothing.
func (a *amount) minor(currency string) int64 {
	if a == nil || a.Currency != currency {
		return 0
	}
	n, _ := provider.DecimalToMinor(a.Value, a.Currency)
	return n
}

// payment is Mollie's payment as far as money depends on it.
type payment struct {
	Resource     string          `json:"resource"`
	ID           string          `json:"id"`
	Mode         string          `json:"mode"`
	Status       string          `json:"status"`
	Amount       amount          `json:"amount"`
	Refunded     *amount         `json:"amountRefunded"`
	Captured     *amount         `json:"amountCaptured"`
	CreatedAt    stamp           `json:"createdAt"`
	Metadata     json.RawMessage `json:"metadata"`
	Details      json.RawMessage `json:"details"`
	StatusReason json.RawMessage `json:"statusReason"`

	CaptureMode   string `json:"captureMode"`
	CaptureBefore stamp  `json:"captureBefore"`
	Embedded      struct {
		Captures    *[]json.RawMessage `json:"captures"`
		Chargebacks []json.RawMessage  `json:"chargebacks"`
	} `json:"_embedded"`
}

// stamp is a time. It is evidence for people, so a bad one is no reason to doubt the rest.
type stamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (s *stamp) UnmarshalJSON(token []byte) error {
	var text string
	if json.Unmarshal(token, &text) != nil {
		return nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() > 2000 && at.Year() < 3000 {
			s.Time = at.UTC()
		}
	}
	return nil
}

// outcomes is Mollie's list of status words.
var outcomes = map[string]provider.Outcome{
	"paid":       provider.Succeeded,
	"pending":    provider.Processing,
	"authorized": provider.Processing,
	"open":       provider.RequiresAction,
	"failed":     provider.Failed,
	"canceled":   provider.Failed,
	"expired":    provider.Failed,
}

// reference is our payment id. Metadata is whatever its maker wrote, JSON in a string
// included; only ours has the member.
func (p payment) reference() string {
	raw := p.Metadata
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var m metadata
	if json.Unmarshal(raw, &m) != nil || len(m.PaymentID) > maxText {
		return ""
	}
	return m.PaymentID
}

// object converts a payment to the engine's vocabulary. raw is its own JSON. An amount
// that cannot be read has no outcome: a person decides.
func (p payment) object(raw []byte) provider.Object {
	o := provider.Object{
		ID: p.ID, Reference: p.reference(), Status: p.Status, Outcome: outcomes[p.Status],
		CreatedAt: p.CreatedAt.Time, Raw: provider.RedactRaw(raw), Totals: p.totals(),
	}
	m, err := p.Amount.money()
	if o.Money = m; err != nil {
		o.Money, o.Outcome = provider.Money{Currency: p.Amount.Currency}, ""
	}
	if o.Outcome == provider.Failed {
		o.Reason, o.Message = p.failure()
	}
	p.held(&o)
	return o
}

func (p payment) totals() *provider.Totals {
	c := p.Amount.Currency
	t := &provider.Totals{Captured: p.Captured.minor(c), Refunded: p.Refunded.minor(c)}
	if p.CaptureMode == byHand && outcomes[p.Status] != provider.Failed || p.Status == statusHeld {
		t.Authorised, t.AuthorisedUntil = p.Amount.minor(c), p.CaptureBefore.Time
	}
	switch p.Status {
	case "paid":
		if p.Captured == nil {
			t.Captured = p.Amount.minor(c)
		}
	}
	return t
}

// failure is why a payment failed, as far as the method says.
func (p payment) failure() (code, words string) {
	var why struct {
		FailureReason  string `json:"failureReason"`
		BankReasonCode string `json:"bankReasonCode"`
		FailureMessage string `json:"failureMessage"`
		BankReason     string `json:"bankReason"`
	}
	var status struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(p.Details, &why) // words for people
	_ = json.Unmarshal(p.StatusReason, &status)
	code = cmp.Or(status.Code, why.FailureReason, why.BankReasonCode, p.Status)
	return provider.Clip(code, maxID), message(cmp.Or(why.FailureMessage, status.Message, why.BankReason))
}

var (
	errID   = errors.New("the id is not usable")
	errKind = errors.New("not a payment")
)

// decode reads one payment. Members we do not know are ignored.
func decode(raw []byte) (payment, error) {
	var p payment
	if err := json.Unmarshal(raw, &p); err != nil {
		return payment{}, err
	}
	switch {
	case p.Resource != "" && p.Resource != "payment":
		return payment{}, fmt.Errorf("%w but a %.40q", errKind, p.Resource)
	case len(p.ID) > maxID || len(p.Status) > maxID:
		return payment{}, errID
	}
	return p, nil
}

// apiError is Mollie's error object.
type apiError struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

func (e apiError) words() string {
	if e.Field != "" {
		return message(e.Field + ": " + e.Detail)
	}
	return message(cmp.Or(e.Detail, e.Title))
}

// hint is the id of a payment that could not be decoded.
func hint(body []byte) *provider.Object { return provider.Hint(body, "id", isPaymentID) }

// isPaymentID reports whether a text looks like the id of a payment of Mollie's.
func isPaymentID(id string) bool {
	rest, ok := strings.CutPrefix(id, "tr_")
	return ok && rest != "" && len(id) <= maxID && strings.IndexFunc(rest, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

func message(s string) string { return provider.Clip(provider.RedactText(s), maxMessage) }
