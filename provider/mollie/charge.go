package mollie

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"fusebox/provider"
)

const paymentsPath = "v2/payments"

var errKey = errors.New("the idempotency key is not 1 to 255 printable ASCII characters")

// Charge implements provider.Adapter.
func (a *Adapter) Charge(ctx context.Context, key string, body []byte, want provider.Money) provider.Charged {
	ex := a.post(ctx, paymentsPath, key, body)
	ans := a.read(ex, body)
	c := provider.Charged{Classification: provider.Classify(ex, ans, want), Exchange: ex, Object: ans.Object}
	c.Exchange.Body = provider.RedactAnswer(ex.Body, ans.Object)
	return c
}

// post makes the one wire send of a money call.
func (a *Adapter) post(ctx context.Context, path, key string, body []byte) provider.Exchange {
	h := a.header()
	h.Set("Content-Type", "application/json")
	if !a.settings.NoKeys {
		if key == "" || len(key) > 255 || !provider.Printable(key) {
			return a.unmade(errKey)
		}
		h.Set("Idempotency-Key", key)
	}
	return a.caller.Do(ctx, provider.Call{Method: http.MethodPost, Path: path, Header: h, Body: body})
}

// unmade is a money call that cannot be made at all, by a fault of ours.
func (a *Adapter) unmade(err error) provider.Exchange {
	at := a.now()
	return provider.Exchange{Method: http.MethodPost, Err: &provider.LocalError{Err: err}, StartedAt: at, DoneAt: at}
}

// read is the adapter's reading of a charge's answer. It concludes nothing.
func (a *Adapter) read(ex provider.Exchange, sent []byte) provider.Answer {
	ans := status(ex)
	if ex.Status >= 400 {
		readError(&ans, ex.Body)
		return ans
	}
	if !json.Valid(ex.Body) {
		ans.Malformed, ans.Object = true, hint(ex.Body)
		return ans
	}
	p, err := decode(ex.Body)
	if err != nil {
		ans.DecodeErr, ans.Object = err, hint(ex.Body)
		return ans
	}
	if p.ID == "" && p.Status == "" {
		return ans
	}
	o := p.object(ex.Body)
	ans.Object = &o
	ans.Message = o.Message
	ans.Foreign = a.foreign(p, sent)
	return ans
}

// readError takes Mollie's words out of an error.
func readError(ans *provider.Answer, body []byte) {
	var e apiError
	switch err := json.Unmarshal(body, &e); {
	case !json.Valid(body):
		ans.Malformed = true
	case err == nil:
		ans.Code, ans.Message = provider.Clip(e.Title, maxID), e.words()
	}
}

// status is what Mollie says by the status alone. Its errors carry no codes.
func status(ex provider.Exchange) provider.Answer {
	return provider.Answer{
		KeyInUse:  ex.Status == http.StatusConflict,
		KeyReused: ex.Status == http.StatusBadRequest,
	}
}

// foreign reports whether a payment is another one's than was sent, or of the other
// mode: an answer that a proxy or cache mixed up must not settle it.
func (a *Adapter) foreign(p payment, sent []byte) bool {
	var asked creation
	if json.Unmarshal(sent, &asked) != nil {
		return false
	}
	ours, theirs := asked.Metadata.PaymentID, p.reference()
	return ours != "" && theirs != "" && !strings.EqualFold(ours, theirs) || !a.ownMode(p.Mode)
}
