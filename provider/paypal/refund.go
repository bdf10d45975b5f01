package paypal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"fusebox/provider"
)

var (
	errOperation = errors.New("PayPal cannot do this to an order")
	errCharge    = errors.New("the order's id cannot stand in a path")
	errNoCapture = errors.New("the order has no capture to refund")
	errOrder     = errors.New("the order could not be read")
)

// refundRequest is the request for a refund. The invoice id is the payment's own, so that
// an event about the refund says whose it is.
type refundRequest struct {
	Amount    amount `json:"amount"`
	CustomID  string `json:"custom_id"`
	InvoiceID string `json:"invoice_id,omitempty"`
}

// FreezeOperation implements provider.Operator. The same request always gives the same
// bytes.
func (a *Adapter) FreezeOperation(r provider.OperationRequest) ([]byte, error) {
	switch {
	case !a.Capabilities().Can(r.Kind):
		return nil, &provider.FieldError{Field: "kind", Reason: errOperation.Error()}
	case r.OperationID == "" || len(r.OperationID) > maxText || len(r.PaymentID) > maxText:
		return nil, &provider.FieldError{Field: "reference", Reason: "must have 1 to " + strconv.Itoa(maxText) + " characters"}
	case !pathSafe(r.ProviderPaymentID):
		return nil, &provider.FieldError{Field: "provider_payment_id", Reason: errCharge.Error()}
	case r.Charged != provider.Money{} && (r.Money.Currency != r.Charged.Currency || r.Money.Amount > r.Charged.Amount):
		return nil, &provider.FieldError{Field: "amount", Reason: "is more than the charge took or holds, or in another currency"}
	}
	value, err := wireAmount(r.Money)
	if err != nil {
		return nil, err
	}
	if r.Kind != provider.OpRefund {
		return freezeAction(r.Kind, value)
	}
	return json.Marshal(refundRequest{Amount: value, CustomID: r.OperationID, InvoiceID: r.PaymentID})
}

// Operate implements provider.Operator. PayPal refunds a capture and captures or voids an
// authorisation, and what we know is their order: it is read first, which sends nothing
// that moves money.
func (a *Adapter) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	switch {
	case !a.Capabilities().Can(c.Kind):
		return a.unmadeOf(&provider.LocalError{Err: errOperation}, c.Want)
	case !pathSafe(c.ProviderPaymentID):
		return a.unmadeOf(&provider.LocalError{Err: errCharge}, c.Want)
	case !a.settings.NoKeys && !validKey(c.Key):
		return a.unmadeOf(&provider.LocalError{Err: errKey}, c.Want)
	}
	tok, err := a.tokens.get(ctx)
	if err != nil {
		return a.unsent(ctx, err, c.Want)
	}
	u, out, ok := a.unitOf(ctx, tok, c)
	if !ok {
		return out
	}
	path, err := u.target(c.Kind)
	if err != nil {
		return a.unmadeOf(&provider.LocalError{Err: err}, c.Want)
	}
	if a.late(ctx) {
		return a.unsent(ctx, &tokenError{reason: reasonAuthDown, err: errLate}, c.Want)
	}
	ex := a.caller.Do(ctx, a.post(tok, path, c.Key, c.Body))
	ans := u.readOperated(ex, c)
	out = provider.Charged{Classification: provider.Classify(ex, ans, c.Want), Exchange: ex, Object: ans.Object}
	if a.renew(ex, ans, tok) {
		out.Next, out.Alert = provider.NextRetry, ""
	}
	out.Exchange.Body = provider.Redact(ex.Body)
	return out
}

// unmadeOf is a money call that was not made.
func (a *Adapter) unmadeOf(err error, want provider.Money) provider.Charged {
	ex := a.unmade(err)
	return provider.Charged{Classification: provider.Classify(ex, provider.Answer{}, want), Exchange: ex}
}

// unitOf reads the order an operation is about. Without it, out is why nothing was sent.
func (a *Adapter) unitOf(ctx context.Context, tok token, c provider.OperationCall) (u unit, out provider.Charged, ok bool) {
	ex := a.caller.AskOnce(ctx, get(tok.text, ordersPath+"/"+c.ProviderPaymentID, nil))
	if ex.Status == http.StatusUnauthorized {
		a.tokens.drop(tok)
	}
	o, err := decodeOrder(ex.Body)
	if ex.Err == nil && ex.Status == http.StatusOK && err == nil && o.ID == c.ProviderPaymentID {
		if len(o.Units) == 1 {
			u = o.Units[0]
		}
		return u, out, true
	}
	made := a.unmade(errOrder)
	made.Cancelled, made.Expired = ex.Cancelled, ex.Expired
	out = provider.Charged{Classification: provider.Classify(made, provider.Answer{}, c.Want), Exchange: made}
	out.Health = provider.HealthNeutral // of a question, not of what moves money
	if r := provider.ClassifyLookup(ex, provider.LookupAnswer{DecodeErr: err}, false); !ex.Cancelled {
		out.Reason, out.Alert = r.Reason, r.Alert
	}
	return u, out, false
}

// target is where an operation on an order is asked for.
func (u unit) target(kind provider.OperationKind) (path string, err error) {
	if kind == provider.OpRefund {
		if c, ok := u.taken(); ok && captureOutcomes[c.Status] == provider.Succeeded && pathSafe(c.ID) {
			return capturesPath + c.ID + "/refund", nil
		}
		return "", errNoCapture
	}
	h, sure := u.held()
	switch {
	case !sure || !pathSafe(h.ID):
		return "", errNoHold
	case kind == provider.OpVoid:
		return authorizationsPath + h.ID + "/void", nil
	}
	return authorizationsPath + h.ID + "/capture", nil
}

func (u unit) readOperated(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	if c.Kind == provider.OpRefund {
		return readRefund(ex, c)
	}
	h, _ := u.held()
	return readActed(ex, c, h)
}

// readRefund is the adapter's reading of a refund's answer. It concludes nothing.
func readRefund(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed = true
		return ans
	}
	if ex.Status >= 400 {
		readError(&ans, ex)
		return ans
	}
	r, err := decodeRefund(ex.Body)
	switch {
	case err != nil:
		ans.DecodeErr = err
		return ans
	case r.ID == "" && r.Status == "":
		return ans
	}
	o := r.object(ex.Body, c.ProviderPaymentID)
	ans.Object, ans.Foreign = &o, !r.of(c.OperationID)
	return ans
}

// refundOutcomes is PayPal's list of words for a refund.
var refundOutcomes = map[string]provider.Outcome{
	"COMPLETED": provider.Succeeded,
	"PENDING":   provider.Processing,
	"CANCELLED": provider.Failed,
	"FAILED":    provider.Failed,
}

func decodeRefund(raw []byte) (refund, error) {
	var r refund
	if err := json.Unmarshal(raw, &r); err != nil {
		return refund{}, err
	}
	if len(r.ID) > maxID || len(r.Status) > maxID || len(r.CustomID) > maxText || len(r.InvoiceID) > maxText {
		return refund{}, errID
	}
	return r, nil
}

// reference is our operation id. A refund made elsewhere has its charge's custom id and
// invoice id, which are both our payment id.
func (r refund) reference() string {
	if r.CustomID == r.InvoiceID {
		return ""
	}
	return r.CustomID
}

// of reports whether nothing in a refund says that it is another one's.
func (r refund) of(operationID string) bool {
	ref := r.reference()
	return ref == "" || strings.EqualFold(ref, operationID)
}

// object converts a refund to the engine's vocabulary. raw is its own JSON. A refund does
// not name its order; orderID is empty where that is not known either.
func (r refund) object(raw []byte, orderID string) provider.Object {
	o := provider.Object{
		ID: r.ID, Reference: r.reference(), Status: r.Status, Outcome: refundOutcomes[r.Status],
		CreatedAt: r.Created.Time, Raw: provider.RedactRaw(raw), Kind: provider.ObjectRefund,
		Child: provider.Child{ChargeID: orderID, PaymentID: r.InvoiceID},
	}
	if o.Outcome != provider.Succeeded {
		o.Reason = provider.Clip(r.StatusDetails.Reason, maxID)
	}
	return withMoney(o, r.Amount)
}

// LookupOperation implements provider.Operator. An order lists its refunds, so one that
// is not in it is not there; and it says whether its money is still held.
func (a *Adapter) LookupOperation(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	l := a.newLookup(ctx, provider.LookupQuery{PaymentID: q.PaymentID})
	if a.settings.NoStatusAPI || !a.Capabilities().Can(q.Kind) || !pathSafe(q.ProviderPaymentID) {
		return l.LookedUp
	}
	tok, err := a.tokens.get(ctx)
	if err != nil {
		return l.withoutToken(err)
	}
	l.token = tok.text
	if q.Kind == provider.OpRefund {
		l.refund(q)
	} else {
		l.action(q)
	}
	if l.Exchange.Status == http.StatusUnauthorized {
		a.tokens.drop(tok)
	}
	if len(l.Objects) > 0 {
		l.Verdict, l.Reason = provider.LookupFound, provider.ReasonFound
	}
	return l.LookedUp
}

// refund asks for a refund by its id, and the order for its refunds.
func (l *lookup) refund(q provider.OperationQuery) {
	going, vanished := true, false
	if pathSafe(q.ProviderOperationID) {
		going, vanished = l.refundByID(q)
	}
	switch absent := going && q.OperationID != "" && l.refundByReference(q); {
	case absent && vanished:
		l.Reason = provider.ReasonVanished
	case absent:
		l.Verdict, l.Reason = provider.LookupAbsent, provider.ReasonNotFound
	}
}

// refundByID fetches one refund and reports whether to ask on.
func (l *lookup) refundByID(q provider.OperationQuery) (going, vanished bool) {
	ex, ok := l.ask("v2/payments/refunds/"+q.ProviderOperationID, nil)
	if !ok {
		return false, false
	}
	ans := readOne(ex, func(body []byte) (provider.Object, bool, error) {
		r, err := decodeRefund(body)
		return r.object(body, q.ProviderPaymentID), r.ID == q.ProviderOperationID && r.of(q.OperationID), err
	})
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByID, reading)
	l.Merge(ans.Objects)
	vanished = reading.Reason == provider.ReasonNotFound
	return reading.Verdict == provider.LookupFound || vanished, vanished
}

// refundByReference reads the order's refunds and reports whether ours is not among them.
func (l *lookup) refundByReference(q provider.OperationQuery) (absent bool) {
	ex, ok := l.ask(ordersPath+"/"+q.ProviderPaymentID, nil)
	if !ok {
		return false
	}
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans = readRefunds(ex.Body, q)
	}
	// A 404 is about the order, and says nothing of its refunds.
	reading := provider.ClassifyLookup(ex, ans, ex.Status != http.StatusNotFound)
	l.Note(provider.ByReference, reading)
	l.Merge(ans.Objects)
	return reading.Verdict == provider.LookupAbsent && len(l.Objects) == 0
}

func readRefunds(body []byte, q provider.OperationQuery) (ans provider.LookupAnswer) {
	var o struct {
		ID    string `json:"id"`
		Units []struct {
			Payments struct {
				Refunds []json.RawMessage `json:"refunds"`
			} `json:"payments"`
		} `json:"purchase_units"`
	}
	switch err := json.Unmarshal(body, &o); {
	case !json.Valid(body):
		return provider.LookupAnswer{Malformed: true}
	case err != nil:
		return provider.LookupAnswer{DecodeErr: err}
	case o.ID != q.ProviderPaymentID:
		return provider.LookupAnswer{Ignored: true}
	case len(o.Units) != 1:
		return provider.LookupAnswer{DecodeErr: errUnits}
	}
	for _, raw := range o.Units[0].Payments.Refunds {
		r, err := decodeRefund(raw)
		switch {
		case err != nil:
			return provider.LookupAnswer{DecodeErr: err} // ours, perhaps
		case r.ID != "" && r.reference() != "" && r.of(q.OperationID):
			ans.Objects = append(ans.Objects, r.object(raw, q.ProviderPaymentID))
		}
	}
	return ans
}
