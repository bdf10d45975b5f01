package provider

import (
	"bytes"
	"unicode/utf8"
)

// Nearly nothing that is redacted holds anything to hide. This file is about finding that
// out for less than the patterns cost: what it calls clean is, and what it does not is for
// them to decide.

// seen is what one look at a text says about it.
type seen uint8

const (
	maySecret seen = 1 << iota // secretText may match
	mayCard                    // cardLike matches: 13 digits in a row, perhaps with single spaces or dashes between them
	wide                       // not ASCII, and perhaps not UTF-8
	unplain                    // with a NUL, or a letter outside ASCII that the patterns fold to one of it
	escapes                    // JSON writes some of it with a backslash
)

// kind is what a byte means to look.
type kind uint8

const (
	other kind = iota
	digit
	gap      // may stand between two digits of a card number
	letter   // of a word, or an underscore
	starter  // a letter that secretText can begin with
	control  // below a space, or a backslash
	wides    // of a character outside ASCII
	unplains // the same, or a NUL; see odd
)

// kinds are the kinds of all bytes.
var kinds = func() (of [256]kind) {
	for c := range of {
		switch b := byte(c); {
		case b == 0, b == 0xC5, b == 0xE2:
			of[c] = unplains
		case b >= 0x80:
			of[c] = wides
		case b < ' ' || b == '\\':
			of[c] = control
		case b == ' ' || b == '-':
			of[c] = gap
		case b >= '0' && b <= '9':
			of[c] = digit
		case bytes.IndexByte([]byte("besrpwBESRPW"), b) >= 0:
			of[c] = starter
		case b == '_' || b|0x20 >= 'a' && b|0x20 <= 'z':
			of[c] = letter
		}
	}
	return of
}()

// look goes through a text once.
func look[T string | []byte](s T) (saw seen) {
	digits, gapped, inWord := 0, false, false
	for i := range len(s) {
		k := kinds[s[i]]
		if k == digit {
			if digits++; digits >= 13 {
				saw |= mayCard
			}
			gapped, inWord = false, true
			continue
		}
		if k == gap && digits > 0 && !gapped {
			gapped, inWord = true, false
			continue
		}
		digits, gapped = 0, false
		switch k {
		case starter:
			if !inWord && mayBegin(s[i:]) {
				saw |= maySecret
			}
			inWord = true
		case letter:
			inWord = true
		case control:
			saw |= escapes
			inWord = false
		case wides:
			saw |= wide
			inWord = false
		case unplains:
			saw |= wide
			if odd(s[i:]) {
				saw |= unplain | escapes
			}
			inWord = false
		default:
			inWord = false
		}
	}
	return saw
}

// odd reports whether text begins with NUL, U+017F or U+212A, which fold to s and k, or
// U+2028 or U+2029, which JSON escapes.
func odd[T string | []byte](s T) bool {
	switch s[0] {
	case 0xC5:
		return len(s) > 1 && s[1] == 0xBF
	case 0xE2:
		return len(s) > 2 && (s[1] == 0x84 && s[2] == 0xAA || s[1] == 0x80 && s[2]&^1 == 0xA8)
	}
	return true
}

// mayBegin reports whether secretText could match ASCII text from its first letter on.
func mayBegin[T string | []byte](s T) bool {
	switch s[0] | 0x20 {
	case 'b':
		return begins(s, "bearer") || begins(s, "basic")
	case 'e':
		return begins(s, "eyj")
	case 'w':
		return begins(s, "whsec_")
	}
	return len(s) > 2 && s[1]|0x20 == 'k' && s[2] == '_'
}

// begins reports whether s begins with a lower-case word, in any case.
func begins[T string | []byte](s T, word string) bool {
	return len(s) >= len(word) && folds(s[:len(word)], word)
}

// folds reports whether s, which is as long, is a lower-case word in any case. Only
// letters have cases.
func folds[T string | []byte](s T, word string) bool {
	for i := range len(word) {
		if c := s[i]; c != word[i] && (c|0x20 != word[i] || word[i] < 'a' || word[i] > 'z') {
			return false
		}
	}
	return true
}

// secretWords are how every name that secretName matches ends, in lower case.
var secretWords = []string{
	"password", "passwd", "secret", "token", "authorization", "apikey", "api_key", "api-key", "cvc", "cvc2", "cvv", "cvv2", "csc",
	"securitycode", "security_code", "security-code", "cardnumber", "card_number", "card-number", "pan", "pin",
	"privatekey", "private_key", "private-key",
}

// secretEndings are the secret words by their last byte, in either case.
var secretEndings = func() (by [256][]string) {
	for _, word := range secretWords {
		last := word[len(word)-1]
		by[last] = append(by[last], word)
		if upper := last &^ 0x20; last >= 'a' {
			by[upper] = append(by[upper], word)
		}
	}
	return by
}()

// isSecretName reports whether the value of a JSON member of this name is never stored.
func isSecretName[T string | []byte](name T) bool {
	return mayBeSecretName(name) && secretName.MatchString(string(name))
}

// mayBeSecretName reports whether secretName could match. Outside ASCII its folding has
// letters of its own, so such a name is always tried.
func mayBeSecretName[T string | []byte](name T) bool {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return true
		}
	}
	if len(name) == 0 {
		return false
	}
	for _, word := range secretEndings[name[len(name)-1]] {
		if n := len(name) - len(word); n >= 0 && folds(name[n:], word) {
			return true
		}
	}
	return false
}

// redactClean is redactJSON for a text of which redaction changes nothing but its white
// space: nothing in it is written with a backslash, and no word, number or name in it matches a pattern. Checking
// that it is JSON, looking and leaving the white space out are one pass. ok is false for
// every other text.
func redactClean(body []byte) (out []byte, ok bool) {
	c := cleanJSON{in: body}
	if !c.value(0) || c.next() != 0 || c.at != len(body) {
		return nil, false
	}
	return append(c.grown(), body[c.from:]...), true
}

// cleanJSON is where redactClean stands in a text.
type cleanJSON struct {
	in, out  []byte
	at, from int // what comes next, and from where it is not in out yet
}

// grown is out with room for all the rest.
func (c *cleanJSON) grown() []byte {
	if c.out == nil {
		c.out = make([]byte, 0, len(c.in))
	}
	return c.out
}

// next skips white space and returns the byte after it; 0 at the end.
func (c *cleanJSON) next() byte {
	if c.at < len(c.in) && c.in[c.at] > ' ' {
		return c.in[c.at]
	}
	return c.skip()
}

func (c *cleanJSON) skip() byte {
	start := c.at
	for ; c.at < len(c.in); c.at++ {
		if b := c.in[c.at]; b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			break
		}
	}
	if c.at > start {
		c.out, c.from = append(c.grown(), c.in[c.from:start]...), c.at
	}
	if c.at == len(c.in) {
		return 0
	}
	return c.in[c.at]
}

// value, and those below, go past what they are named after and report whether it was
// there and is clean.
func (c *cleanJSON) value(depth int) bool {
	switch b := c.next(); {
	case b == '"':
		_, ok := c.word()
		return ok
	case b == '{', b == '[':
		return depth < maxJSONDepth-1 && c.container(b, depth)
	case b == '-', b >= '0' && b <= '9':
		return c.number()
	}
	return c.literal("true") || c.literal("false") || c.literal("null")
}

func (c *cleanJSON) container(open byte, depth int) bool {
	end := open + 2 // in ASCII
	c.at++
	if c.next() == end {
		c.at++
		return true
	}
	for {
		if open == '{' && !c.name() || !c.value(depth+1) {
			return false
		}
		switch c.next() {
		case ',':
			c.at++
		case end:
			c.at++
			return true
		default:
			return false
		}
	}
}

// name goes past a member's name and the colon.
func (c *cleanJSON) name() bool {
	if c.next() != '"' {
		return false
	}
	name, ok := c.word()
	if !ok || c.next() != ':' {
		return false
	}
	c.at++
	return !isSecretName(name)
}

// word goes past a string and returns what is between its quotes.
func (c *cleanJSON) word() (word []byte, ok bool) {
	c.at++
	n := bytes.IndexByte(c.in[c.at:], '"')
	if n < 0 {
		return nil, false
	}
	word = c.in[c.at : c.at+n]
	c.at += n + 1
	saw := look(word)
	switch {
	case saw == 0:
		return word, true
	case saw&escapes != 0, saw&wide != 0 && !utf8.Valid(word):
		return word, false
	}
	return word, saw&(maySecret|mayCard) == 0 || unmasked(word)
}

// unmasked reports whether the patterns leave a text as it is.
func unmasked(text []byte) bool { return RedactText(string(text)) == string(text) }

func (c *cleanJSON) number() bool {
	start := c.at
	if c.in[c.at] == '-' {
		c.at++
	}
	if c.at < len(c.in) && c.in[c.at] == '0' {
		c.at++
	} else if !c.digits() {
		return false
	}
	if c.at < len(c.in) && c.in[c.at] == '.' {
		if c.at++; !c.digits() {
			return false
		}
	}
	if c.at < len(c.in) && c.in[c.at]|0x20 == 'e' {
		return false
	}
	number := c.in[start:c.at]
	return len(number) < 13 || len(number) <= maxNumber && unmasked(number)
}

// digits goes past at least one digit.
func (c *cleanJSON) digits() bool {
	start := c.at
	for c.at < len(c.in) && kinds[c.in[c.at]] == digit {
		c.at++
	}
	return c.at > start
}

func (c *cleanJSON) literal(word string) bool {
	if !bytes.HasPrefix(c.in[c.at:], []byte(word)) {
		return false
	}
	c.at += len(word)
	return true
}
