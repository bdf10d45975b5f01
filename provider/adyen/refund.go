package adyen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fusebox/provider"
)

var errOperation = errors.New("is not done at Adyen")

// modification is the request for something done to a payment; a cancellation, which is of
// all that is held, has no amount.
type modification struct {
	MerchantAccount string  `json:"merchantAccount"`
	Amount          *amount `json:"amount,omitempty"`
	Reference       string  `json:"reference"`
}

// endpoints are where a payment is modified.
var endpoints = map[provider.OperationKind]string{
	provider.OpRefund: "refunds", provider.OpCapture: "captures", provider.OpVoid: "cancels",
}

// FreezeOperation implements provider.Operator. Adyen refunds a payment, whole or in
// part, as often as something is left of it; captures what is held, or a part, and lets go
// of the rest; or lets go of all of it.
func (a *Adapter) FreezeOperation(r provider.OperationRequest) ([]byte, error) {
	refuse := func(field, reason string) error { return &provider.FieldError{Field: field, Reason: reason} }
	switch {
	case endpoints[r.Kind] == "":
		return nil, refuse("kind", errOperation.Error())
	case r.OperationID == "" || len(operationPrefix+r.OperationID) > maxReference || !unambiguous(r.OperationID):
		return nil, refuse("operation_id", fmt.Sprintf("must have 1 to %d printable characters, no colon and no backslash", maxReference-len(operationPrefix)))
	case !pathSafe(r.ProviderPaymentID):
		return nil, refuse("provider_payment_id", "is not the pspReference of a payment")
	case r.Charged != provider.Money{} && (r.Money.Currency != r.Charged.Currency || r.Money.Amount > r.Charged.Amount):
		return nil, refuse("amount", "is more than the charge took or holds, or in another currency")
	}
	n, err := wire.Units(r.Money)
	if err != nil {
		return nil, err
	}
	m := modification{MerchantAccount: a.account, Reference: operationPrefix + r.OperationID}
	if r.Kind != provider.OpVoid {
		m.Amount = &amount{Currency: r.Money.Currency, Value: n}
	}
	return json.Marshal(m)
}

// Operate implements provider.Operator. Adyen's answer is never more than that it has
// received the request; what became of it comes as an event.
func (a *Adapter) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	if endpoints[c.Kind] == "" || !pathSafe(c.ProviderPaymentID) {
		return conclude(a.local(errOperation), provider.Answer{}, c.Want)
	}
	ex := a.post(ctx, "payments/"+c.ProviderPaymentID+"/"+endpoints[c.Kind], c.Key, c.Body)
	ans := readReceived(ex, c)
	if o := ans.Object; o != nil && o.ID != "" && c.Kind != provider.OpRefund {
		// What a capture or void came to shows in the charge; the request's own id, which is
		// all that a hint has, is of no use.
		if o.Kind == provider.ObjectCharge {
			ans.Object = nil
		} else {
			o.ID = o.Child.ChargeID
		}
	}
	return conclude(ex, ans, c.Want)
}

// LookupOperation implements provider.Operator: there is nothing to ask.
func (a *Adapter) LookupOperation(context.Context, provider.OperationQuery) provider.LookedUp {
	return a.Lookup(context.Background(), provider.LookupQuery{})
}

// received is the answer to the request for a modification.
type received struct {
	PSP       string     `json:"pspReference"`
	Payment   string     `json:"paymentPspReference"`
	Reference string     `json:"reference"`
	Status    string     `json:"status"`
	Amount    *wireMoney `json:"amount"`
}

// codeAmount is the error code of a modification over an amount that the payment does not have.
const codeAmount = "137"

// statusReceived is the one word that Adyen answers.
const statusReceived = "received"

// readReceived is the adapter's reading of the answer to a modification. It concludes nothing.
func readReceived(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	ans, done := readCommon(ex)
	if done {
		ans.Declined = ans.Code == codeAmount && ex.Status == http.StatusUnprocessableEntity
		return ans
	}
	var r received
	err := json.Unmarshal(ex.Body, &r)
	if err == nil && (len(r.PSP) > maxID || !provider.Printable(r.PSP) || len(r.Status) > maxID || len(r.Reference) > maxShopper || len(r.Payment) > maxID) {
		err = errID
	}
	if err != nil {
		ans.DecodeErr, ans.Object = err, hint(ex.Body)
		return ans
	}
	if r.PSP == "" && r.Status == "" {
		return ans
	}
	o := r.object(ex.Body, c)
	ans.Object = &o
	ans.Foreign = o.Reference != "" && !strings.EqualFold(o.Reference, c.OperationID) || o.Child.ChargeID != c.ProviderPaymentID
	return ans
}

// object converts the answer to the engine's vocabulary.
func (r received) object(raw []byte, c provider.OperationCall) provider.Object {
	o := provider.Object{
		ID: r.PSP, Reference: strings.TrimPrefix(r.Reference, operationPrefix), Status: r.Status, Raw: provider.RedactRaw(withoutCard(raw)),
		Kind: provider.ObjectKind(c.Kind), Child: provider.Child{ChargeID: r.Payment}, Money: c.Want,
	}
	if r.Status == statusReceived {
		o.Outcome = provider.Processing
	}
	if r.Payment == "" {
		o.Child.ChargeID = c.ProviderPaymentID
	}
	if r.Amount != nil { // it need not be repeated: nothing has moved yet
		var ok bool
		if o.Money, ok = r.Amount.money(); !ok {
			o.Outcome = ""
		}
	}
	return o
}

// pathSafe reports whether an id can be a path segment as it is.
func pathSafe(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' && r != '-'
	}) < 0
}
