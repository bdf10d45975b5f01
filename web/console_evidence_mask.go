package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"

	"fusebox/provider"
)

// hiddenValue stands where a value was that the page does not show unasked.
const hiddenValue = "•••"

// plainName matches names of JSON members that say what became of a charge, and not
// whose it was. Texts under any other name are hidden; numbers are shown unless
// privateName matches, as amounts go by many names.
var (
	plainName = regexp.MustCompile(`(?i)^(id|object|status|state|result|code|type|currency|reference|livemode|resultcode|pspreference|merchantreference|` +
		`refusalreason(code)?|eventcode|idempotency_key|request_id|(.*[._-])?(status|reason|code|error|type|currency|intent|at|time|date|created|updated|charge|capture|refund))$`)
	privateName = regexp.MustCompile(`(?i)(phone|zip|postal|post_?code|birth|dob|ssn|tax|exp|last_?4|iban|bic|bin|ip|lat|lon|email|account|token|secret|method|card|source|name)`)
)

// masked is a stored JSON body, indented, with what could name a person or a means of
// payment hidden; empty when it is not JSON. What providers write is hostile: it was
// redacted before it was stored, and is again.
func masked(body []byte) string {
	m := masker{dec: json.NewDecoder(bytes.NewReader(provider.Redact(body)))}
	m.dec.UseNumber()
	if m.value("", 0) != nil {
		return ""
	}
	if _, err := m.dec.Token(); err != io.EOF {
		return ""
	}
	return pretty(m.out.Bytes())
}

// masker copies JSON token by token, in the order of its members.
type masker struct {
	dec *json.Decoder
	out bytes.Buffer
}

// maskDepth bounds the recursion; no provider nests like that.
const maskDepth = 100

func (m *masker) value(name string, depth int) error {
	tok, err := m.dec.Token()
	if err != nil || depth > maskDepth {
		return io.ErrUnexpectedEOF
	}
	switch v := tok.(type) {
	case json.Delim:
		return m.container(v, name, depth)
	case string:
		if !plainName.MatchString(name) || privateName.MatchString(name) {
			return m.write(hiddenValue)
		}
	case json.Number:
		if privateName.MatchString(name) {
			return m.write(hiddenValue)
		}
	}
	return m.write(tok)
}

func (m *masker) container(open json.Delim, name string, depth int) error {
	m.out.WriteString(open.String())
	for i := 0; m.dec.More(); i++ {
		if i > 0 {
			m.out.WriteByte(',')
		}
		of := name // the items of a list go by the list's name
		if open == '{' {
			tok, err := m.dec.Token()
			if err != nil {
				return err
			}
			of, _ = tok.(string)
			if err := m.write(of); err != nil {
				return err
			}
			m.out.WriteByte(':')
		}
		if err := m.value(of, depth+1); err != nil {
			return err
		}
	}
	end, err := m.dec.Token()
	if err != nil {
		return err
	}
	if d, ok := end.(json.Delim); ok {
		m.out.WriteString(d.String())
	}
	return nil
}

func (m *masker) write(v any) error {
	enc := json.NewEncoder(&m.out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	m.out.Truncate(max(m.out.Len()-1, 0)) // the encoder's line feed
	return err
}

// digest is the SHA-256 of what was sent, as people compare it.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
