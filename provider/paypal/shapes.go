package paypal

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"fusebox/provider"
)

// Caps on what an answer may contain.
const (
	maxID      = 100
	maxMessage = 500
)

// order is PayPal's order as far as money depends on it.
type order struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Created stamp  `json:"create_time"`
	Units   []unit `json:"purchase_units"`
}

type unit struct {
	CustomID string  `json:"custom_id"`
	Amount   *amount `json:"amount"`
	Payments struct {
		Authorizations []authorization `json:"authorizations"`
		Captures       []capture       `json:"captures"`
		Refunds        []refund        `json:"refunds"`
	} `json:"payments"`
}

// capture is the taking of an order's money.
type capture struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	StatusDetails struct {
		Reason string `json:"reason"`
	} `json:"status_details"`
	CustomID string  `json:"custom_id"`
	Amount   *amount `json:"amount"`
	Created  stamp   `json:"create_time"`
	Response struct {
		Code string `json:"response_code"`
	} `json:"processor_response"`
	Related related         `json:"supplementary_data"`
	Links   json.RawMessage `json:"links"`
}

// refund is the giving back of a capture's money, or of a part.
type refund struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	StatusDetails struct {
		Reason string `json:"reason"`
	} `json:"status_details"`
	CustomID  string  `json:"custom_id"`
	InvoiceID string  `json:"invoice_id"`
	Amount    *amount `json:"amount"`
	Created   stamp   `json:"create_time"`
}

// stamp is a time. It is evidence for people, so a bad one is no reason to doubt the rest.
type stamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. The search writes its zone without a colon.
func (s *stamp) UnmarshalJSON(token []byte) error {
	var text string
	if json.Unmarshal(token, &text) != nil {
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() > 2000 && at.Year() < 3000 {
			s.Time = at.UTC()
		}
	}
	return nil
}

// captureOutcomes is PayPal's list of words for a capture. What was refunded was taken
// before.
var captureOutcomes = map[string]provider.Outcome{
	"COMPLETED":          provider.Succeeded,
	"PARTIALLY_REFUNDED": provider.Succeeded,
	"REFUNDED":           provider.Succeeded,
	"PENDING":            provider.Processing,
	"DECLINED":           provider.Failed,
	"FAILED":             provider.Failed,
}

// orderOutcomes is PayPal's list of words for an order without a capture. A completed one
// has a capture.
var orderOutcomes = map[string]provider.Outcome{
	"CREATED":               provider.RequiresAction,
	"PAYER_ACTION_REQUIRED": provider.RequiresAction,
	"APPROVED":              provider.Processing,
	"SAVED":                 provider.Processing,
	"VOIDED":                provider.Failed,
	"COMPLETED":             "",
}

var (
	errID    = errors.New("the id is not usable")
	errUnits = errors.New("not one purchase unit")
)

// decodeOrder reads one order. Members we do not know are ignored.
func decodeOrder(raw []byte) (order, error) {
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return order{}, err
	}
	switch {
	case len(o.ID) > maxID || len(o.Status) > maxID || len(o.reference()) > maxText:
		return order{}, errID
	case o.ID != "" && len(o.Units) > 1:
		return order{}, errUnits
	}
	return o, nil
}

// reference is our payment id.
func (o order) reference() string {
	if len(o.Units) == 0 {
		return ""
	}
	ref := o.Units[0].CustomID
	for _, c := range o.Units[0].Payments.Captures {
		ref = cmp.Or(ref, c.CustomID)
	}
	for _, h := range o.Units[0].Payments.Authorizations {
		ref = cmp.Or(ref, h.CustomID)
	}
	return ref
}

// taken picks the capture that says what became of the order: one that took the money,
// else one that may, else the last that did not. ok is false when more than one took it,
// or one says what we do not know.
func (u unit) taken() (c capture, ok bool) {
	rank := map[provider.Outcome]int{provider.Failed: 1, provider.Processing: 2, provider.Succeeded: 3}
	best, succeeded := 0, 0
	for _, x := range u.Payments.Captures {
		n := rank[captureOutcomes[x.Status]]
		if n == 0 {
			return x, false
		}
		if n == 3 {
			succeeded++
		}
		if n >= best {
			best, c = n, x
		}
	}
	return c, succeeded < 2
}

// object converts an order to the engine's vocabulary. raw is its own JSON. An amount
// that cannot be read has no outcome: a person decides.
func (o order) object(raw []byte) provider.Object {
	out := provider.Object{
		ID: o.ID, Reference: o.reference(), Status: o.Status, CreatedAt: o.Created.Time, Raw: provider.RedactRaw(raw),
	}
	outcome, listed := orderOutcomes[o.Status]
	if len(o.Units) == 0 {
		return out // the minimal representation: says nothing about the money
	}
	u := o.Units[0]
	if u.undecided() {
		return o.holding(out, listed)
	}
	if len(u.Payments.Captures) == 0 {
		out.Outcome = outcome
		return withMoney(out, u.Amount)
	}
	c, ok := u.taken()
	out = c.describe(out)
	if !ok || !listed {
		out.Outcome, out.Status = "", cmp.Or(unlisted(o.Status, listed), c.Status)
	}
	out.Totals = u.totals()
	if h, _ := u.held(); h.Amount != nil && out.Outcome == provider.Processing {
		return withMoney(out, h.Amount) // not taken yet: it is about all that is held
	}
	return withMoney(out, c.Amount)
}

// unlisted is the word of an order that is not on the list.
func unlisted(word string, listed bool) string {
	if listed {
		return ""
	}
	return word
}

// describe writes a capture's part of an object.
func (c capture) describe(o provider.Object) provider.Object {
	o.Status, o.Outcome = c.Status, captureOutcomes[c.Status]
	if o.CreatedAt.IsZero() {
		o.CreatedAt = c.Created.Time
	}
	if o.Outcome != provider.Succeeded {
		o.Reason = provider.Clip(cmp.Or(c.Response.Code, c.StatusDetails.Reason), maxID)
	}
	return o
}

func withMoney(o provider.Object, a *amount) provider.Object {
	if a == nil {
		o.Outcome = unlessFailed(o.Outcome)
		return o
	}
	m, err := a.money()
	if o.Money = m; err != nil {
		o.Money, o.Outcome = provider.Money{Currency: a.Currency}, unlessFailed(o.Outcome)
	}
	return o
}

// unlessFailed: a failure need not repeat the amount, everything else must.
func unlessFailed(o provider.Outcome) provider.Outcome {
	if o == provider.Failed {
		return o
	}
	return ""
}

func (u unit) totals() *provider.Totals {
	h, _ := u.held()
	t := h.totals()
	if c, ok := u.taken(); ok && c.Amount != nil && captureOutcomes[c.Status] == provider.Succeeded {
		t.Captured = c.Amount.minor(c.Amount.Currency)
		for _, r := range u.Payments.Refunds {
			if r.Status == "COMPLETED" {
				t.Refunded += r.Amount.minor(c.Amount.Currency)
			}
		}
	}
	return t
}

// object converts a capture that came alone. It is the order's: the order is what our
// charge made, and what its other answers are about.
func (c capture) object(raw []byte) provider.Object {
	o := c.describe(provider.Object{ID: c.Related.IDs.OrderID, Reference: c.CustomID, Raw: provider.RedactRaw(raw)})
	if c.ofHold() && o.Outcome == provider.Processing {
		return o // of what is held, perhaps a part: how much is, the order says
	}
	if c.ofHold() && o.Outcome == provider.Failed {
		o.Outcome = "" // nothing was taken, and what is held stays held
	}
	return withMoney(o, c.Amount)
}

// ofHold reports whether a capture is of money that was held first. Its link upwards says so
// as well, and is there where the related ids are not.
func (c capture) ofHold() bool {
	var links []struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	_ = json.Unmarshal(c.Links, &links) // links of another shape say nothing
	for _, l := range links {
		if l.Rel == "up" && strings.Contains(l.Href, "/"+authorizationsPath) {
			return true
		}
	}
	return c.Related.IDs.AuthorizationID != ""
}

func decodeCapture(raw []byte) (capture, error) {
	var c capture
	if err := json.Unmarshal(raw, &c); err != nil {
		return capture{}, err
	}
	if len(c.ID) > maxID || len(c.Status) > maxID || len(c.CustomID) > maxText || len(c.Related.IDs.OrderID) > maxID {
		return capture{}, errID
	}
	return c, nil
}

// apiError is PayPal's error object. The token's errors have "error" instead of "name".
type apiError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Error   string `json:"error"`
	Details []struct {
		Field       string `json:"field"`
		Issue       string `json:"issue"`
		Description string `json:"description"`
	} `json:"details"`
}

// code is the most exact word for the error.
func (e apiError) code() string {
	for _, d := range e.Details {
		if d.Issue != "" {
			return provider.Clip(d.Issue, maxID)
		}
	}
	return provider.Clip(cmp.Or(e.Name, e.Error), maxID)
}

func (e apiError) words() string {
	if len(e.Details) == 0 {
		return message(e.Message)
	}
	text := cmp.Or(e.Details[0].Description, e.Message)
	if field := e.Details[0].Field; field != "" {
		text = field + ": " + text
	}
	return message(text)
}

// has reports whether one of the issues is on a list.
func (e apiError) has(list map[string]bool) bool {
	for _, d := range e.Details {
		if list[d.Issue] {
			return true
		}
	}
	return list[e.Name]
}

// hint reads the id of an order that could not be decoded: a whole string under "id" at
// the top level of as much JSON as there is. It is a hint for a lookup, never evidence.
func hint(body []byte) *provider.Object { return provider.Hint(body, "id", isOrderID) }

// isOrderID reports whether a text looks like the id of an order of PayPal's.
func isOrderID(id string) bool {
	return id != "" && len(id) <= 36 && strings.Trim(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func message(s string) string { return provider.Clip(provider.RedactText(s), maxMessage) }
