package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"fusebox/provider"
)

// captureBody is the request of POST /payments/{id}/capture, and without an amount that of
// POST /payments/{id}/void. The order of its members is part of the frozen bytes: append only.
type captureBody struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount,omitempty"`
	Currency  string `json:"currency,omitempty"`
}

// freezeAction renders a capture or void, whose common parts were checked.
func freezeAction(r provider.OperationRequest) ([]byte, error) {
	b := captureBody{Reference: r.OperationID}
	if r.Kind == provider.OpCapture {
		b.Amount, b.Currency = r.Money.Amount, r.Money.Currency
	}
	return encode(b)
}

// actionOutcomes is what a charge's status word says of a capture or void of it.
var actionOutcomes = map[provider.OperationKind]map[string]provider.Outcome{
	provider.OpCapture: {
		"succeeded": provider.Succeeded, "requires_capture": provider.Processing, "processing": provider.Processing,
		"canceled": provider.Failed, "failed": provider.Failed,
	},
	provider.OpVoid: {
		"canceled": provider.Succeeded, "requires_capture": provider.Processing, "processing": provider.Processing,
		"succeeded": provider.Failed, "failed": provider.Failed,
	},
}

// action reads what a charge says of a capture or void of it.
func action(kind provider.OperationKind, charge provider.Object, want provider.Money) provider.Object {
	return provider.ActionOf(kind, charge, actionOutcomes[kind][charge.Status], want)
}

// readActed is the adapter's reading of the answer to a capture or void: the charge. It
// concludes nothing.
func (a *Adapter) readActed(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed = true
		return ans
	}
	p, err := decodePayment(ex.Body)
	if err != nil {
		ans.DecodeErr = err
		a.readCode(&ans, errorOf(ex.Body), ex.Status)
		return ans
	}
	a.readCode(&ans, p.Error, ex.Status)
	if p.ID == "" && p.Status == "" {
		return ans
	}
	charge := p.object(ex.Body)
	if ex.Replayed {
		charge.Totals = nil // as they were at the first answer; refunds may have followed
	}
	o := action(c.Kind, charge, c.Want)
	if ex.Status >= 400 && o.Outcome == provider.Processing {
		o.Outcome, o.Money = provider.Failed, provider.Money{} // refused, and the charge is as it was
	}
	ans.Object = &o
	ans.Foreign = charge.ID != "" && charge.ID != c.ProviderPaymentID
	return ans
}

// lookupAction asks the charge what became of a capture or void of it. That it is still
// held is the provider's word that there was none.
func (a *Adapter) lookupAction(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	var qs []question
	if a.Capabilities().Has(provider.ByID) && pathSafe(q.ProviderPaymentID) {
		qs = append(qs, question{
			way:  provider.ByID,
			call: provider.Call{Method: http.MethodGet, Path: "payments/" + url.PathEscape(q.ProviderPaymentID)},
			about: func(o provider.Object) bool {
				return o.ID == q.ProviderPaymentID && ours(o, provider.LookupQuery{PaymentID: q.PaymentID})
			},
			read: readPayment,
		})
	}
	l := a.lookup(ctx, qs)
	for i, charge := range l.Objects {
		if charge.Status == statusHeld {
			l.Verdict, l.Reason, l.Objects = provider.LookupAbsent, provider.ReasonNotFound, nil
			return l
		}
		l.Objects[i] = action(q.Kind, charge, q.Want)
	}
	return l
}
