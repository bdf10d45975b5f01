package adyen

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
)

// maxItems is how many items of a notification are looked at; Adyen sends one in JSON
// and says that there may be a few.
const maxItems = 50

// maxField caps a field of an item.
const maxField = 500

// notification is a standard webhook.
type notification struct {
	live  text
	items []item
}

// item is one event of a notification. The first eight members are signed.
type item struct {
	PSP       string     `json:"pspReference"`
	Original  string     `json:"originalReference"`
	Account   string     `json:"merchantAccountCode"`
	Reference string     `json:"merchantReference"`
	Amount    *wireMoney `json:"amount"`
	Code      string     `json:"eventCode"`
	Success   text       `json:"success"`

	Date   stamp  `json:"eventDate"`
	Reason string `json:"reason"`
	Extra  struct {
		Signature string `json:"hmacSignature"`
		DueBy     stamp  `json:"defensePeriodEndsAt"`
	} `json:"additionalData"`

	raw json.RawMessage
}

// stamp is a time. It is evidence for people, so a bad one is no reason to doubt the rest.
type stamp struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (s *stamp) UnmarshalJSON(token []byte) error {
	var words string
	if json.Unmarshal(token, &words) != nil {
		return nil
	}
	if at, err := time.Parse(time.RFC3339, words); err == nil && at.Year() > 2000 && at.Year() < 3000 {
		s.Time = at.UTC()
	}
	return nil
}

var (
	errNoItems = errors.New("adyen: a notification without items")
	errMany    = fmt.Errorf("adyen: a notification of more than %d items", maxItems)
	errItem    = errors.New("adyen: an item without a usable eventCode, pspReference or success")
)

// read reads a notification. Both Verify and Parse see what it returns, so what is
// signed is what is applied.
func read(raw []byte) (notification, error) {
	var body struct {
		Live  text `json:"live"`
		Items []struct {
			Item json.RawMessage `json:"NotificationRequestItem"`
		} `json:"notificationItems"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return notification{}, err
	}
	switch n := len(body.Items); {
	case n == 0:
		return notification{}, errNoItems
	case n > maxItems:
		return notification{}, errMany
	}
	n := notification{live: body.Live}
	for _, wrapped := range body.Items {
		it := item{raw: wrapped.Item}
		if len(wrapped.Item) == 0 {
			return notification{}, errItem
		}
		if err := json.Unmarshal(wrapped.Item, &it); err != nil {
			return notification{}, err
		}
		if !it.usable() {
			return notification{}, errItem
		}
		n.items = append(n.items, it)
	}
	return n, nil
}

func (it item) usable() bool {
	return fits(it.Code) && fits(it.PSP) && (it.Success == "true" || it.Success == "false") &&
		len(it.Original) <= maxID && len(it.Account) <= maxID && len(it.Reference) <= maxField
}

// fields are the signed ones, in their order.
func (it item) fields() []string {
	value, currency := "", ""
	if it.Amount != nil {
		value, currency = string(it.Amount.Value), it.Amount.Currency
	}
	return []string{it.PSP, it.Original, it.Account, it.Reference, value, currency, it.Code, string(it.Success)}
}

// ambiguous reports whether the fields could be cut in another way once they are joined.
// Adyen's own libraries join them as they are; with a colon in a reference, two
// different items then have one signature. None of our references has one, so such an
// item is taken, and none of its fields is believed.
func (it item) ambiguous() bool {
	for _, f := range it.fields() {
		if strings.ContainsAny(f, `:\`) {
			return true
		}
	}
	return false
}

var escapes = strings.NewReplacer(`\`, `\\`, `:`, `\:`)

// signed are the texts that a signature of the item may be over: its fields with colons
// between them, as Adyen's libraries join them, and escaped, as its documentation did.
func (it item) signed() []string {
	plain := strings.Join(it.fields(), ":")
	if !it.ambiguous() {
		return []string{plain}
	}
	escaped := it.fields()
	for i, f := range escaped {
		escaped[i] = escapes.Replace(f)
	}
	return []string{plain, strings.Join(escaped, ":")}
}

// Verify implements provider.Adapter. The signatures stand in the body, one an item, and
// all of them have to be right. Every active key is tried, in constant time; the label
// is that of the oldest one that was needed. There is no time in them to judge.
func (a *Adapter) Verify(_ http.Header, raw []byte, _ time.Time) provider.Verification {
	n, err := read(raw)
	if err != nil {
		return provider.Verification{Verdict: provider.SignatureMissing}
	}
	oldest := 0
	for _, it := range n.items {
		if it.Extra.Signature == "" {
			return provider.Verification{Verdict: provider.SignatureMissing}
		}
		used := a.signer(it)
		if used == 0 {
			return provider.Verification{Verdict: provider.SignatureInvalid}
		}
		oldest = max(oldest, used)
	}
	return provider.Verification{Verdict: provider.SignatureValid, SecretLabel: strconv.Itoa(oldest)}
}

// signer returns which key signed an item, counted from one; zero for none.
func (a *Adapter) signer(it item) int {
	sig, err := base64.StdEncoding.DecodeString(it.Extra.Signature)
	if err != nil || len(sig) != sha256.Size {
		return 0
	}
	for i, key := range a.keys {
		for _, words := range it.signed() {
			if hmac.Equal(sig, sign(key, words)) {
				return i + 1
			}
		}
	}
	return 0
}

func sign(key []byte, words string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(words))
	return mac.Sum(nil)
}
