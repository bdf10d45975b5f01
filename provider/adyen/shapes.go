package adyen

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"fusebox/provider"
)

const maxMessage = 500

// payment is the answer to a charge, as far as money depends on it.
type payment struct {
	PSP        string     `json:"pspReference"`
	Result     string     `json:"resultCode"`
	Amount     *wireMoney `json:"amount"`
	Reference  string     `json:"merchantReference"`
	Refusal    string     `json:"refusalReason"`
	RefusalNum text       `json:"refusalReasonCode"`
}

// wireMoney is an amount of Adyen's as it stands in the JSON: the number's own token, so
// that it is read, and signed, exactly as it was sent.
type wireMoney struct {
	Currency string `json:"currency"`
	Value    text   `json:"value"`
}

// text is the text of a JSON string, or the token of a number or boolean: Adyen writes
// "true" as well as true.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(token []byte) error {
	var s string
	switch {
	case string(token) == "null":
	case token[0] == '"':
		if err := json.Unmarshal(token, &s); err != nil {
			return err
		}
	case token[0] == '{' || token[0] == '[':
		return errShape
	default:
		s = string(token)
	}
	*t = text(s)
	return nil
}

var (
	errShape = errors.New("adyen: not a plain value")
	errID    = errors.New("adyen: an id or word is not usable")
)

// money reads the amount to the minor unit. A number that is not a plain integer
// ("1000.0", "1e3") is another contract.
func (w *wireMoney) money() (provider.Money, bool) {
	if w == nil {
		return provider.Money{}, false
	}
	n, err := strconv.ParseInt(string(w.Value), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != string(w.Value) {
		return provider.Money{Currency: provider.Clip(w.Currency, maxID)}, false
	}
	m, ok := fromUnits(n, w.Currency)
	if !ok {
		return provider.Money{Currency: provider.Clip(w.Currency, maxID)}, false
	}
	return m, true
}

// results is Adyen's list of result codes.
var results = map[string]provider.Outcome{
	"Authorised":       provider.Succeeded,
	"Received":         provider.Processing,
	"Pending":          provider.Processing,
	"RedirectShopper":  provider.RequiresAction,
	"IdentifyShopper":  provider.RequiresAction,
	"ChallengeShopper": provider.RequiresAction,
	"PresentToShopper": provider.RequiresAction,
	"Refused":          provider.Failed,
	"Cancelled":        provider.Failed,
	"Error":            provider.Failed,
}

// decode reads one payment. Members we do not know are ignored.
func decode(raw []byte) (payment, error) {
	var p payment
	if err := json.Unmarshal(raw, &p); err != nil {
		return payment{}, err
	}
	if len(p.PSP) > maxID || len(p.Result) > maxID || !provider.Printable(p.PSP) || len(p.Reference) > maxShopper {
		return payment{}, errID
	}
	return p, nil
}

// object converts an answer to the engine's vocabulary. An open payment need not repeat
// the amount that was asked; a success has to.
func (p payment) object(raw []byte, asked creation) provider.Object {
	reference, _ := paymentOf(p.Reference)
	o := provider.Object{
		ID: p.PSP, Reference: reference, Status: p.Result, Outcome: results[p.Result], Raw: provider.RedactRaw(withoutCard(raw)),
	}
	m, ok := p.Amount.money()
	o.Money = m
	switch open := o.Outcome == provider.Processing || o.Outcome == provider.RequiresAction; {
	case p.Amount == nil && open:
		o.Money, _ = fromUnits(asked.Amount.Value, asked.Amount.Currency)
	case p.Amount != nil && !ok:
		o.Outcome = ""
	}
	if o.Outcome == provider.Failed {
		o.Reason, o.Message = refusal(p), message(p.Refusal)
	}
	if _, held := paymentOf(asked.Reference); held {
		o = authorised(o)
	}
	return o
}

// authorised is what an authorisation of a payment means whose money is only held: of a
// success, that it is. Adyen does not say until when.
func authorised(o provider.Object) provider.Object {
	if o.Outcome == provider.Succeeded {
		o.Outcome, o.Reason, o.Totals = provider.Processing, provider.ReasonAuthorised, &provider.Totals{Authorised: o.Money.Amount}
	}
	return o
}

// refusal is the code of a refusal, the result's own word where there is none.
func refusal(p payment) string {
	if p.RefusalNum == "" {
		return p.Result
	}
	return provider.Clip(string(p.RefusalNum), maxID)
}

// hint reads the id of an answer that could not be decoded: a whole string under
// "pspReference" at the top level of as much JSON as there is. Never evidence.
func hint(body []byte) *provider.Object { return provider.Hint(body, "pspReference", fits) }

// unkept are members whose values are about the card or the shopper's way through an
// authentication. No decision needs them, so they are not kept.
var unkept = []string{"additionalData", "action", "paymentMethod", "fraudResult", "threeDS2Result", "threeDS2ResponseData"}

// withoutCard is what may be stored of a body: no card data, no secrets, and none of the
// further members named.
func withoutCard(body []byte, more ...string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return provider.Redact(body)
	}
	for _, name := range slices.Concat(unkept, more) {
		delete(members, name)
	}
	kept, err := json.Marshal(members)
	if err != nil {
		return provider.Redact(body)
	}
	return provider.Redact(kept)
}

func message(s string) string { return provider.Clip(provider.RedactText(s), maxMessage) }
