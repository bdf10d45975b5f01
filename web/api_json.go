package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"fusebox/provider"
)

// jsonObject is a JSON object whose members are read one by one, so that each
// refusal names its field: unknown and doubled members, and every type that is not
// exactly the expected one.
type jsonObject struct {
	path    string // of this object in the body, "" or "customer."
	members map[string]json.RawMessage
	order   []string // as sent
	doubled []string
}

// readJSON reads a request's body as one JSON object. A body that cannot be read at
// all is a *badRequest; echo.ErrUnsupportedMediaType and *http.MaxBytesError pass.
func readJSON(c echo.Context) (*jsonObject, error) {
	kind, params, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if charset := params["charset"]; err != nil || kind != echo.MIMEApplicationJSON ||
		(charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return nil, echo.ErrUnsupportedMediaType
	}
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return nil, bodyError(err)
	}
	return parseObject(body)
}

// bodyError keeps a size refusal and calls the rest a body that did not arrive.
func bodyError(err error) error {
	if p, ok := requestProblem(err); ok && p.Status == 413 {
		return err
	}
	return fmt.Errorf("%w: %w", &badRequest{"body", "did not arrive whole"}, err)
}

// parseObject reads raw as one JSON object and nothing after it.
func parseObject(raw []byte) (*jsonObject, error) {
	if !utf8.Valid(raw) {
		return nil, &badRequest{"body", "is not valid UTF-8"}
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, &badRequest{"body", "is empty"}
	}
	if !json.Valid(raw) {
		return nil, &badRequest{"body", "is not valid JSON" + syntaxPlace(raw)}
	}
	o, ok := splitObject("", raw)
	if !ok {
		return nil, &badRequest{"body", "must be a JSON object"}
	}
	return o, nil
}

// syntaxPlace says where the JSON breaks, if the decoder can tell.
func syntaxPlace(raw []byte) string {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, new(any)); errors.As(err, &syntax) {
		return fmt.Sprintf(" (at byte %d)", syntax.Offset)
	}
	return ""
}

// splitObject takes valid JSON apart; ok is false when it is no object.
func splitObject(path string, raw json.RawMessage) (o *jsonObject, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	o = &jsonObject{path: path, members: map[string]json.RawMessage{}}
	for d.More() {
		t, err := d.Token()
		name, isName := t.(string)
		var value json.RawMessage
		if err != nil || !isName || d.Decode(&value) != nil {
			return nil, false
		}
		if _, have := o.members[name]; have {
			o.doubled = append(o.doubled, name)
			continue
		}
		o.members[name] = value
		o.order = append(o.order, name)
	}
	return o, true
}

// form reads an object's members and gathers what is wrong with them.
type form struct {
	obj    *jsonObject
	read   map[string]bool
	errors *fieldErrors
}

func newForm(o *jsonObject) *form {
	return &form{obj: o, read: map[string]bool{}, errors: &fieldErrors{}}
}

// refuse notes why a member is refused.
func (f *form) refuse(name, reason string) {
	*f.errors = append(*f.errors, fieldError{f.obj.path + name, reason})
}

// member returns a member's raw value; null counts as absent.
func (f *form) member(name string, required bool) (json.RawMessage, bool) {
	f.read[name] = true
	raw, ok := f.obj.members[name]
	if ok && string(raw) != "null" {
		return raw, true
	}
	if required {
		f.refuse(name, "is required")
	}
	return nil, false
}

// text reads a string of least to most characters without control characters; least
// above zero makes it required.
func (f *form) text(name string, least, most int) string {
	raw, ok := f.member(name, least > 0)
	if !ok {
		return ""
	}
	s, ok := jsonText(raw)
	if !ok {
		f.refuse(name, "must be text")
		return ""
	}
	if reason := textReason(s, least, most); reason != "" {
		f.refuse(name, reason)
		return ""
	}
	return s
}

// jsonText decodes a JSON string.
func jsonText(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// textReason says what is wrong with a text, or "". Lengths are in characters. Text
// with nothing to see in it, or with what a screen may hide or turn around, is refused.
func textReason(s string, least, most int) string {
	n := utf8.RuneCountInString(s)
	switch {
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case least > 0 && strings.TrimSpace(s) == "":
		return "is required"
	case n < least:
		return fmt.Sprintf("is shorter than %d characters", least)
	case n > most:
		return fmt.Sprintf("is longer than %d characters", most)
	case strings.IndexFunc(s, unprintable) >= 0:
		return "contains control characters"
	case strings.TrimSpace(s) != s:
		return "begins or ends with a space"
	}
	return ""
}

// unprintable reports control characters, and the bidirectional overrides that can
// make a reference read differently than it is.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || (r >= 0x202A && r <= 0x202E) || (r >= 0x2066 && r <= 0x2069) ||
		r == 0x2028 || r == 0x2029 || r == utf8.RuneError
}

// amount reads a positive integer literal of minor units. 100.5, "100", 1e2 and 100.0
// are refused although some of them have an integer's value: who sends one of them
// may mean major units.
func (f *form) amount(name string) int64 {
	raw, ok := f.member(name, true)
	if !ok {
		return 0
	}
	n, reason := amountOf(string(raw))
	if reason != "" {
		f.refuse(name, reason)
	}
	return n
}

// amountOf reads a raw JSON value as an amount, or says why it is none.
func amountOf(raw string) (n int64, reason string) {
	switch c := raw[0]; {
	case c == '"':
		return 0, "must be an integer in minor units, not text"
	case c != '-' && (c < '0' || c > '9'):
		return 0, "must be an integer in minor units"
	case strings.ContainsAny(raw, ".eE"):
		return 0, "must be an integer in minor units, without point or exponent"
	case c == '-' || raw == "0":
		return 0, "must be greater than zero"
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n > provider.MaxAmount {
		return 0, "is larger than " + strconv.FormatInt(provider.MaxAmount, 10)
	}
	return n, ""
}

// boolean reads an optional true or false.
func (f *form) boolean(name string) bool {
	raw, ok := f.member(name, false)
	if !ok {
		return false
	}
	if s := string(raw); s != "true" && s != "false" {
		f.refuse(name, "must be true or false")
	}
	return string(raw) == "true"
}

// object reads an optional object with read, under its own path.
func (f *form) object(name string, read func(*form)) {
	raw, ok := f.member(name, false)
	if !ok {
		return
	}
	o, ok := splitObject(f.obj.path+name+".", raw)
	if !ok {
		f.refuse(name, "must be an object")
		return
	}
	inner := &form{obj: o, read: map[string]bool{}, errors: f.errors}
	read(inner)
	inner.finish()
}

// Limits of metadata.
const (
	maxMetadata      = 20
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// texts reads an optional object of texts, with names of the caller's choice.
func (f *form) texts(name string) map[string]string {
	out := map[string]string{}
	f.object(name, func(in *form) {
		if len(in.obj.order) > maxMetadata {
			f.refuse(name, fmt.Sprintf("has more than %d members", maxMetadata))
		}
		for _, key := range in.obj.order {
			if reason := textReason(key, 1, maxMetadataKey); reason != "" {
				in.read[key] = true
				f.refuse(name, "has a name that is empty, too long or not printable")
				continue
			}
			out[key] = in.text(key, 0, maxMetadataValue)
		}
	})
	return out
}

// finish refuses what was sent twice or was never asked for, and returns everything
// that is wrong, or nil.
func (f *form) finish() error {
	for _, name := range f.obj.doubled {
		f.refuse(name, "is there more than once")
	}
	for _, name := range f.obj.order {
		if !f.read[name] {
			f.refuse(printable(name), "is not a known field")
		}
	}
	if len(*f.errors) == 0 {
		return nil
	}
	return *f.errors
}

// printable makes a caller's own member name fit for an answer and a log.
func printable(name string) string {
	if textReason(name, 1, maxMetadataKey) == "" {
		return name
	}
	return strconv.QuoteToASCII(cut(name, maxMetadataKey))
}

// cut shortens s to at most n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
