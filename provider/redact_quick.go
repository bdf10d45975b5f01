package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Nearly nothing that is redacted holds anything to hide. This file is about finding that
// out for less than the patterns cost: what it calls clean is, and what it does not is for
// them to decide.

// clean reports whether redaction would change nothing of a JSON text but its white space:
// it is plain ASCII, and no word, number or name in it could match a pattern.
func clean(body []byte) bool {
	text := string(body)
	if strings.ContainsRune(text, '\\') || mayHoldSecret(text) || !json.Valid(body) {
		return false
	}
	for depth, i := 0, 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '{', c == '[':
			if depth++; depth >= maxJSONDepth {
				return false
			}
		case c == '}', c == ']':
			depth--
		case c == '"':
			end := i + 1 + strings.IndexByte(text[i+1:], '"')
			word := text[i+1 : end]
			rest := strings.TrimLeft(text[end+1:], " \t\r\n")
			if mayHoldCard(word) || strings.HasPrefix(rest, ":") && isSecretName(word) {
				return false
			}
			i = end
		case c == '-', c >= '0' && c <= '9':
			n := strings.IndexAny(text[i:], " \t\r\n,]}")
			if n < 0 {
				n = len(text) - i
			}
			if number := text[i : i+n]; n > maxNumber || strings.ContainsAny(number, "eE") || mayHoldCard(number) {
				return false
			}
			i += n - 1
		}
	}
	return true
}

// mayHoldSecret reports whether secretText could match. Outside ASCII the pattern's folding
// has letters of its own, so such a text is always tried.
func mayHoldSecret(s string) bool {
	if !ascii(s) {
		return true
	}
	low := strings.ToLower(s)
	if strings.Contains(low, "eyj") || strings.Contains(low, "bearer") || strings.Contains(low, "basic") || strings.Contains(low, "whsec_") {
		return true
	}
	for _, key := range [...]string{"sk_", "rk_", "pk_"} {
		for at := 0; ; at += len(key) {
			n := strings.Index(low[at:], key)
			if n < 0 {
				break
			}
			if at += n; at == 0 || !wordByte(low[at-1]) {
				return true // not the end of a longer word, such as risk_score
			}
		}
	}
	return false
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// mayHoldCard reports whether cardLike could match: 13 digits in a row, perhaps with single
// spaces or dashes between them.
func mayHoldCard(s string) bool {
	digits, gap := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			if digits, gap = digits+1, false; digits >= 13 {
				return true
			}
		case (c == ' ' || c == '-') && digits > 0 && !gap:
			gap = true
		default:
			digits, gap = 0, false
		}
	}
	return false
}

// isSecretName reports whether the value of a JSON member of this name is never stored.
func isSecretName(s string) bool {
	low := strings.ToLower(s)
	may := !ascii(s) || slices.ContainsFunc(secretEndings, func(end string) bool { return strings.HasSuffix(low, end) })
	return may && secretName.MatchString(s)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// secretEndings are how every name that secretName matches ends, in lower case.
var secretEndings = []string{"password", "passwd", "secret", "token", "authorization", "key", "cvc", "cvc2", "cvv", "cvv2",
	"csc", "code", "number", "pan", "pin"}
