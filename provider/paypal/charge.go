package paypal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"fusebox/provider"
)

const ordersPath = "v2/checkout/orders"

// freshToken is how young a token is that PayPal cannot have taken back: when it refuses
// one, our credentials are at fault.
const freshToken = time.Minute

var (
	errKey  = errors.New("the request id is not 1 to 108 printable ASCII characters")
	errLate = errors.New("the token took so long that the charge would not have had its time")
)

// Charge implements provider.Adapter. The token comes first: without one nothing is sent.
func (a *Adapter) Charge(ctx context.Context, key string, body []byte, want provider.Money) provider.Charged {
	if !a.settings.NoKeys && !validKey(key) {
		return a.unmadeOf(&provider.LocalError{Err: errKey}, want)
	}
	tok, err := a.tokenFor(ctx)
	if err != nil {
		return a.unsent(ctx, err, want)
	}
	ex := a.caller.Do(ctx, a.post(tok, ordersPath, key, body))
	ans := read(ex, body)
	c := provider.Charged{Classification: provider.Classify(ex, ans, want), Exchange: ex, Object: ans.Object}
	if a.renew(ex, ans, tok) {
		c.Next, c.Alert = provider.NextRetry, ""
	}
	c.Exchange.Body = provider.RedactAnswer(ex.Body, ans.Object)
	return c
}

// validKey reports whether PayPal takes the key unchanged.
func validKey(key string) bool { return key != "" && len(key) <= 108 && provider.Printable(key) }

// post is a money call.
func (a *Adapter) post(tok token, path, key string, body []byte) provider.Call {
	h := header(tok.text)
	h.Set("Content-Type", "application/json")
	h.Set("Prefer", "return=representation")
	if !a.settings.NoKeys {
		h.Set("Paypal-Request-Id", key)
	}
	return provider.Call{Method: http.MethodPost, Path: path, Header: h, Body: body}
}

// late reports whether less than half of a call's time is left.
func (a *Adapter) late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < a.settings.AnswerTimeout/2
}

// tokenFor returns a token for a charge. A charge is not begun with less than half of its
// time: it would only end unknown.
func (a *Adapter) tokenFor(ctx context.Context) (token, error) {
	tok, err := a.tokens.get(ctx)
	if err != nil {
		return token{}, err
	}
	if a.late(ctx) {
		return token{}, &tokenError{reason: reasonAuthDown, err: errLate}
	}
	return tok, nil
}

// renew reports whether a charge was refused for a token that PayPal took back before its
// time. A 401 executed nothing, so the same key and bytes go out again with a new one. A
// token that is refused while it is fresh is another matter.
func (a *Adapter) renew(ex provider.Exchange, ans provider.Answer, tok token) bool {
	if ex.Err != nil || ex.Status != http.StatusUnauthorized {
		return false
	}
	a.tokens.drop(tok)
	return ans.Code == "invalid_token" && a.now().Sub(tok.obtained) > freshToken
}

// unmade is a call that was not made.
func (a *Adapter) unmade(err error) provider.Exchange {
	at := a.now()
	return provider.Exchange{Method: http.MethodPost, Err: err, StartedAt: at, DoneAt: at}
}

// unsent is a charge without a token: provably not sent, and no word about what takes
// charges.
func (a *Adapter) unsent(ctx context.Context, err error, want provider.Money) provider.Charged {
	ex := a.unmade(err)
	var te *tokenError
	if !errors.As(err, &te) {
		ex.Cancelled = errors.Is(context.Cause(ctx), provider.ErrShutdown) || !errors.Is(ctx.Err(), context.DeadlineExceeded)
		ex.Expired = !ex.Cancelled
	}
	c := provider.Charged{Classification: provider.Classify(ex, provider.Answer{}, want), Exchange: ex}
	c.Health = provider.HealthNeutral
	switch {
	case te == nil && ex.Expired:
		c.Reason = reasonAuthDown
	case te != nil:
		c.Reason = te.reason
		switch wait := te.until.Sub(a.now()); {
		case te.reason == reasonAuthRefused:
			c.Next, c.Alert = provider.NextPause, provider.AlertConfig
		case wait > 0: // known when to come back: no try of the charge is spent on it
			c.Next, c.RetryAfter = provider.NextSnooze, max(wait, time.Second)
		}
	}
	return c
}

// Issues of PayPal's errors that mean more than "not acceptable".
var (
	declines = words(`
		INSTRUMENT_DECLINED TRANSACTION_REFUSED CARD_EXPIRED CARD_CLOSED PAYER_CANNOT_PAY PAYER_ACTION_REQUIRED
		PAYER_ACCOUNT_RESTRICTED PAYER_ACCOUNT_LOCKED_OR_CLOSED PAYEE_BLOCKED_TRANSACTION TRANSACTION_BLOCKED_BY_PAYEE
		TRANSACTION_LIMIT_EXCEEDED REDIRECT_PAYER_FOR_ALTERNATE_FUNDING MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED
		COMPLIANCE_VIOLATION`)
	inProgress  = words(`PREVIOUS_REQUEST_IN_PROGRESS`)
	keyReused   = words(`DUPLICATE_REQUEST_ID`)
	alreadyDone = words(`
		DUPLICATE_INVOICE_ID ORDER_ALREADY_CAPTURED ORDER_COMPLETED_OR_VOIDED ORDER_ALREADY_AUTHORIZED
		AUTHORIZATION_ALREADY_CAPTURED AUTHORIZATION_VOIDED PREVIOUSLY_CAPTURED PREVIOUSLY_VOIDED`)
)

// read is the adapter's reading of a charge's answer. It concludes nothing.
func read(ex provider.Exchange, sent []byte) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed, ans.Object = true, hint(ex.Body)
		return ans
	}
	if ex.Status >= 400 {
		readError(&ans, ex)
		return ans
	}
	o, err := decodeOrder(ex.Body)
	if err != nil {
		ans.DecodeErr, ans.Object = err, hint(ex.Body)
		return ans
	}
	if o.ID == "" && o.Status == "" {
		return ans
	}
	obj := o.object(ex.Body)
	ans.Object, ans.Foreign = &obj, foreign(o, sent)
	return ans
}

func readError(ans *provider.Answer, ex provider.Exchange) {
	var e apiError
	if json.Unmarshal(ex.Body, &e) != nil {
		return
	}
	ans.Code, ans.Message = e.code(), e.words()
	if ex.Status > 499 {
		return
	}
	switch {
	case e.has(inProgress):
		ans.KeyInUse = true
	case e.has(keyReused):
		ans.KeyReused = true
	case e.has(alreadyDone):
		ans.AlreadyDone = true
	case ex.Status == http.StatusUnprocessableEntity:
		ans.Declined = e.has(declines)
	}
}

// foreign reports whether an order is another payment's than was sent. PayPal answers a
// request id with its first order, whatever else the request says.
func foreign(o order, sent []byte) bool {
	var asked creation
	if json.Unmarshal(sent, &asked) != nil || len(asked.Units) == 0 {
		return false
	}
	ours, theirs := asked.Units[0].CustomID, o.reference()
	return ours != "" && theirs != "" && !strings.EqualFold(ours, theirs)
}
