package stripe

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	sdk "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/form"

	"fusebox/provider"
)

// freezeAction renders a capture, which may be of a part and lets go of the rest, or the
// cancellation of what is held. Their common parts were checked.
func freezeAction(r provider.OperationRequest) ([]byte, error) {
	if r.Charged != (provider.Money{}) && (r.Money.Currency != r.Charged.Currency || r.Money.Amount > r.Charged.Amount) {
		return nil, &provider.FieldError{Field: "amount", Reason: "is more than is held, or in another currency"}
	}
	amount, err := units(r.Money)
	if err != nil {
		return nil, err
	}
	var v form.Values
	if r.Kind == provider.OpCapture {
		form.AppendTo(&v, &sdk.PaymentIntentCaptureParams{
			AmountToCapture: sdk.Int64(amount), Metadata: map[string]string{metaOperation: r.OperationID},
		})
	} else {
		form.AppendTo(&v, &sdk.PaymentIntentCancelParams{
			CancellationReason: sdk.String(string(sdk.PaymentIntentCancellationReasonRequestedByCustomer)),
		})
	}
	return []byte(v.Encode()), nil
}

// actionPath is where a capture or void is asked for.
func actionPath(c provider.OperationCall) string {
	if c.Kind == provider.OpVoid {
		return intentsPath + "/" + c.ProviderPaymentID + "/cancel"
	}
	return intentsPath + "/" + c.ProviderPaymentID + "/capture"
}

// action reads what a charge says of a capture or void of it.
func action(kind provider.OperationKind, charge provider.Object, want provider.Money) provider.Object {
	released := charge.Status == string(sdk.PaymentIntentStatusCanceled)
	return provider.ActionOf(kind, charge, provider.ActionOutcome(kind, charge, released), want)
}

// readActed is the adapter's reading of the answer to a capture or void: the intent. It
// concludes nothing.
func (a *Adapter) readActed(ex provider.Exchange, c provider.OperationCall) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed = true
		return ans
	}
	e := errorOf(ex.Body)
	readCode(&ans, e, ex)
	raw := json.RawMessage(ex.Body)
	if e != nil {
		raw = e.PaymentIntent
	}
	if len(raw) == 0 || string(raw) == "null" {
		return ans
	}
	p, err := decodeIntent(raw)
	if err != nil {
		ans.DecodeErr = err
		return ans
	}
	if p.ID == "" && p.Status == "" {
		return ans
	}
	o := action(c.Kind, p.object(raw), c.Want)
	switch {
	case e == nil:
	case o.Outcome == provider.Succeeded: // refused because it is done: look it up
		ans.AlreadyDone = ex.Status < 500
	case o.Outcome == provider.Processing:
		o.Outcome, o.Money = provider.Failed, provider.Money{} // refused, and the intent is as it was
	}
	ans.Object = &o
	ans.Foreign = p.ID != c.ProviderPaymentID || !a.ownMode(p.Livemode)
	return ans
}

// lookupAction asks the intent what became of a capture or void of it. That it is still
// held is Stripe's word that there was none.
func (a *Adapter) lookupAction(ctx context.Context, q provider.OperationQuery) provider.LookedUp {
	l := lookup{Adapter: a, ctx: ctx, q: provider.LookupQuery{PaymentID: q.PaymentID}, LookedUp: provider.Unanswered()}
	if a.settings.NoStatusAPI || q.ProviderPaymentID == "" || !pathSafe(q.ProviderPaymentID) {
		return l.LookedUp
	}
	_, l.most = a.settings.WorstCase(a.Capabilities())
	l.byID(q.ProviderPaymentID)
	found := l.conclude()
	for i, charge := range found.Objects {
		if charge.Status == string(sdk.PaymentIntentStatusRequiresCapture) {
			found.Verdict, found.Reason, found.Objects = provider.LookupAbsent, provider.ReasonNotFound, nil
			return found
		}
		found.Objects[i] = action(q.Kind, charge, q.Want)
	}
	return found
}

// held adds what an intent says about money that is, or was, only held. Nothing can have
// been given back of it while it is; later its totals come with charge.refunded alone.
func (p intent) held(o *provider.Object) {
	switch {
	case p.Status == string(sdk.PaymentIntentStatusRequiresCapture):
		o.Reason, o.Message = provider.ReasonAuthorised, ""
		o.Totals = &provider.Totals{Authorised: o.Money.Amount}
	case p.Status != string(sdk.PaymentIntentStatusCanceled) || !strings.EqualFold(p.CaptureMethod, string(sdk.PaymentIntentCaptureMethodManual)):
	case p.Canceled == string(sdk.PaymentIntentCancellationReasonAutomatic), p.Canceled == string(sdk.PaymentIntentCancellationReasonExpired):
		o.Reason = provider.ReasonExpired
	default:
		o.Reason = provider.ReasonVoided
	}
}

// operable refuses what cannot be sent at all; nil: it can.
func (a *Adapter) operable(c provider.OperationCall) *provider.Exchange {
	var ex provider.Exchange
	switch {
	case !a.Capabilities().Can(c.Kind):
		ex = local(http.MethodPost, errOperation)
	case !validKey(c.Key):
		ex = local(http.MethodPost, errKey)
	case c.Kind != provider.OpRefund && (c.ProviderPaymentID == "" || !pathSafe(c.ProviderPaymentID)):
		ex = local(http.MethodPost, errID)
	default:
		return nil
	}
	return &ex
}
