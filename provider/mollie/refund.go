package mollie

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"fusebox/provider"
)

var _ provider.Operator = (*Adapter)(nil)

var (
	errOperation = errors.New("is not done at Mollie")
	errCharge    = errors.New("the payment's id cannot stand in a path")
)

// partRequest is the request for a refund or a capture.
type partRequest struct {
	Amount      amount       `json:"amount"`
	Description string       `json:"description"`
	Metadata    partMetadata `json:"metadata"`
}

// partMetadata is what Mollie hands back with every answer about a refund or a capture.
type partMetadata struct {
	OperationID string `json:"operation_id"`
	PaymentID   string `json:"payment_id,omitempty"`
}

// FreezeOperation implements provider.Operator. The same request always gives the same
// bytes.
func (a *Adapter) FreezeOperation(r provider.OperationRequest) ([]byte, error) {
	switch {
	case !a.Capabilities().Can(r.Kind):
		return nil, &provider.FieldError{Field: "kind", Reason: errOperation.Error()}
	case r.OperationID == "" || len(r.OperationID) > maxText:
		return nil, &provider.FieldError{Field: "reference", Reason: "must have 1 to " + strconv.Itoa(maxText) + " characters"}
	case !pathSafe(r.ProviderPaymentID):
		return nil, &provider.FieldError{Field: "provider_payment_id", Reason: errCharge.Error()}
	case r.Charged != provider.Money{} && (r.Money.Currency != r.Charged.Currency || r.Money.Amount > r.Charged.Amount):
		return nil, &provider.FieldError{Field: "amount", Reason: "is more than the charge took or holds, or in another currency"}
	}
	value, err := provider.WireTable{}.Decimal(r.Money)
	if err != nil {
		return nil, err
	}
	if r.Kind == provider.OpVoid {
		return []byte("{}"), nil // there is no place for our reference: the payment tells what became of it
	}
	title := "Refund "
	if r.Kind == provider.OpCapture {
		title = "Capture "
	}
	return json.Marshal(partRequest{
		Amount: amount{Currency: r.Money.Currency, Value: value}, Description: title + provider.Clip(r.OperationID, 200),
		Metadata: partMetadata{OperationID: r.OperationID, PaymentID: r.PaymentID},
	})
}

// Operate implements provider.Operator.
func (a *Adapter) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	var ex provider.Exchange
	switch {
	case !a.Capabilities().Can(c.Kind):
		ex = a.unmade(errOperation)
	case !pathSafe(c.ProviderPaymentID):
		ex = a.unmade(errCharge)
	default:
		ex = a.post(ctx, paymentsPath+"/"+c.ProviderPaymentID+"/"+endpoints[c.Kind], c.Key, c.Body)
	}
	var ans provider.Answer
	switch c.Kind {
	case provider.OpCapture:
		ans = a.readCaptured(ex, c)
	case provider.OpVoid:
		ans = a.readReleased(ex, c)
	default:
		ans = a.readRefund(ex, c)
	}
	out := provider.Charged{Classification: provider.Classify(ex, ans, c.Want), Exchange: ex, Object: ans.Object}
	out.Exchange.Body = provider.Redact(ex.Body)
	return out
}

// endpoints are what is done to a payment, as the last word of a path.
var endpoints = map[provider.OperationKind]string{
	provider.OpRefund: "refunds", provider.OpCapture: "captures", provider.OpVoid: "release-authorization",
}

func refundsPath(paymentID string) string {
	return paymentsPath + "/" + paymentID + "/" + endpoints[provider.OpRefund]
}

// readRefund is the adapter's reading of a refund's answer. It concludes nothing.
func (a *Adapter) readRefund(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	ans := status(ex)
	if ex.Status >= 400 {
		readError(&ans, ex.Body)
		return ans
	}
	r, err := decodePart(ex.Body, "refund")
	switch {
	case !json.Valid(ex.Body):
		ans.Malformed, ans.Object = true, refundHint(ex.Body)
		return ans
	case err != nil:
		ans.DecodeErr, ans.Object = err, refundHint(ex.Body)
		return ans
	case r.ID == "" && r.Status == "":
		return ans
	}
	o := r.object(ex.Body)
	ans.Object = &o
	ans.Foreign = !r.of(c.OperationID, c.ProviderPaymentID) || !a.ownMode(r.Mode)
	return ans
}

// part is Mollie's refund or capture as far as money depends on it.
type part struct {
	Resource  string          `json:"resource"`
	ID        string          `json:"id"`
	Mode      string          `json:"mode"`
	Status    string          `json:"status"`
	Amount    amount          `json:"amount"`
	PaymentID string          `json:"paymentId"`
	Metadata  json.RawMessage `json:"metadata"`
	CreatedAt stamp           `json:"createdAt"`
}

// refundOutcomes is Mollie's list of words for a refund.
var refundOutcomes = map[string]provider.Outcome{
	"queued":     provider.Processing,
	"pending":    provider.Processing,
	"processing": provider.Processing,
	"refunded":   provider.Succeeded,
	"failed":     provider.Failed,
	"canceled":   provider.Failed,
}

// decodePart reads what is said to be a refund or a capture.
func decodePart(raw []byte, resource string) (part, error) {
	var r part
	if err := json.Unmarshal(raw, &r); err != nil {
		return part{}, err
	}
	switch {
	case r.Resource != "" && r.Resource != resource:
		return part{}, errors.New("not a " + resource)
	case len(r.ID) > maxID || len(r.Status) > maxID || len(r.PaymentID) > maxID:
		return part{}, errID
	}
	return r, nil
}

// metadata is ours, if the refund is: one made in Mollie's dashboard has none.
func (r part) metadata() (m partMetadata) {
	raw := r.Metadata
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, &m) != nil || len(m.OperationID) > maxText || len(m.PaymentID) > maxText {
		return partMetadata{}
	}
	return m
}

// of reports whether nothing in a refund says that it is another one's.
func (r part) of(operationID, paymentID string) bool {
	ref := r.metadata().OperationID
	return (ref == "" || strings.EqualFold(ref, operationID)) && (r.PaymentID == "" || paymentID == "" || r.PaymentID == paymentID)
}

// object converts a refund to the engine's vocabulary. raw is its own JSON.
func (r part) object(raw []byte) provider.Object {
	m := r.metadata()
	o := provider.Object{
		ID: r.ID, Reference: m.OperationID, Status: r.Status, Outcome: refundOutcomes[r.Status],
		CreatedAt: r.CreatedAt.Time, Raw: provider.RedactRaw(raw), Kind: provider.ObjectRefund,
		Child: provider.Child{ChargeID: r.PaymentID, PaymentID: m.PaymentID},
	}
	money, err := r.Amount.money()
	if o.Money = money; err != nil {
		o.Money, o.Outcome = provider.Money{Currency: r.Amount.Currency}, ""
	}
	if o.Outcome == provider.Failed {
		o.Reason = cmp.Or(r.Status, "failed")
	}
	return o
}

// refundHint is the id of a refund that could not be decoded.
func refundHint(body []byte) *provider.Object {
	o := provider.Hint(body, "id", func(id string) bool { return strings.HasPrefix(id, "re_") && pathSafe(id) })
	if o != nil {
		o.Kind = provider.ObjectRefund
	}
	return o
}

// LookupOperation implements provider.Operator. A payment's refunds are a list of their
// own, so one that is not in it is not there.
func (a *Adapter) LookupOperation(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	l := a.newLookup(ctx, provider.LookupQuery{})
	if a.settings.NoStatusAPI || !a.Capabilities().Can(q.Kind) || !pathSafe(q.ProviderPaymentID) {
		return l.LookedUp
	}
	if q.Kind != provider.OpRefund {
		return l.action(q)
	}
	going := true
	if pathSafe(q.ProviderOperationID) {
		going = l.refundByID(q)
	}
	if going && q.OperationID != "" {
		l.refundByReference(q)
	}
	return l.conclude()
}

// refundByID fetches one refund and reports whether to ask on.
func (l *lookup) refundByID(q provider.OperationQuery) bool {
	ex, n := l.caller.Ask(l.ctx, l.get(refundsPath(q.ProviderPaymentID)+"/"+q.ProviderOperationID, nil))
	l.Asked(ex, n)
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		r, err := decodePart(ex.Body, "refund")
		switch {
		case !json.Valid(ex.Body):
			ans.Malformed = true
		case err != nil:
			ans.DecodeErr = err
		case r.ID != q.ProviderOperationID || !r.of(q.OperationID, q.ProviderPaymentID) || !l.ownMode(r.Mode):
			ans.Ignored = true
		default:
			ans.Objects = []provider.Object{r.object(ex.Body)}
		}
	}
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByID, reading)
	l.Merge(ans.Objects)
	l.vanished = l.vanished || reading.Reason == provider.ReasonNotFound
	return reading.Verdict == provider.LookupFound || reading.Reason == provider.ReasonNotFound
}

// refundByReference reads the payment's refunds.
func (l *lookup) refundByReference(q provider.OperationQuery) {
	ex, n := l.caller.Ask(l.ctx, l.get(refundsPath(q.ProviderPaymentID), url.Values{"limit": {strconv.Itoa(pageSize)}}))
	l.Asked(ex, n)
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans = l.readRefunds(ex.Body, q)
	}
	// A 404 is about the payment, and says nothing of its refunds.
	reading := provider.ClassifyLookup(ex, ans, ex.Status != http.StatusNotFound)
	l.Note(provider.ByReference, reading)
	l.Merge(ans.Objects)
	l.absent = reading.Verdict == provider.LookupAbsent && len(l.Objects) == 0
}

func (l *lookup) readRefunds(body []byte, q provider.OperationQuery) (ans provider.LookupAnswer) {
	var shell struct {
		Embedded struct {
			Refunds *[]json.RawMessage `json:"refunds"`
		} `json:"_embedded"`
		Links struct {
			Next json.RawMessage `json:"next"`
		} `json:"_links"`
	}
	switch err := json.Unmarshal(body, &shell); {
	case !json.Valid(body):
		return provider.LookupAnswer{Malformed: true}
	case err != nil:
		return provider.LookupAnswer{DecodeErr: err}
	case shell.Embedded.Refunds == nil:
		return provider.LookupAnswer{DecodeErr: errors.New(`no "_embedded.refunds" list`)}
	}
	ans.More = len(shell.Links.Next) > 0 && string(shell.Links.Next) != "null"
	for _, raw := range *shell.Embedded.Refunds {
		r, err := decodePart(raw, "refund")
		switch {
		case err != nil:
			return provider.LookupAnswer{DecodeErr: err} // ours, perhaps
		case r.PaymentID != "" && r.PaymentID != q.ProviderPaymentID:
			return provider.LookupAnswer{Ignored: true}
		case r.ID != "" && r.metadata().OperationID != "" && r.of(q.OperationID, q.ProviderPaymentID) && l.ownMode(r.Mode):
			ans.Objects = append(ans.Objects, r.object(raw))
		}
	}
	return ans
}
