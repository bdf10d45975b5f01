package adyen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"fusebox/provider"
)

// transientHeader says of an error that the same key may be used again.
const transientHeader = "Transient-Error"

// maxKey is the length of Adyen's idempotency keys.
const maxKey = 64

// codeInProgress is the error code of a key whose first call is still running.
const codeInProgress = "704"

var errKey = errors.New("the idempotency key is empty or not printable ASCII")

// Charge implements provider.Adapter.
func (a *Adapter) Charge(ctx context.Context, key string, body []byte, want provider.Money) provider.Charged {
	ex := a.post(ctx, "payments", key, body)
	return conclude(ex, readCharge(ex, body), want)
}

// conclude classifies an answer and keeps nothing of it that must not be stored.
func conclude(ex provider.Exchange, ans provider.Answer, want provider.Money) provider.Charged {
	c := provider.Charged{Classification: provider.Classify(ex, ans, want), Exchange: ex, Object: ans.Object}
	c.Exchange.Body = withoutCard(ex.Body)
	return c
}

// post makes the one wire send of a money call.
func (a *Adapter) post(ctx context.Context, path, key string, body []byte) provider.Exchange {
	h := a.header()
	if !a.settings.NoKeys {
		if key == "" || !provider.Printable(key) {
			return a.local(errKey)
		}
		h.Set("Idempotency-Key", wireKey(key))
	}
	return a.caller.Do(ctx, provider.Call{Method: http.MethodPost, Path: path, Header: h, Body: body})
}

// local is a call that we could not even make.
func (a *Adapter) local(err error) provider.Exchange {
	at := a.now()
	return provider.Exchange{Method: http.MethodPost, Err: &provider.LocalError{Err: err}, StartedAt: at, DoneAt: at}
}

// wireKey is the key as Adyen takes it. A longer one is derived, the same every time;
// 256 bits of it collide with nothing.
func wireKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// readCharge is the adapter's reading of a charge's answer. It concludes nothing.
func readCharge(ex provider.Exchange, sent []byte) provider.Answer {
	ans, done := readCommon(ex)
	if done {
		return ans
	}
	p, err := decode(ex.Body)
	if err != nil {
		ans.DecodeErr, ans.Object = err, hint(ex.Body)
		return ans
	}
	if p.PSP == "" && p.Result == "" {
		return ans
	}
	var asked creation
	_ = json.Unmarshal(sent, &asked) // ours; what cannot be read compares with nothing
	o := p.object(ex.Body, asked)
	ans.Object, ans.Message = &o, o.Message
	ans.Foreign = asked.Reference != "" && p.Reference != "" && !strings.EqualFold(asked.Reference, p.Reference)
	return ans
}

// readCommon reads what the answers to all calls have in common. done: there is no
// object to read.
func readCommon(ex provider.Exchange) (ans provider.Answer, done bool) {
	if !json.Valid(ex.Body) {
		ans.Malformed, ans.Object = true, hint(ex.Body)
		ans.KeyInUse = transient(ex)
		return ans, true
	}
	if ex.Status < 400 {
		return ans, false
	}
	var e struct {
		Code    string `json:"errorCode"`
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}
	if json.Unmarshal(ex.Body, &e) == nil {
		ans.Code, ans.Message = provider.Clip(e.Code, maxID), message(e.Message)
		if ans.Message == "" {
			ans.Message = message(e.Detail)
		}
	}
	inProgress := ans.Code == codeInProgress && (ex.Status == http.StatusConflict || ex.Status == http.StatusUnprocessableEntity)
	ans.KeyInUse = inProgress || transient(ex)
	return ans, true
}

// transient reports whether Adyen wants a refused call again under the same key. Of a
// 5xx nothing follows from it but that, which is what happens anyway; 401, 403 and 429
// say more than it does.
func transient(ex provider.Exchange) bool {
	if !strings.EqualFold(ex.Kept.Get(transientHeader), "true") {
		return false
	}
	switch ex.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
