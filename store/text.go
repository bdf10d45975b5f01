package store

import (
	"strings"

	"github.com/google/uuid"
)

// Text from providers is hostile: Postgres refuses NUL bytes and broken UTF-8, and
// an outcome must never be lost over a header.

// maxIdent is the longest provider id, event key or reference we index; a longer one
// is none.
const maxIdent = 255

// clean makes text storable.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// ident makes an identifier storable, or empty if it cannot be one.
func ident(s string) string {
	if s = clean(s); len(s) > maxIdent {
		return ""
	}
	return s
}

// cleanMap cleans the strings of a JSON object, in depth.
func cleanMap(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[clean(k)] = cleanValue(v)
	}
	return out
}

func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case map[string]any:
		return cleanMap(v)
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = clean(s)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = cleanValue(x)
		}
		return out
	}
	return v
}

// nullUUID is an id that may be absent, for an array of them: pgx encodes one of pointers
// twenty times as slowly.
func nullUUID(id *uuid.UUID) uuid.NullUUID {
	if id == nil {
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: *id, Valid: true}
}
