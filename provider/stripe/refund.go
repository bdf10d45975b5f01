package stripe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/form"

	"fusebox/provider"
)

const refundsPath = "/v1/refunds"

// metaOperation is the metadata key of our operation id.
const metaOperation = "operation_id"

var errOperation = errors.New("nothing of the kind is asked of Stripe")

// FreezeOperation implements provider.Operator. Stripe refunds an intent, whole or in
// part, as often as something is left of it.
func (a *Adapter) FreezeOperation(r provider.OperationRequest) ([]byte, error) {
	if !a.Capabilities().Can(r.Kind) {
		return nil, &provider.FieldError{Field: "kind", Reason: errOperation.Error()}
	}
	if r.OperationID == "" || len(r.OperationID) > maxText || len(r.PaymentID) > maxText {
		return nil, &provider.FieldError{Field: "operation_id", Reason: "must have 1 to 500 characters"}
	}
	if r.ProviderPaymentID == "" || !pathSafe(r.ProviderPaymentID) {
		return nil, &provider.FieldError{Field: "provider_payment_id", Reason: "is not the id of a charge"}
	}
	if r.Kind != provider.OpRefund {
		return freezeAction(r)
	}
	amount, err := units(r.Money)
	if err != nil {
		return nil, err
	}
	p := &sdk.RefundCreateParams{
		Amount: sdk.Int64(amount), PaymentIntent: sdk.String(r.ProviderPaymentID),
		Metadata: map[string]string{metaOperation: r.OperationID},
	}
	if r.PaymentID != "" {
		p.Metadata[metaPayment] = r.PaymentID
	}
	var v form.Values
	form.AppendTo(&v, p)
	return []byte(v.Encode()), nil
}

// Operate implements provider.Operator.
func (a *Adapter) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	if ex := a.operable(c); ex != nil {
		return a.conclude(*ex, provider.Answer{}, c.Want)
	}
	if c.Kind != provider.OpRefund {
		ex := a.client.post(ctx, actionPath(c), c.Key, c.Body)
		return a.conclude(ex, a.readActed(ex, c), c.Want)
	}
	ex := a.client.post(ctx, refundsPath, c.Key, c.Body)
	return a.conclude(ex, readRefunded(ex, c), c.Want)
}

// readRefunded is the adapter's reading of a refund's answer. It concludes nothing.
func readRefunded(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed, ans.Object = true, hint(ex.Body, refundPrefix)
		return ans
	}
	if e := errorOf(ex.Body); e != nil {
		readCode(&ans, e, ex)
		return ans
	}
	r, err := decodeRefund(ex.Body)
	if err != nil {
		ans.DecodeErr, ans.Object = err, hint(ex.Body, refundPrefix)
		return ans
	}
	if r.ID == "" && r.Status == "" {
		return ans
	}
	o := r.object(ex.Body)
	ans.Object = &o
	ans.Foreign = o.Reference != "" && !strings.EqualFold(o.Reference, c.OperationID) ||
		o.Child.ChargeID != "" && o.Child.ChargeID != c.ProviderPaymentID
	return ans
}

// LookupOperation implements provider.Operator. The refunds of one charge are a short
// list that Stripe filters itself, so its end is the end.
func (a *Adapter) LookupOperation(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	if q.Kind == provider.OpCapture || q.Kind == provider.OpVoid {
		return a.lookupAction(ctx, q)
	}
	l := lookup{Adapter: a, ctx: ctx, LookedUp: provider.Unanswered()}
	if q.Kind != provider.OpRefund || a.settings.NoStatusAPI {
		return l.LookedUp
	}
	_, l.most = a.settings.WorstCase(a.Capabilities())
	going := true
	if id := q.ProviderOperationID; id != "" && pathSafe(id) {
		going = l.refundByID(id, q)
	}
	if going && q.OperationID != "" && q.ProviderPaymentID != "" && pathSafe(q.ProviderPaymentID) {
		l.refundByReference(q)
	}
	return l.conclude()
}

// refundByID fetches one refund and reports whether to ask on.
func (l *lookup) refundByID(id string, q provider.OperationQuery) bool {
	ex, ok := l.ask(refundsPath+"/"+id, nil)
	if !ok {
		return false
	}
	var ans provider.LookupAnswer
	switch {
	case ex.Status != http.StatusOK || ex.Err != nil:
	case !json.Valid(ex.Body):
		ans.Malformed = true
	default:
		r, err := decodeRefund(ex.Body)
		switch ans.DecodeErr = err; {
		case err != nil:
		case r.ID != id || !r.of(q):
			ans.Ignored = true
		default:
			ans.Objects = []provider.Object{r.object(ex.Body)}
		}
	}
	return l.took(ex, ans)
}

// refundByReference reads the refunds of the charge.
func (l *lookup) refundByReference(q provider.OperationQuery) {
	after := ""
	for range listPages {
		query := url.Values{"payment_intent": {q.ProviderPaymentID}, "limit": {strconv.Itoa(pageSize)}}
		if after != "" {
			query.Set("starting_after", after)
		}
		ex, ok := l.ask(refundsPath, query)
		if !ok {
			break
		}
		var page listing
		var ans provider.LookupAnswer
		if ex.Status == http.StatusOK && ex.Err == nil {
			page, ans = readRefunds(ex.Body, q)
		}
		reading := provider.ClassifyLookup(ex, ans, true)
		l.Note(provider.ByReference, reading)
		l.Merge(ans.Objects)
		switch {
		case reading.Verdict == provider.LookupNoAnswer:
			return
		case !page.more:
			l.absent = len(l.Objects) == 0
			return
		case page.last == "" || page.last == after:
			l.incomplete()
			return
		}
		after = page.last
	}
	l.incomplete()
}

// readRefunds picks ours out of a page of a charge's refunds.
func readRefunds(body []byte, q provider.OperationQuery) (listing, provider.LookupAnswer) {
	page, ans := readList(body)
	for _, raw := range page.data {
		r, err := decodeRefund(raw)
		switch {
		case err != nil && bytes.Contains(raw, []byte(q.OperationID)):
			return page, provider.LookupAnswer{DecodeErr: err} // ours, perhaps
		case err != nil:
		case r.charge() != "" && r.charge() != q.ProviderPaymentID:
			return page, provider.LookupAnswer{Ignored: true} // the filter was ignored
		case r.ID != "" && r.Metadata[metaOperation] != "" && r.of(q):
			ans.Objects = append(ans.Objects, r.object(raw))
		}
	}
	return page, ans
}

// refund is a Refund as far as money depends on it.
type refund struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Status   string            `json:"status"`
	Amount   amount            `json:"amount"`
	Currency string            `json:"currency"`
	Created  stamp             `json:"created"`
	Intent   expandable        `json:"payment_intent"`
	Metadata map[string]string `json:"metadata"`
	Failure  string            `json:"failure_reason"`
}

// expandable is an id, or the object it belongs to where Stripe was asked to expand it.
type expandable string

// UnmarshalJSON implements json.Unmarshaler.
func (e *expandable) UnmarshalJSON(raw []byte) error {
	var id string
	if json.Unmarshal(raw, &id) == nil {
		*e = expandable(id)
		return nil
	}
	var whole struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(raw, &whole)
	*e = expandable(whole.ID)
	return err
}

// refundOutcomes is Stripe's list of a refund's status words.
var refundOutcomes = map[sdk.RefundStatus]provider.Outcome{
	sdk.RefundStatusSucceeded:      provider.Succeeded,
	sdk.RefundStatusPending:        provider.Processing,
	sdk.RefundStatusRequiresAction: provider.Processing, // the payer has to say where the money goes; our part is done
	sdk.RefundStatusFailed:         provider.Failed,
	sdk.RefundStatusCanceled:       provider.Failed,
}

const refundPrefix = "re_"

func decodeRefund(raw []byte) (refund, error) {
	var r refund
	if err := json.Unmarshal(raw, &r); err != nil {
		return refund{}, err
	}
	switch {
	case r.Object != "" && r.Object != "refund":
		return refund{}, fmt.Errorf("not a refund but a %.40q", r.Object)
	case len(r.ID) > maxID || len(r.Intent) > maxID || len(r.Status) > maxID || len(r.Metadata[metaOperation]) > maxText:
		return refund{}, errID
	}
	return r, nil
}

// charge is the id of the intent that is refunded.
func (r refund) charge() string { return string(r.Intent) }

// of reports whether nothing in the refund says that it is another operation's.
func (r refund) of(q provider.OperationQuery) bool {
	ref := r.Metadata[metaOperation]
	return (ref == "" || q.OperationID == "" || strings.EqualFold(ref, q.OperationID)) &&
		(r.charge() == "" || q.ProviderPaymentID == "" || r.charge() == q.ProviderPaymentID)
}

// object converts a refund to the engine's vocabulary.
func (r refund) object(raw []byte) provider.Object {
	o := provider.Object{
		ID: r.ID, Reference: r.Metadata[metaOperation], Status: r.Status, Outcome: refundOutcomes[sdk.RefundStatus(r.Status)],
		CreatedAt: r.Created.time(), Raw: provider.RedactRaw(raw), Reason: message(r.Failure),
		Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: r.charge(), PaymentID: r.Metadata[metaPayment]},
	}
	var ok bool
	currency := strings.ToUpper(r.Currency)
	if o.Money, ok = fromUnits(int64(r.Amount), currency); !ok {
		o.Money, o.Outcome = provider.Money{Currency: currency}, ""
	}
	return o
}
