package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/stripe/stripe-go/v85"

	"fusebox/provider"
)

const intentsPath = "/v1/payment_intents"

var errKey = errors.New("the idempotency key is not 1 to 255 printable ASCII characters")

// Charge implements provider.Adapter.
func (a *Adapter) Charge(ctx context.Context, key string, body []byte, want provider.Money) provider.Charged {
	var ex provider.Exchange
	if validKey(key) {
		ex = a.client.post(ctx, intentsPath, key, body)
	} else {
		ex = local(http.MethodPost, errKey)
	}
	return a.conclude(ex, a.read(ex, body), want)
}

// conclude classifies a money call's answer.
func (a *Adapter) conclude(ex provider.Exchange, ans provider.Answer, want provider.Money) provider.Charged {
	if ex.StartedAt.IsZero() { // stopped before the caller saw it
		ex.StartedAt = a.now()
		ex.DoneAt = ex.StartedAt
	}
	c := provider.Charged{Classification: provider.Classify(ex, ans, want), Exchange: ex, Object: ans.Object}
	c.Exchange.Body = provider.RedactAnswer(ex.Body, ans.Object)
	return c
}

// read is the adapter's reading of a charge's answer. It concludes nothing.
func (a *Adapter) read(ex provider.Exchange, sent []byte) provider.Answer {
	var ans provider.Answer
	if !json.Valid(ex.Body) {
		ans.Malformed, ans.Object = true, hint(ex.Body, intentPrefix)
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
		ans.DecodeErr, ans.Object = err, hint(raw, intentPrefix)
		return ans
	}
	if p.ID == "" && p.Status == "" {
		return ans
	}
	if e != nil && p.LastError == nil {
		p.LastError = &e.failure
	}
	o := p.object(raw)
	ans.Object = &o
	ans.Foreign = a.foreign(p, sent)
	return ans
}

// readCode sorts the error. Stripe tells a key in use from a key reused by code and
// status; both have the type idempotency_error.
func readCode(ans *provider.Answer, e *apiError, ex provider.Exchange) {
	if e == nil {
		return
	}
	ans.Code, ans.Message = e.code(), message(e.Message)
	if e.Param != "" {
		ans.Message = message(e.Param + ": " + e.Message)
	}
	ans.Declined = declines[sdk.ErrorCode(e.Code)]
	if ex.Status < 400 || ex.Status > 499 {
		return
	}
	switch about := e.Type == string(sdk.ErrorTypeIdempotency); {
	case e.Code == string(sdk.ErrorCodeIdempotencyKeyInUse), about && ex.Status == http.StatusConflict:
		ans.KeyInUse = true
	case about:
		ans.KeyReused = true
	case ans.Declined || ex.Status == http.StatusPaymentRequired:
	case e.Type == string(sdk.ErrorTypeCard):
		ans.Declined = true
	case shouldRetry(ex) && undecided(ex.Status):
		// "Not now, ask again": the same as a first call that still runs, and no refusal.
		ans.KeyInUse = true
	}
}

// undecided reports whether a status would end the payment, or nobody has listed it.
// The others (401, 403, 408, 425, 429) say by themselves that nothing was decided.
func undecided(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return true
}

// foreign reports whether an intent is another payment's than the one sent, or of the
// other mode: an answer that a proxy or cache mixed up must not settle it.
func (a *Adapter) foreign(p intent, sent []byte) bool {
	asked, err := url.ParseQuery(string(sent))
	if err != nil {
		return false
	}
	ours, theirs := asked.Get("metadata["+metaPayment+"]"), p.reference()
	return ours != "" && theirs != "" && !strings.EqualFold(ours, theirs) || !a.ownMode(p.Livemode)
}

// ownMode reports whether nothing says that an object is of the other mode.
func (a *Adapter) ownMode(livemode *bool) bool { return livemode == nil || *livemode == a.live }
