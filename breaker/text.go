package breaker

import "strings"

// short bounds a person's words.
func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), 1000)], "") }

// clean makes text safe as a field of an entry.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '|' || r < ' ' {
			return '_'
		}
		return r
	}, s)
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "")
	}
	return s
}
