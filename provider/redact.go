package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
)

// Redacted stands where a secret or a card number was.
const Redacted = "[redacted]"

// maxRedactedRaw caps Object.Raw.
const maxRedactedRaw = 16 << 10

// hiddenNames are names that are all secret, or end in a secret word: after a dash or an
// underscore in any case, and in camel case where a capital begins the word.
const hiddenNames = `(?:(?i:(?:[a-z0-9_-]*[_-])?(?:password|passwd|secret|token|authorization|api[_-]?key|cvc2?|cvv2?|csc|security[_-]?code|card[_-]?number|pan|pin|private[_-]?key))` +
	`|[A-Za-z0-9_-]*[a-z0-9](?:Password|Passwd|Secret|Token|Authorization|A(?:pi|PI)[_-]?Key|C(?:vc|VC|vv|VV)2?|C(?:sc|SC)|SecurityCode|CardNumber|P(?:an|AN)|P(?:in|IN)|PrivateKey))`

// secretName matches names of JSON members whose value is never stored.
var secretName = regexp.MustCompile(`^` + hiddenNames + `$`)

// secretMember matches such a member in text that only looks like JSON: a body cut
// short still shows its secrets. The value may be cut too.
var secretMember = regexp.MustCompile(`("` + hiddenNames + `"\s*:\s*)(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\s",}\]][^\s,}\]]*)`)

// secretText matches secrets by their look, wherever they stand.
var secretText = regexp.MustCompile(`(?i)\b(bearer\s+[a-z0-9._~+/=-]{8,}|basic\s+[a-z0-9+/=]{12,}|(sk|rk|pk|whsec)_[a-z0-9_]{8,}|eyJ[a-z0-9_-]{8,}\.[a-z0-9_-]{4,}\.[a-z0-9_-]*)`)

// cardLike matches 13 to 19 digits, perhaps grouped by single spaces or dashes.
var cardLike = regexp.MustCompile(`\d(?:[ -]?\d){12,18}`)

// Redact returns a body that may be stored and shown: no card numbers, no secrets. JSON
// stays JSON (member order kept, white space not); anything else is treated as text.
// Valid UTF-8 comes out, without NUL, as Postgres wants it.
func Redact(body []byte) []byte {
	if out, ok := redactClean(body); ok {
		return out
	}
	text := storable(string(body)) // first, or a stray byte would keep the JSON from being read as such
	if out, err := redactTokens([]byte(text)); err == nil {
		return out
	}
	return []byte(RedactText(secretMember.ReplaceAllString(text, `${1}"`+Redacted+`"`)))
}

// storable makes s valid UTF-8 without NUL.
func storable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// RedactText masks secrets and card numbers in plain text.
func RedactText(s string) string {
	saw := look(s)
	if saw&wide != 0 {
		s = storable(s)
	}
	if saw&(maySecret|unplain) != 0 {
		s = secretText.ReplaceAllString(s, Redacted)
	}
	if saw&mayCard != 0 {
		s = cardLike.ReplaceAllStringFunc(s, maskCard)
	}
	return s
}

// RedactAnswer is Redact for the body of an answer from which o was read: o.Raw itself where
// that is the whole body, as it is for an answer that is one object. o may be nil. Nobody
// may write to either.
func RedactAnswer(body []byte, o *Object) []byte {
	if o != nil && len(body) > 0 && bytes.Equal(o.Raw, body) {
		return o.Raw // redacted, and the same
	}
	return Redact(body)
}

// RedactRaw is Redact for Object.Raw: always one valid JSON value, capped.
func RedactRaw(raw []byte) []byte {
	out, err := redactJSON(raw)
	if err != nil || len(out) > maxRedactedRaw {
		return []byte(`{"omitted":"not JSON, or too long"}`)
	}
	return out
}

// maskCard keeps the last four digits of what passes the card check sum, and leaves
// everything else (ids, timestamps) alone.
func maskCard(s string) string {
	digits := strings.NewReplacer(" ", "", "-", "").Replace(s)
	if !luhn(digits) {
		return s
	}
	return "[card " + digits[len(digits)-4:] + "]"
}

// luhn reports whether ASCII digits carry a valid card check digit.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// jsonRedactor copies JSON token by token.
type jsonRedactor struct {
	dec *json.Decoder
	out bytes.Buffer
	enc *json.Encoder // onto out, without HTML escapes
}

func redactJSON(body []byte) ([]byte, error) {
	if out, ok := redactClean(body); ok {
		return out, nil
	}
	return redactTokens(body)
}

func redactTokens(body []byte) ([]byte, error) {
	r := jsonRedactor{dec: json.NewDecoder(bytes.NewReader(body))}
	r.dec.UseNumber()
	r.enc = json.NewEncoder(&r.out)
	r.enc.SetEscapeHTML(false)
	if err := r.value(false, 0); err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("provider: more than one JSON value")
	}
	return r.out.Bytes(), nil
}

// maxNumber is the longest number that is kept as one, in bytes.
const maxNumber = 40

// maxJSONDepth bounds the recursion; no provider nests like that.
const maxJSONDepth = 100

var errTooDeep = errors.New("provider: JSON nested too deeply")

func (r *jsonRedactor) value(secret bool, depth int) error {
	if depth > maxJSONDepth {
		return errTooDeep
	}
	tok, err := r.dec.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		return r.container(v, secret, depth)
	case nil:
		r.out.WriteString("null")
	default:
		r.scalar(v, secret)
	}
	return nil
}

func (r *jsonRedactor) scalar(v any, secret bool) {
	switch s := v.(type) {
	case string:
		v = RedactText(s)
	case json.Number:
		// Also keeps numbers no database column could hold (1e999999) as text.
		if masked := RedactText(s.String()); masked != s.String() || len(s) > maxNumber || strings.ContainsAny(s.String(), "eE") {
			v = cut(masked, 100)
		}
	}
	if secret {
		v = Redacted
	}
	r.write(v)
}

// write encodes without HTML escapes; no value that gets here can fail to encode.
func (r *jsonRedactor) write(v any) {
	if err := r.enc.Encode(v); err == nil {
		r.out.Truncate(r.out.Len() - 1) // the encoder's line feed
	}
}

func (r *jsonRedactor) container(open json.Delim, secret bool, depth int) error {
	r.out.WriteString(open.String())
	for i := 0; r.dec.More(); i++ {
		if i > 0 {
			r.out.WriteByte(',')
		}
		hide := secret
		if open == '{' {
			name, err := r.dec.Token()
			if err != nil {
				return err
			}
			s, _ := name.(string)
			hide = hide || isSecretName(s)
			r.write(RedactText(s))
			r.out.WriteByte(':')
		}
		if err := r.value(hide, depth+1); err != nil {
			return err
		}
	}
	end, err := r.dec.Token()
	if err != nil {
		return err
	}
	if d, ok := end.(json.Delim); ok {
		r.out.WriteString(d.String())
	}
	return nil
}
