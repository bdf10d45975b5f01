package stripe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v85"

	"fusebox/provider"
)

// Caps on what an answer may contain.
const (
	maxID      = 255
	maxMessage = 500
)

// intent is a PaymentIntent as far as money depends on it. Everything else in it may
// change its shape from one API version to the next.
type intent struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"`
	Status    string            `json:"status"`
	Amount    amount            `json:"amount"`
	Received  *amount           `json:"amount_received"`
	Currency  string            `json:"currency"`
	Created   stamp             `json:"created"`
	Livemode  *bool             `json:"livemode"`
	Metadata  map[string]string `json:"metadata"`
	LastError *failure          `json:"last_payment_error"`

	CaptureMethod string `json:"capture_method"`
	Canceled      string `json:"cancellation_reason"`
}

// failure is why an attempt failed.
type failure struct {
	Type        string `json:"type"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Message     string `json:"message"`
}

// code is the most exact word for the failure.
func (f failure) code() string { return cmp.Or(f.DeclineCode, f.Code, f.Type) }

// authentication reports whether the payer's bank wants to see the payer, who was not
// there. The intent is alive and waits for them.
func (f *failure) authentication() bool {
	const want = string(sdk.ErrorCodeAuthenticationRequired)
	return f != nil && (f.Code == want || f.DeclineCode == want)
}

// apiError is the error member of an answer.
type apiError struct {
	failure
	Param         string          `json:"param"`
	PaymentIntent json.RawMessage `json:"payment_intent"`
}

// amount is read from its raw token: an integer in plain digits and nothing else.
type amount int64

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(token []byte) error {
	if bytes.Equal(token, []byte("null")) {
		return nil
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	if err != nil {
		return fmt.Errorf("amount is %.40s, not an integer", token)
	}
	*a = amount(n)
	return nil
}

// stamp is a Unix time. It is evidence for people, so a bad one is no reason to doubt
// the rest.
type stamp int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *stamp) UnmarshalJSON(token []byte) error {
	if n, err := strconv.ParseInt(string(token), 10, 64); err == nil && n > 0 && n < 1<<36 {
		*s = stamp(n)
	}
	return nil
}

// time returns the moment, or the zero time.
func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

// outcomes is Stripe's list of status words. requires_payment_method is not on it: its
// meaning depends on the last error. The requires_source words are those of API
// versions before February 2019, in which old endpoints still render their events.
var outcomes = map[sdk.PaymentIntentStatus]provider.Outcome{
	sdk.PaymentIntentStatusSucceeded:            provider.Succeeded,
	sdk.PaymentIntentStatusProcessing:           provider.Processing,
	sdk.PaymentIntentStatusRequiresCapture:      provider.Processing,
	sdk.PaymentIntentStatusRequiresAction:       provider.RequiresAction,
	sdk.PaymentIntentStatusRequiresConfirmation: provider.RequiresAction,
	sdk.PaymentIntentStatusCanceled:             provider.Failed,
	"requires_source_action":                    provider.RequiresAction,
}

// declines are the codes that mean "the payment method said no", in whatever HTTP
// status they come.
var declines = map[sdk.ErrorCode]bool{
	sdk.ErrorCodeCardDeclined: true, sdk.ErrorCodeExpiredCard: true, sdk.ErrorCodeIncorrectCVC: true,
	sdk.ErrorCodeIncorrectNumber: true, sdk.ErrorCodeIncorrectZip: true, sdk.ErrorCodeInsufficientFunds: true,
	sdk.ErrorCodeInvalidCVC: true, sdk.ErrorCodeInvalidNumber: true, sdk.ErrorCodeInvalidExpiryMonth: true,
	sdk.ErrorCodeInvalidExpiryYear: true, sdk.ErrorCodeProcessingError: true,
	sdk.ErrorCodeAuthenticationRequired: true, sdk.ErrorCodePaymentIntentAuthenticationFailure: true,
	sdk.ErrorCodeCardDeclineRateLimitExceeded: true, sdk.ErrorCodePaymentMethodCustomerDecline: true,
}

// outcome reads the status word.
func (p intent) outcome() provider.Outcome {
	switch p.Status {
	case string(sdk.PaymentIntentStatusRequiresPaymentMethod), "requires_source":
		switch {
		case p.LastError.authentication():
			return provider.RequiresAction
		case p.LastError != nil:
			return provider.Failed
		}
		return "" // no attempt was made, and ours confirms in the same request
	}
	return outcomes[sdk.PaymentIntentStatus(p.Status)]
}

// reference is our payment id.
func (p intent) reference() string { return p.Metadata[metaPayment] }

// taken is the amount the intent is about: of a success, what was really received. ok is
// false when it claims to have received more than it was made for.
func (p intent) taken() (n int64, ok bool) {
	if p.outcome() != provider.Succeeded || p.Received == nil {
		return int64(p.Amount), true
	}
	return int64(*p.Received), *p.Received <= p.Amount
}

// object converts an intent to the engine's vocabulary. raw is its own JSON. An amount
// that cannot be read has no outcome: a person decides.
func (p intent) object(raw []byte) provider.Object {
	o := provider.Object{
		ID: p.ID, Reference: p.reference(), Status: p.Status, Outcome: p.outcome(),
		CreatedAt: p.Created.time(), Raw: provider.RedactRaw(raw),
	}
	n, ok := p.taken()
	currency := strings.ToUpper(p.Currency)
	if o.Money, ok = money(n, currency, ok); !ok {
		o.Money, o.Outcome = provider.Money{Currency: currency}, ""
	}
	if p.LastError != nil && o.Outcome != provider.Succeeded {
		o.Reason, o.Message = p.LastError.code(), message(p.LastError.Message)
	}
	p.held(&o)
	return o
}

func money(n int64, currency string, credible bool) (provider.Money, bool) {
	m, ok := fromUnits(n, currency)
	return m, ok && credible
}

var (
	errID   = errors.New("the id is not usable")
	errKind = errors.New("not a payment_intent")
)

// decodeIntent reads one PaymentIntent. Members we do not know are ignored.
func decodeIntent(raw []byte) (intent, error) {
	var p intent
	if err := json.Unmarshal(raw, &p); err != nil {
		return intent{}, err
	}
	switch {
	case p.Object != "" && p.Object != "payment_intent":
		return intent{}, fmt.Errorf("%w but a %.40q", errKind, p.Object)
	case len(p.ID) > maxID || len(p.reference()) > maxText || len(p.Status) > maxID:
		return intent{}, errID
	}
	return p, nil
}

// errorOf reads the error member, if there is one that can be read: a code such as "key
// reused" must not get lost to an oddity next to it.
func errorOf(body []byte) *apiError {
	var shell struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(body, &shell) != nil {
		return nil
	}
	return shell.Error
}

const intentPrefix = "pi_"

// hint reads the id of an object that could not be decoded: a whole string under "id" at
// the top level of as much JSON as there is. It is a hint for a lookup, never evidence.
func hint(body []byte, prefix string) *provider.Object {
	return provider.Hint(body, "id", func(id string) bool { return strings.HasPrefix(id, prefix) && pathSafe(id) })
}

func message(s string) string { return provider.Clip(provider.RedactText(s), maxMessage) }

func lower(s string) string { return strings.ToLower(s) }
