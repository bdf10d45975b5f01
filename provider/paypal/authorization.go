package paypal

import (
	"cmp"
	"encoding/json"

	"fusebox/provider"
)

// authorization is money that an order holds until somebody takes it or lets it go.
type authorization struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	StatusDetails struct {
		Reason string `json:"reason"`
	} `json:"status_details"`
	CustomID string  `json:"custom_id"`
	Amount   *amount `json:"amount"`
	Created  stamp   `json:"create_time"`
	Updated  stamp   `json:"update_time"`
	Expires  stamp   `json:"expiration_time"`
	Related  related `json:"supplementary_data"`
}

// related names the objects that belong together.
type related struct {
	IDs struct {
		OrderID         string `json:"order_id"`
		AuthorizationID string `json:"authorization_id"`
	} `json:"related_ids"`
}

const statusHeld, statusVoided = "CREATED", "VOIDED"

// authorizationOutcomes is PayPal's list of words for an authorisation. One that was
// captured has a capture, which says the rest.
var authorizationOutcomes = map[string]provider.Outcome{
	statusHeld:   provider.Processing,
	"PENDING":    provider.Processing,
	"DENIED":     provider.Failed,
	"EXPIRED":    provider.Failed,
	statusVoided: provider.Failed,
}

func decodeAuthorization(raw []byte) (authorization, error) {
	var h authorization
	if err := json.Unmarshal(raw, &h); err != nil {
		return authorization{}, err
	}
	if len(h.ID) > maxID || len(h.Status) > maxID || len(h.CustomID) > maxText || len(h.Related.IDs.OrderID) > maxID {
		return authorization{}, errID
	}
	return h, nil
}

// held picks the authorisation that says what became of the money: one that is open, else
// the last. sure is false when more than one is open.
func (u unit) held() (h authorization, sure bool) {
	open := 0
	for _, x := range u.Payments.Authorizations {
		if authorizationOutcomes[x.Status] == provider.Processing {
			h = x
			open++
		} else if open == 0 {
			h = x
		}
	}
	return h, open < 2
}

// lapsed reports whether the provider let go by itself: PayPal's word is the same as for a
// void, and only the time tells.
func (h authorization) lapsed() bool {
	late := !h.Expires.IsZero() && !h.Updated.IsZero() && !h.Updated.Before(h.Expires.Time)
	return h.Status == "EXPIRED" || h.Status == statusVoided && late
}

// describe writes an authorisation's part of an object.
func (h authorization) describe(o provider.Object) provider.Object {
	o.Status, o.Outcome = h.Status, authorizationOutcomes[h.Status]
	if o.CreatedAt.IsZero() {
		o.CreatedAt = h.Created.Time
	}
	switch {
	case h.Status == statusHeld:
		o.Reason, o.Totals = provider.ReasonAuthorised, h.totals()
	case h.lapsed():
		o.Reason, o.Totals = provider.ReasonExpired, h.totals()
	case h.Status == statusVoided:
		o.Reason, o.Totals = provider.ReasonVoided, h.totals()
	default:
		o.Reason = provider.Clip(h.StatusDetails.Reason, maxID)
	}
	return withMoney(o, h.Amount)
}

// totals says what is, or was, held.
func (h authorization) totals() *provider.Totals {
	t := &provider.Totals{AuthorisedUntil: h.Expires.Time}
	if h.Amount != nil {
		t.Authorised = h.Amount.minor(h.Amount.Currency)
	}
	return t
}

// object converts an authorisation that came alone. It is the order's, as a capture is.
func (h authorization) object(raw []byte) provider.Object {
	return h.describe(provider.Object{ID: h.Related.IDs.OrderID, Reference: h.CustomID, Raw: provider.RedactRaw(raw)})
}

// undecided reports whether no capture says what became of an order that holds its money:
// there is none, or only such as took nothing, which leaves the hold as it was.
func (u unit) undecided() bool {
	c, ok := u.taken()
	outcome := captureOutcomes[c.Status]
	return ok && len(u.Payments.Authorizations) > 0 && (len(u.Payments.Captures) == 0 || outcome == provider.Failed)
}

// holding converts an order that holds its money.
func (o order) holding(out provider.Object, listed bool) provider.Object {
	h, sure := o.Units[0].held()
	out = h.describe(out)
	if !sure || !listed {
		out.Outcome, out.Status = "", cmp.Or(unlisted(o.Status, listed), h.Status)
	}
	return out
}
