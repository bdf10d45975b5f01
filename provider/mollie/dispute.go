package mollie

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"fusebox/provider"
)

// embedChargebacks asks for a payment's chargebacks with it.
const embedChargebacks = "chargebacks"

// chargeback is Mollie's word for a dispute: the money was taken back, and is given back
// again if the chargeback is reversed. There is no deadline in it, and nothing says that it
// is lost for good.
type chargeback struct {
	Resource   string `json:"resource"`
	ID         string `json:"id"`
	Mode       string `json:"mode"`
	Amount     amount `json:"amount"`
	PaymentID  string `json:"paymentId"`
	CreatedAt  stamp  `json:"createdAt"`
	ReversedAt stamp  `json:"reversedAt"`
	Reason     *struct {
		Code        string `json:"code"`
		Description string `json:"description"`
	} `json:"reason"`
}

var errChargeback = errors.New("not a chargeback that can be read")

func decodeChargeback(raw []byte) (chargeback, error) {
	var c chargeback
	if err := json.Unmarshal(raw, &c); err != nil {
		return chargeback{}, err
	}
	if !fits(c.ID) || !fits(c.PaymentID) || c.Resource != "" && c.Resource != "chargeback" {
		return chargeback{}, errChargeback
	}
	return c, nil
}

// word is the dispute's state.
func (c chargeback) word() string {
	if c.ReversedAt.IsZero() {
		return provider.DisputeOpened
	}
	return provider.DisputeWon
}

// at is when the state was reached.
func (c chargeback) at() time.Time {
	if c.ReversedAt.IsZero() {
		return c.CreatedAt.Time
	}
	return c.ReversedAt.Time
}

// object converts a chargeback to the engine's vocabulary. raw is its own JSON.
func (c chargeback) object(raw []byte) provider.Object {
	o := provider.Object{
		ID: c.ID, Kind: provider.ObjectDispute, Status: c.word(), CreatedAt: c.CreatedAt.Time, Raw: provider.RedactRaw(raw),
		Child: provider.Child{ChargeID: c.PaymentID},
	}
	if c.Reason != nil {
		o.Reason = message(cmp.Or(c.Reason.Description, c.Reason.Code))
	}
	if money, err := c.Amount.money(); err == nil {
		o.Money = money // the amount at risk; zero where it cannot be said
	}
	return o
}

// chargebackEvent reads an event about a chargeback. A reversal whose snapshot knows of
// none is not what Mollie documents.
func (a *Adapter) chargebackEvent(out provider.Event, e event, word string) ([]provider.Event, error) {
	c, err := decodeChargeback(e.Embedded.Entity)
	if err != nil {
		return nil, err
	}
	if e.EntityID != "" && e.EntityID != c.ID || word == "reversed" && c.ReversedAt.IsZero() {
		return nil, errChargeback
	}
	if word != "received" && word != "reversed" || !a.ownMode(c.Mode) {
		return []provider.Event{out}, nil
	}
	out.Interesting, out.Object = true, c.object(e.Embedded.Entity)
	return []provider.Event{out}, nil
}

// chargedBack is the event that a payment's latest chargeback is. One that cannot be read
// is left out: the payment itself is still told.
func (p payment) chargedBack(charge provider.Object) (e provider.Event, ok bool) {
	var last chargeback
	var raw json.RawMessage
	for _, one := range p.Embedded.Chargebacks {
		c, err := decodeChargeback(one)
		if err == nil && c.PaymentID == p.ID && !c.at().Before(last.at()) {
			last, raw, ok = c, one, true
		}
	}
	if !ok {
		return provider.Event{}, false
	}
	o := last.object(raw)
	o.Child.PaymentID = charge.Reference
	return provider.Event{Key: p.ID + ":" + last.ID + ":" + o.Status, Type: "chargeback." + o.Status, Interesting: true, Object: o, OccurredAt: last.at()}, true
}
