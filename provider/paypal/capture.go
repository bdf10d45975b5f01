package paypal

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"fusebox/provider"
)

const (
	authorizationsPath = "v2/payments/authorizations/"
	capturesPath       = "v2/payments/captures/"
)

var errNoHold = errors.New("the order holds no money that could be captured or let go")

// captureRequest is the request for a capture. It is the last: what it does not take is
// let go.
type captureRequest struct {
	Amount amount `json:"amount"`
	Final  bool   `json:"final_capture"`
}

// freezeAction renders a capture or void, whose common parts were checked. PayPal has no
// place for our reference in either: the key is what tells them apart.
func freezeAction(kind provider.OperationKind, value amount) ([]byte, error) {
	if kind == provider.OpVoid {
		return []byte("{}"), nil
	}
	return json.Marshal(captureRequest{Amount: value, Final: true})
}

// readActed is the adapter's reading of the answer to a capture or void of what h held:
// the capture, or the authorisation. It concludes nothing.
func readActed(ex provider.Exchange, c provider.OperationCall, h authorization) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed = true
		return ans
	}
	if ex.Status >= 400 {
		readError(&ans, ex)
		return ans
	}
	if c.Kind == provider.OpVoid {
		return readVoided(ex, c, h)
	}
	return readCaptured(ex, c, h)
}

func readVoided(ex provider.Exchange, c provider.OperationCall, h authorization) (ans provider.Answer) {
	now, err := decodeAuthorization(ex.Body)
	switch {
	case err != nil:
		ans.DecodeErr = err
		return ans
	case now.ID == "" && now.Status == "":
		return ans
	}
	charge := now.describe(provider.Object{ID: c.ProviderPaymentID, Reference: h.CustomID, Raw: provider.RedactRaw(ex.Body)})
	o := action(c.Kind, charge, c.Want)
	ans.Object, ans.Foreign = &o, now.ID != h.ID
	return ans
}

func readCaptured(ex provider.Exchange, c provider.OperationCall, h authorization) (ans provider.Answer) {
	made, err := decodeCapture(ex.Body)
	switch {
	case err != nil:
		ans.DecodeErr = err
		return ans
	case made.ID == "" && made.Status == "":
		return ans
	}
	charge := made.describe(provider.Object{ID: c.ProviderPaymentID, Reference: h.CustomID, Raw: provider.RedactRaw(ex.Body)})
	charge.Totals = h.totals()
	if charge.Outcome == provider.Processing {
		charge = withMoney(charge, h.Amount)
	} else {
		charge = withMoney(charge, made.Amount)
	}
	if charge.Outcome == provider.Succeeded {
		charge.Totals.Captured = charge.Money.Amount
	}
	o := action(c.Kind, charge, c.Want)
	o.ID = made.ID // all that an event about it will name
	if charge.Outcome == provider.Failed {
		o.Child.Charge = nil // the capture took nothing, and what is held stays held
	}
	ans.Object, ans.Foreign = &o, made.foreign(c.ProviderPaymentID, h)
	return ans
}

// foreign reports whether a capture says that it is another one's than of h.
func (c capture) foreign(orderID string, h authorization) bool {
	other := func(theirs, ours string) bool { return theirs != "" && ours != "" && !strings.EqualFold(theirs, ours) }
	return other(c.Related.IDs.OrderID, orderID) || other(c.Related.IDs.AuthorizationID, h.ID) || other(c.CustomID, h.CustomID)
}

// action reads what a charge says of a capture or void of it.
func action(kind provider.OperationKind, charge provider.Object, want provider.Money) provider.Object {
	released := charge.Reason == provider.ReasonVoided || charge.Reason == provider.ReasonExpired
	return provider.ActionOf(kind, charge, provider.ActionOutcome(kind, charge, released), want)
}

// refused converts a capture of held money that took nothing: what was held stays held, and
// nothing is said of its order.
func (c capture) refused(raw []byte) provider.Object {
	o := c.describe(provider.Object{
		ID: c.ID, Kind: provider.ObjectCapture, Raw: provider.RedactRaw(raw),
		Child: provider.Child{ChargeID: c.Related.IDs.OrderID, PaymentID: c.CustomID},
	})
	o.Reason = cmp.Or(o.Reason, reasonRefused)
	return withMoney(o, c.Amount)
}

// reasonRefused is a capture that failed, where PayPal does not say why.
const reasonRefused = "capture_declined"

// action asks the order what became of a capture or void of it. That the money is still
// held is PayPal's word that there was none, unless the capture is known by an id of its
// own, which then says what became of it.
func (l *lookup) action(q provider.OperationQuery) {
	l.byID(q.ProviderPaymentID)
	for i, charge := range l.Objects {
		switch {
		case charge.Status == statusHeld && q.Kind == provider.OpCapture && pathSafe(q.ProviderOperationID):
			l.Objects = nil
			l.ownCapture(q)
			return
		case charge.Status == statusHeld:
			l.Verdict, l.Reason, l.Objects = provider.LookupAbsent, provider.ReasonNotFound, nil
			return
		}
		l.Objects[i] = action(q.Kind, charge, q.Want)
	}
}

// ownCapture asks about a capture by its own id, where its order still holds all its money:
// only that it failed fits that, and anything else is asked again.
func (l *lookup) ownCapture(q provider.OperationQuery) {
	ex, ok := l.ask(capturesPath+q.ProviderOperationID, nil)
	if !ok {
		return
	}
	failed := false
	ans := readOne(ex, func(body []byte) (provider.Object, bool, error) {
		c, err := decodeCapture(body)
		failed = captureOutcomes[c.Status] == provider.Failed
		return c.refused(body), c.ID == q.ProviderOperationID && !c.foreign(q.ProviderPaymentID, authorization{CustomID: q.PaymentID}), err
	})
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByID, reading)
	switch {
	case reading.Reason == provider.ReasonNotFound:
		l.Reason = provider.ReasonVanished
	case failed:
		for i := range ans.Objects {
			ans.Objects[i].Child.ChargeID = q.ProviderPaymentID
		}
		l.Merge(ans.Objects)
	case len(ans.Objects) > 0:
		l.Reason = provider.ReasonContradiction // it took money, or may, of an order that holds all of it
	}
}
