package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fusebox/provider"
)

var (
	errKind   = errors.New("the contract knows no such operation")
	errCharge = errors.New("the charge's id cannot stand in a path")
	errRefund = errors.New("refund without an id")
)

// refundBody is the request of POST /payments/{id}/refunds. The order of its members is
// part of the frozen bytes: append only.
type refundBody struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// FreezeOperation implements provider.Operator. The same request always gives the same
// bytes.
func (a *Adapter) FreezeOperation(r provider.OperationRequest) ([]byte, error) {
	switch {
	case !a.Capabilities().Can(r.Kind):
		return nil, &provider.FieldError{Field: "kind", Reason: errKind.Error()}
	case r.OperationID == "" || len(r.OperationID) > maxID:
		return nil, &provider.FieldError{Field: "reference", Reason: fmt.Sprintf("must have 1 to %d characters", maxID)}
	case !pathSafe(r.ProviderPaymentID):
		return nil, &provider.FieldError{Field: "provider_payment_id", Reason: errCharge.Error()}
	case r.Charged != provider.Money{} && (r.Money.Currency != r.Charged.Currency || r.Money.Amount > r.Charged.Amount):
		return nil, &provider.FieldError{Field: "amount", Reason: "is more than the charge took, or in another currency"}
	}
	if err := r.Money.Validate(); err != nil {
		return nil, err
	}
	if r.Kind != provider.OpRefund {
		return freezeAction(r)
	}
	return encode(refundBody{Reference: r.OperationID, Amount: r.Money.Amount, Currency: r.Money.Currency})
}

// endpoints end the path of each operation.
var endpoints = map[provider.OperationKind]string{
	provider.OpRefund: "refunds", provider.OpCapture: "capture", provider.OpVoid: "void",
}

// Operate implements provider.Operator.
func (a *Adapter) Operate(ctx context.Context, c provider.OperationCall) provider.Charged {
	switch {
	case !a.Capabilities().Can(c.Kind):
		return a.unsendable(errKind, c.Want)
	case !pathSafe(c.ProviderPaymentID):
		return a.unsendable(errCharge, c.Want)
	case (c.Key != "" || !a.settings.NoKeys) && !validKey(c.Key):
		return a.unsendable(errKey, c.Want)
	}
	h := a.moneyHeaders(c.Key)
	path := "payments/" + url.PathEscape(c.ProviderPaymentID) + "/" + endpoints[c.Kind]
	ex := a.caller.Do(ctx, provider.Call{Method: http.MethodPost, Path: path, Header: h, Body: c.Body})
	read := a.readActed
	if c.Kind == provider.OpRefund {
		read = a.readRefunded
	}
	ans := read(ex, c)
	out := provider.Charged{Classification: provider.Classify(ex, ans, c.Want), Exchange: ex, Object: ans.Object}
	out.Exchange.Body = provider.RedactAnswer(ex.Body, ans.Object)
	return out
}

// unsendable is a money call that cannot be made at all, by a fault of ours.
func (a *Adapter) unsendable(err error, want provider.Money) provider.Charged {
	now := a.now()
	ex := provider.Exchange{Method: http.MethodPost, StartedAt: now, DoneAt: now, Err: &provider.LocalError{Err: err}}
	return provider.Charged{Classification: provider.Classify(ex, provider.Answer{}, want), Exchange: ex}
}

// readRefunded is the adapter's reading of a refund's answer. It concludes nothing.
func (a *Adapter) readRefunded(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	var ans provider.Answer
	r, err := decodeRefund(ex.Body)
	if err != nil && !json.Valid(ex.Body) {
		ans.Malformed = true
		ans.Object = refundHint(ex.Body)
		return ans
	}
	if err != nil {
		ans.DecodeErr = err
		ans.Object = refundHint(ex.Body)
		a.readCode(&ans, errorOf(ex.Body), ex.Status)
		return ans
	}
	a.readCode(&ans, r.Error, ex.Status)
	if r.ID == "" && r.Status == "" {
		return ans
	}
	o := r.object(ex.Body)
	ans.Object = &o
	if ans.Message == "" {
		ans.Message = o.Message
	}
	ans.Foreign = o.Reference != "" && !strings.EqualFold(o.Reference, c.OperationID) ||
		o.Child.ChargeID != "" && o.Child.ChargeID != c.ProviderPaymentID ||
		!a.settings.NoKeys && o.OperationKey != "" && o.OperationKey != c.Key
	return ans
}

func refundHint(body []byte) *provider.Object {
	o := hint(body)
	if o != nil {
		o.Kind = provider.ObjectRefund
	}
	return o
}

// LookupOperation implements provider.Operator, by the ways of Lookup.
func (a *Adapter) LookupOperation(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	if q.Kind != provider.OpRefund {
		return a.lookupAction(ctx, q)
	}
	return a.lookup(ctx, a.refundQuestions(q))
}

func (a *Adapter) refundQuestions(q provider.OperationQuery) []question {
	caps := a.Capabilities()
	about := func(o provider.Object) bool {
		return (o.Reference == "" || q.OperationID == "" || strings.EqualFold(o.Reference, q.OperationID)) &&
			(o.Child.ChargeID == "" || q.ProviderPaymentID == "" || o.Child.ChargeID == q.ProviderPaymentID)
	}
	list := func(filter, value string) provider.Call {
		return provider.Call{Method: http.MethodGet, Path: "refunds", Query: url.Values{filter: {value}}}
	}
	var qs []question
	if caps.Has(provider.ByID) && pathSafe(q.ProviderOperationID) {
		qs = append(qs, question{
			way:   provider.ByID,
			call:  provider.Call{Method: http.MethodGet, Path: "refunds/" + url.PathEscape(q.ProviderOperationID)},
			about: func(o provider.Object) bool { return o.ID == q.ProviderOperationID && about(o) },
			read:  readRefund,
		})
	}
	if caps.Has(provider.ByKey) && q.OperationKey != "" {
		qs = append(qs, question{provider.ByKey, list("idempotency_key", q.OperationKey), func(o provider.Object) bool {
			return about(o) && (o.OperationKey == q.OperationKey || o.OperationKey == "" && o.Reference != "")
		}, readRefund})
	}
	if caps.Has(provider.ByReference) && q.OperationID != "" {
		qs = append(qs, question{provider.ByReference, list("reference", q.OperationID), func(o provider.Object) bool {
			return o.Reference != "" && about(o)
		}, readRefund})
	}
	return qs
}

// refund is a refund object in any answer.
type refund struct {
	ID               string    `json:"id"`
	PaymentID        string    `json:"payment_id"`
	PaymentReference string    `json:"payment_reference"`
	Reference        string    `json:"reference"`
	Status           string    `json:"status"`
	Amount           units     `json:"amount"`
	Currency         string    `json:"currency"`
	CreatedAt        string    `json:"created_at"`
	IdempotencyKey   string    `json:"idempotency_key"`
	Error            *apiError `json:"error"`
}

// refundOutcomes is the contract's list of a refund's status words.
var refundOutcomes = map[string]provider.Outcome{
	"succeeded":  provider.Succeeded,
	"processing": provider.Processing,
	"failed":     provider.Failed,
	"canceled":   provider.Failed,
}

// decodeRefund reads one refund object. Members we do not know are ignored.
func decodeRefund(raw []byte) (refund, error) {
	var r refund
	if err := json.Unmarshal(raw, &r); err != nil {
		return refund{}, err
	}
	for _, id := range []string{r.ID, r.PaymentID, r.PaymentReference, r.Reference, r.IdempotencyKey} {
		if len(id) > maxID {
			return refund{}, errID
		}
	}
	return r, nil
}

// readRefund decodes a refund into the engine's vocabulary. What cannot be decoded is a
// refund all the same.
func readRefund(raw []byte) (provider.Object, error) {
	r, err := decodeRefund(raw)
	if err != nil {
		return provider.Object{Kind: provider.ObjectRefund}, err
	}
	return r.object(raw), nil
}

// object converts a refund to the engine's vocabulary. raw is its own JSON.
func (r refund) object(raw []byte) provider.Object {
	created, _ := time.Parse(time.RFC3339Nano, r.CreatedAt) // evidence only: a bad one is no reason to doubt the rest
	o := provider.Object{
		ID: r.ID, Reference: r.Reference, OperationKey: r.IdempotencyKey,
		Status: r.Status, Outcome: refundOutcomes[r.Status],
		Money:     provider.Money{Amount: int64(r.Amount), Currency: r.Currency},
		CreatedAt: created, Raw: provider.RedactRaw(raw),
		Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: r.PaymentID, PaymentID: r.PaymentReference},
	}
	if r.Error != nil {
		o.Reason, o.Message = r.Error.Code, message(r.Error.Message)
	}
	return o
}
