package provider

import (
	"bytes"
	"encoding/json"
	"strings"
)

// What every adapter asks of text that a provider wrote.

// Printable reports whether s is ASCII without spaces.
func Printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) < 0
}

// PathSafe reports whether an id of theirs, of at most so many bytes, can be a segment of a
// path as it is: data is no way to another endpoint.
func PathSafe(id string, most int) bool {
	return id != "" && len(id) <= most && Printable(id) && strings.Trim(id, ".") != "" && !strings.ContainsAny(id, `/\?#%`)
}

// Clip shortens s to at most n characters.
func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// Hint is the id in an answer that could not be decoded: a whole string under name at the
// top level of as much JSON as there is, if it looks like an id. It is a hint for a lookup,
// never evidence; nil without one.
func Hint(body []byte, name string, looksRight func(id string) bool) *Object {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for dec.More() {
		member, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil
		}
		var id string
		if member == name && json.Unmarshal(value, &id) == nil && looksRight(id) {
			return &Object{ID: id}
		}
	}
	return nil
}
