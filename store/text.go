package store

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Text from providers is hostile: Postgres refuses NUL bytes and broken UTF-8, and
// an outcome must never be lost over a header.

// maxIdent is the longest provider id, event key or reference we index; a longer one
// is none.
const maxIdent = 255

// clean makes text storable.
func clean(s string) string {
	if isClean(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

func isClean(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// ident makes an identifier storable, or empty if it cannot be one.
func ident(s string) string {
	if s = clean(s); len(s) > maxIdent {
		return ""
	}
	return s
}

// cleanMap cleans the strings of a JSON object, in depth. Most are clean and are returned
// as they are.
func cleanMap(m map[string]any) map[string]any {
	if isCleanValue(m) {
		return m
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[clean(k)] = cleanValue(v)
	}
	return out
}

func isCleanValue(v any) bool {
	switch v := v.(type) {
	case string:
		return isClean(v)
	case map[string]any:
		if v == nil {
			return false // it becomes an empty one
		}
		for k, x := range v {
			if !isClean(k) || !isCleanValue(x) {
				return false
			}
		}
	case []string:
		return v != nil && !slices.ContainsFunc(v, func(s string) bool { return !isClean(s) })
	case []any:
		return v != nil && !slices.ContainsFunc(v, func(x any) bool { return !isCleanValue(x) })
	}
	return true
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
