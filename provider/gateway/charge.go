package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"fusebox/provider"
)

var errKey = errors.New("the idempotency key is not 1 to 255 printable ASCII characters")

// Charge implements provider.Adapter.
func (a *Adapter) Charge(ctx context.Context, key string, body []byte, want provider.Money) provider.Charged {
	if !validKey(key) {
		return a.unsendable(errKey, want)
	}
	// The key also for a provider without keys: it does no harm there, and the provider may
	// learn to honour it.
	h := a.moneyHeaders(key)
	ex := a.caller.Do(ctx, provider.Call{Method: http.MethodPost, Path: "payments", Header: h, Body: body})
	ans := a.read(ex, key, body)
	c := provider.Charged{Classification: provider.Classify(ex, ans, want), Exchange: ex, Object: ans.Object}
	c.Exchange.Body = provider.RedactAnswer(ex.Body, ans.Object)
	return c
}

// read is the adapter's reading of a charge's answer. It concludes nothing.
func (a *Adapter) read(ex provider.Exchange, key string, sent []byte) provider.Answer {
	var ans provider.Answer
	p, err := decodePayment(ex.Body)
	if err != nil && !json.Valid(ex.Body) {
		ans.Malformed = true
		ans.Object = hint(ex.Body)
		return ans
	}
	if err != nil {
		ans.DecodeErr = err
		ans.Object = hint(ex.Body)
		a.readCode(&ans, errorOf(ex.Body), ex.Status)
		return ans
	}
	a.readCode(&ans, p.Error, ex.Status)
	if p.ID == "" && p.Status == "" {
		return ans
	}
	o := p.object(ex.Body)
	if ex.Replayed {
		o.Totals = nil // as they were at the first answer; refunds may have followed
	}
	ans.Object = &o
	if ans.Message == "" {
		ans.Message = o.Message
	}
	ans.Foreign = a.foreign(o, key, sent)
	return ans
}

// errorOf reads the error member of a body whose payment could not be decoded: a code
// such as "key reused" must not get lost to an oddity next to it.
func errorOf(body []byte) *apiError {
	var shell struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(body, &shell) != nil {
		return nil
	}
	return shell.Error
}

// readCode sorts the error code. The special ones count under any 4xx: read as a plain
// 400 or 422 they would wrongly end the payment.
func (a *Adapter) readCode(ans *provider.Answer, e *apiError, status int) {
	if e == nil {
		return
	}
	ans.Code, ans.Message = e.Code, message(e.Message)
	if e.Field != "" {
		ans.Message = message(e.Field + ": " + e.Message)
	}
	ans.Declined = declines[e.Code]
	if status < 400 || status > 499 {
		return
	}
	switch e.Code {
	case "idempotency_key_in_use":
		ans.KeyInUse = true
	case "idempotency_key_reused":
		ans.KeyReused = true
	case "already_processed", "duplicate_payment", "already_refunded", "already_captured", "already_voided":
		ans.AlreadyDone = true
	}
}

// foreign reports whether an object names another payment than the one sent: an answer
// a proxy or cache mixed up must not settle it.
func (a *Adapter) foreign(o provider.Object, key string, sent []byte) bool {
	if o.Reference != "" && !frozenWith(sent, o.Reference) {
		var asked chargeBody
		if json.NewDecoder(bytes.NewReader(sent)).Decode(&asked) == nil && asked.Reference != "" &&
			!strings.EqualFold(o.Reference, asked.Reference) {
			return true
		}
	}
	return !a.settings.NoKeys && o.OperationKey != "" && o.OperationKey != key
}

// frozenWith reports whether a request begins with a reference, as every one made by Freeze
// does. It is what a decoder would find, for a tenth of the time.
func frozenWith(sent []byte, reference string) bool {
	rest, ok := bytes.CutPrefix(sent, []byte(`{"reference":"`))
	return ok && len(rest) > len(reference) && string(rest[:len(reference)]) == reference && rest[len(reference)] == '"' &&
		!strings.ContainsAny(reference, `"\`)
}
